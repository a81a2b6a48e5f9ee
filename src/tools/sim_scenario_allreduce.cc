// The ring all-reduce, by packets and by flows.
#include <algorithm>

#include "sim/audit_hash.h"
#include "sim/flow_level.h"
#include "tools/sim_scenario_common.h"

namespace braid::tools {
namespace {

/// A ring of hosts in which each passes a chunk on 2 * (hosts - 1) times, each pass after the one
/// before has arrived: reduce-scatter, then all-gather. The arithmetic in between takes no time.
class Ring {
 public:
  Ring(SimWorld& world, std::uint32_t hosts, std::uint64_t chunk_bytes)
      : world_(world), chunk_bytes_(chunk_bytes), steps_(2 * (hosts - 1)), done_(hosts, 0) {}

  bool connect(std::uint32_t host, std::uint32_t next, const ChannelOptions& options) {
    SimFlow* flow = world_.connect(host, next, options);
    if (flow == nullptr) return false;
    flow->number = host;
    flow->on_received = [this](SimFlow& from, TimePoint now) { on_chunk(from, now); };
    flows_.push_back(flow);
    return true;
  }
  void start() {
    for (SimFlow* flow : flows_) flow->send(chunk_bytes_, world_.fabric().now());
  }
  [[nodiscard]] std::uint32_t steps() const noexcept { return steps_; }
  [[nodiscard]] const std::vector<SimFlow*>& flows() const noexcept { return flows_; }
  [[nodiscard]] TimePoint finished() const noexcept { return finished_; }

 private:
  void on_chunk(const SimFlow& from, TimePoint now) {
    const auto receiver = (from.number + 1) % static_cast<std::uint32_t>(flows_.size());
    finished_ = std::max(finished_, now);
    if (++done_[receiver] < steps_) flows_[receiver]->send(chunk_bytes_, now);
  }

  SimWorld& world_;
  std::uint64_t chunk_bytes_;
  std::uint32_t steps_;
  std::vector<std::uint32_t> done_;  // chunks received, by host
  std::vector<SimFlow*> flows_;
  TimePoint finished_{};
};

sim::ClosOptions ring_clos(std::uint32_t hosts) {
  sim::ClosOptions clos;
  if (hosts > 2048) {
    // Three levels: pods of 1024 hosts.
    clos.pods = (hosts + 1023) / 1024;
    clos.cores = 64;
  }
  clos.hosts = hosts;
  clos.hosts_per_leaf = std::min(hosts / 2, 32U);
  clos.spines = std::max(1U, clos.hosts_per_leaf / 2);
  clos.fabric.rate_bits_per_s = 200 * kGbit;  // half as many links, each twice as fast
  return clos;
}

/// Links from leafs to the first spine of the first pod: what dies with it.
std::vector<sim::LinkId> links_of_first_spine(const sim::ClosOptions& clos) {
  std::vector<sim::LinkId> out;
  const std::uint32_t hosts_per_pod = (clos.hosts + clos.pods - 1) / clos.pods;
  const std::uint32_t leafs = (hosts_per_pod + clos.hosts_per_leaf - 1) / clos.hosts_per_leaf;
  for (std::uint32_t leaf = 0; leaf < leafs; ++leaf) {
    out.push_back(static_cast<sim::LinkId>(clos.hosts + leaf * clos.spines));
  }
  return out;
}

std::string measure(const ScenarioOptions& options, const Policy& policy, const Report& report) {
  const std::uint32_t hosts = options.hosts != 0 ? options.hosts : 64;
  const std::uint64_t bytes = options.bytes != 0 ? options.bytes : 64 * kMib;
  if (hosts < 4) return "a ring needs 4 hosts";
  const sim::ClosOptions clos = ring_clos(hosts);
  const sim::Topology topology = sim::make_clos(clos);
  sim::FabricOptions fabric = scenario_fabric(options.seed);
  fabric.max_qp_per_port = 64;
  SimWorld world(topology, fabric, std::max(bytes, kMib));
  if (!world.failure().empty()) return world.failure();
  const std::uint64_t chunk = bytes / hosts;
  Ring ring(world, hosts, chunk);
  Random random(options.seed);
  ChannelOptions channel;
  channel.segment_bytes = 64U << 10U;
  channel.window_segments = 128;
  channel.receive_depth = 32;
  channel.read_depth = 0;
  channel.operation_capacity = channel.notification_capacity = 16;
  channel.ack_timeout_exponent = 8;
  policy.apply(channel);
  for (std::uint32_t host = 0; host < hosts; ++host) {
    scatter_lanes(channel, options.lanes != 0 ? options.lanes : 4, random);
    if (!ring.connect(host, (host + 1) % hosts, channel)) return world.failure();
  }
  if (options.has_background) {
    // An eighth of the hosts also send to the other half, all the time of the first steps.
    for (std::uint32_t host = 0; host < hosts; host += 8) {
      SimFlow* flow = world.connect(host, (host + hosts / 2) % hosts, channel);
      if (flow == nullptr) return world.failure();
      flow->send(bytes / 4, world.fabric().now());
    }
  }
  if (options.spine_fails) {
    // And the leafs notice.
    for (const sim::LinkId link : links_of_first_spine(clos)) {
      (void)world.fabric().schedule({.at = TimePoint(std::chrono::microseconds(100)),
                                     .kind = sim::FaultKind::kLinkDown,
                                     .link = link});
    }
  }
  ring.start();
  if (!world.run()) return world.failure();
  Measurement out = begin_measurement("allreduce", policy, options);
  out.bytes = bytes;
  out.time_ns = ring.finished().time_since_epoch().count();
  // Every pass at the NIC's rate. A chunk goes round the whole ring twice, so the mean of the ways
  // counts: two hops within a rack, four from its last host to the next rack.
  const std::uint32_t racks = (hosts + clos.hosts_per_leaf - 1) / clos.hosts_per_leaf;
  const std::int64_t mean_way_ns = 2000 + (racks > 1 ? 2000 * racks / hosts : 0);
  const auto optimum = static_cast<double>(ring.steps()) *
                       static_cast<double>(fluid_ns(chunk, 100 * kGbit, mean_way_ns));
  out.ratio_to_optimum = static_cast<double>(out.time_ns) / optimum;
  out.utilisation = 1 / out.ratio_to_optimum;
  out.audit_hash = world.fabric().audit_hash();
  const sim::FabricCounters counters = world.fabric().counters();
  out.more = {{"hosts", hosts},
              {"step_ns", static_cast<double>(out.time_ns) / ring.steps()},
              {"packets", static_cast<double>(counters.delivered_packets)},
              {"dropped_packets", static_cast<double>(counters.dropped_packets)},
              {"background", options.has_background ? 1 : 0},
              {"spine_fails", options.spine_fails ? 1 : 0}};
  report(out);
  return "";
}

/// One pass of the ring, all hosts at once, as fluids; every pass takes as long.
std::string measure_flows(const ScenarioOptions& options, sim::FlowLevel::Split split,
                          const Report& report) {
  const std::uint32_t hosts = options.hosts != 0 ? options.hosts : 64;
  const std::uint64_t bytes = options.bytes != 0 ? options.bytes : 64 * kMib;
  if (hosts < 4) return "a ring needs 4 hosts";
  const sim::ClosOptions clos = ring_clos(hosts);
  const sim::Topology topology = sim::make_clos(clos);
  sim::FlowLevel level(topology, options.seed);
  if (options.spine_fails) {
    for (const sim::LinkId link : links_of_first_spine(clos)) level.remove_link(link);
  }
  const std::uint64_t chunk = bytes / hosts;
  Random random(options.seed);
  ChannelOptions lanes;
  for (std::uint32_t host = 0; host < hosts; ++host) {
    scatter_lanes(lanes, options.lanes != 0 ? options.lanes : 4, random);
    level.add(topology.ports()[host], topology.ports()[(host + 1) % hosts], lanes.source_ports,
              wire_bytes(chunk), split);
  }
  if (options.has_background) {
    for (std::uint32_t host = 0; host < hosts; host += 8) {
      level.add(topology.ports()[host], topology.ports()[(host + hosts / 2) % hosts],
                lanes.source_ports, wire_bytes(bytes / 4), split);
    }
  }
  level.run();
  std::int64_t slowest_ns = 0;
  sim::AuditHash audit;
  for (std::uint32_t host = 0; host < hosts; ++host) {
    slowest_ns = std::max(slowest_ns, level.end_ns(host));
    audit.add(static_cast<std::uint64_t>(level.end_ns(host)));
  }
  if (slowest_ns == INT64_MAX) return "a host has no way to the next";
  const std::uint32_t steps = 2 * (hosts - 1);
  Measurement out;
  out.scenario = "allreduce";
  out.policy = split == sim::FlowLevel::Split::kEven ? "flows/even" : "flows/pooled";
  out.seed = options.seed;
  out.bytes = bytes;
  out.time_ns = slowest_ns * steps;
  out.ratio_to_optimum =
      static_cast<double>(slowest_ns) / static_cast<double>(fluid_ns(chunk, 100 * kGbit, 0));
  out.utilisation = 1 / out.ratio_to_optimum;
  out.audit_hash = audit.value();
  out.more = {{"hosts", hosts},
              {"step_ns", static_cast<double>(slowest_ns)},
              {"flows", static_cast<double>(level.flow_count())},
              {"background", options.has_background ? 1 : 0},
              {"spine_fails", options.spine_fails ? 1 : 0}};
  report(out);
  return "";
}

}  // namespace

std::string run_allreduce(const ScenarioOptions& options, const Report& report) {
  if (options.flow_level) {
    std::string failure = measure_flows(options, sim::FlowLevel::Split::kEven, report);
    if (!failure.empty()) return failure;
    return measure_flows(options, sim::FlowLevel::Split::kPooled, report);
  }
  return for_policies(options,
                      [&](const Policy& policy) { return measure(options, policy, report); });
}

}  // namespace braid::tools
