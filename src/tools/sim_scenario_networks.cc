// Scenarios of many hosts: collide, incast, crossdc.
#include <algorithm>
#include <numeric>

#include "tools/sim_scenario_common.h"

namespace braid::tools {
namespace {

constexpr std::uint64_t kNicRate = 100 * kGbit;

/// A non-blocking Clos of two levels: as many spines as hosts per leaf.
sim::ClosOptions even_clos(std::uint32_t hosts) {
  sim::ClosOptions clos;
  clos.hosts = hosts;
  clos.hosts_per_leaf = 4;
  clos.spines = 4;
  return clos;
}

/// RoCE as data centres run it: senders are paused before a queue overflows.
void make_lossless(sim::ClosOptions& clos) {
  clos.nic.pause_bytes = clos.fabric.pause_bytes = 128U << 10U;
  clos.nic.queue_bytes = clos.fabric.queue_bytes = 8U << 20U;
}

TimePoint last_received(const std::vector<SimFlow*>& flows) {
  TimePoint last{};
  for (const SimFlow* flow : flows) last = std::max(last, flow->received);
  return last;
}

/// Sums a counter of both directions over all links.
template <typename Get>
double sum_links(SimWorld& world, std::size_t links, Get get) {
  double sum = 0;
  for (std::uint32_t i = 0; i < links; ++i) {
    for (const bool from_first : {true, false}) {
      sum += static_cast<double>(get(world.fabric().link_counters(sim::LinkId(i), from_first)));
    }
  }
  return sum;
}

std::string measure_collide(const ScenarioOptions& options, const Policy& policy,
                            std::uint32_t lanes, const Report& report) {
  const std::uint32_t hosts = options.hosts != 0 ? options.hosts : 16;
  const std::uint64_t bytes = options.bytes != 0 ? options.bytes : 16 * kMib;
  sim::ClosOptions clos = even_clos(hosts);
  make_lossless(clos);
  SimWorld world(sim::make_clos(clos), scenario_fabric(options.seed), bytes);
  if (!world.failure().empty()) return world.failure();
  // Each host sends to the one a leaf further: a permutation in which all traffic crosses spines.
  Random random(options.seed);
  std::vector<SimFlow*> flows;
  for (std::uint32_t host = 0; host < hosts; ++host) {
    ChannelOptions channel;
    scatter_lanes(channel, lanes, random);
    channel.ack_timeout_exponent = 10;  // 4 ms: round trips of microseconds, and pauses
    policy.apply(channel);
    flows.push_back(world.connect(host, (host + 4) % hosts, channel));
    if (flows.back() == nullptr) return world.failure();
  }
  for (SimFlow* flow : flows) flow->send(bytes, world.fabric().now());
  if (!world.run()) return world.failure();
  Measurement out = begin_measurement("collide", policy, options);
  out.bytes = bytes;
  out.time_ns = last_received(flows).time_since_epoch().count();
  const auto optimum = static_cast<double>(fluid_ns(bytes, kNicRate, 4000));
  out.ratio_to_optimum = static_cast<double>(out.time_ns) / optimum;
  double sum = 0;
  for (const SimFlow* flow : flows) {
    sum += optimum / static_cast<double>((flow->received - flow->started).count());
  }
  out.utilisation = sum / hosts;
  out.audit_hash = world.fabric().audit_hash();
  double moves = 0;
  for (const SimFlow* flow : flows) {
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      moves += static_cast<double>(flow->sender().lane_stats(lane).moves);
    }
  }
  out.more = {{"lanes", lanes},
              {"hosts", hosts},
              {"moves", moves},
              {"percent_by_last", 100 / out.ratio_to_optimum},
              {"dropped_packets", static_cast<double>(world.fabric().counters().dropped_packets)}};
  report(out);
  return "";
}

std::string measure_incast(const ScenarioOptions& options, const Policy& policy, bool lossless,
                           const Report& report) {
  const std::uint32_t senders = options.hosts != 0 ? options.hosts : 15;
  const std::uint64_t bytes = options.bytes != 0 ? options.bytes : 4 * kMib;
  sim::ClosOptions clos = even_clos(senders + 1);
  if (lossless) make_lossless(clos);
  clos.nic.mark_bytes = clos.fabric.mark_bytes = 200U << 10U;
  const sim::Topology topology = sim::make_clos(clos);
  SimWorld world(topology, scenario_fabric(options.seed), bytes);
  if (!world.failure().empty()) return world.failure();
  Random random(options.seed);
  std::vector<SimFlow*> flows;
  for (std::uint32_t host = 1; host <= senders; ++host) {
    ChannelOptions channel;
    scatter_lanes(channel, options.lanes != 0 ? options.lanes : 4, random);
    channel.ack_timeout_exponent = 10;
    policy.apply(channel);
    flows.push_back(world.connect(host, 0, channel));
    if (flows.back() == nullptr) return world.failure();
  }
  for (SimFlow* flow : flows) flow->send(bytes, world.fabric().now());
  if (!world.run()) return world.failure();
  Measurement out = begin_measurement("incast", policy, options);
  out.bytes = bytes;
  out.time_ns = last_received(flows).time_since_epoch().count();
  out.ratio_to_optimum = static_cast<double>(out.time_ns) /
                         static_cast<double>(fluid_ns(bytes * senders, kNicRate, 2000));
  out.utilisation = 1 / out.ratio_to_optimum;
  out.audit_hash = world.fabric().audit_hash();
  const std::size_t links = topology.links().size();
  using sim::LinkCounters;
  out.more = {
      {"lossless", lossless ? 1 : 0},
      {"senders", senders},
      {"dropped_packets", static_cast<double>(world.fabric().counters().dropped_packets)},
      {"retransmitted_packets", static_cast<double>(world.retransmitted_packets())},
      {"marked_packets", sum_links(world, links, [](const LinkCounters& c) { return c.marked; })},
      {"paused_ns", sum_links(world, links, [](const LinkCounters& c) { return c.paused_ns; })}};
  report(out);
  return "";
}

/// Bytes that the receiver has at most had to keep track of out of order.
double reorder_bytes(const SimFlow& flow) {
  return static_cast<double>(flow.receiver().stats().reorder_high_water) *
         static_cast<double>(flow.sender().options().segment_bytes);
}

std::string measure_crossdc(const ScenarioOptions& options, const Policy& policy,
                            const Report& report) {
  const std::uint64_t bytes = options.bytes != 0 ? options.bytes : 64 * kMib;
  sim::MultiDcOptions dcs;
  dcs.dc = even_clos(8);
  dcs.long_links = 4;
  dcs.long_link.delay = std::chrono::milliseconds(1);
  dcs.long_link.queue_bytes = 16U << 20U;
  const sim::Topology topology = sim::make_multi_dc(dcs);
  sim::FabricOptions fabric = scenario_fabric(options.seed);
  fabric.window_packets = 4096;  // 16 MiB: more than 100 Gb/s times a round trip in four lanes
  fabric.min_timeout = std::chrono::milliseconds(8);
  SimWorld world(topology, fabric, bytes);
  if (!world.failure().empty()) return world.failure();
  Random random(options.seed);
  struct Class {
    const char* name;
    std::size_t from, to;
    std::int64_t one_way_ns;
    SimFlow* flow = nullptr;
  };
  std::vector<Class> classes{
      {"rack", 0, 1, 2000}, {"cross_rack", 2, 6, 4000}, {"cross_dc", 3, 11, 1'006'000}};
  for (Class& one : classes) {
    ChannelOptions channel;
    scatter_lanes(channel, options.lanes != 0 ? options.lanes : 4, random);
    channel.ack_timeout_exponent = 12;
    policy.apply(channel);
    one.flow = world.connect(one.from, one.to, channel);
    if (one.flow == nullptr) return world.failure();
  }
  for (Class& one : classes) one.flow->send(bytes, world.fabric().now());
  if (!world.run()) return world.failure();
  const std::size_t links = topology.links().size();
  double queue = 0;
  for (std::size_t i = links - dcs.long_links; i < links; ++i) {
    const auto counters =
        world.fabric().link_counters(static_cast<sim::LinkId>(i), true).queue_high_water_bytes;
    queue = std::max(queue, static_cast<double>(counters));
  }
  for (const Class& one : classes) {
    Measurement out = begin_measurement("crossdc", policy, options);
    out.bytes = bytes;
    out.time_ns = (one.flow->received - one.flow->started).count();
    out.ratio_to_optimum = static_cast<double>(out.time_ns) /
                           static_cast<double>(fluid_ns(bytes, kNicRate, one.one_way_ns));
    out.utilisation = 1 / out.ratio_to_optimum;
    out.audit_hash = world.fabric().audit_hash();
    out.policy += std::string("/") + one.name;
    out.more = {{"reorder_bytes", reorder_bytes(*one.flow)}, {"long_queue_bytes", queue}};
    report(out);
  }
  return "";
}

}  // namespace

std::string run_collide(const ScenarioOptions& options, const Report& report) {
  return for_policies(options, [&](const Policy& policy) {
    std::string failure;
    for (const std::uint32_t lanes : {1U, 4U, 8U, 16U}) {
      if (options.lanes != 0 && options.lanes != lanes) continue;
      if (failure.empty()) failure = measure_collide(options, policy, lanes, report);
    }
    return failure;
  });
}

std::string run_incast(const ScenarioOptions& options, const Report& report) {
  return for_policies(options, [&](const Policy& policy) {
    const std::string failure = measure_incast(options, policy, false, report);
    return failure.empty() ? measure_incast(options, policy, true, report) : failure;
  });
}

std::string run_crossdc(const ScenarioOptions& options, const Report& report) {
  return for_policies(
      options, [&](const Policy& policy) { return measure_crossdc(options, policy, report); });
}

}  // namespace braid::tools
