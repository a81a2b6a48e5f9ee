// Scenarios of one channel over a handful of paths: asym, linkflap, blackhole.
#include <algorithm>
#include <array>

#include "tools/sim_scenario_common.h"

namespace braid::tools {

namespace {
// Some ten round trips, with the queues that pauses make.
constexpr Duration kRepathAfter = std::chrono::microseconds(200);
}  // namespace

const std::vector<Policy>& policies() {
  static const std::vector<Policy> kAll = [] {
    std::vector<Policy> all;
    for (const SchedulerPolicy policy :
         {SchedulerPolicy::kStaticSplit, SchedulerPolicy::kRoundRobin, SchedulerPolicy::kDqplb,
          SchedulerPolicy::kAdaptive}) {
      all.push_back({std::string(to_string(policy)),
                     [policy](ChannelOptions& options) { options.policy = policy; }});
    }
    all.push_back({"adaptive_repath", [](ChannelOptions& options) {
                     options.policy = SchedulerPolicy::kAdaptive;
                     options.repath_after = kRepathAfter;
                   }});
    return all;
  }();
  return kAll;
}

namespace {

constexpr std::uint32_t kPaths = 4;
constexpr std::int64_t kOneWayNs = 3000;  // NIC cable, path, NIC cable

sim::Topology four_paths(std::uint64_t last_rate_bits_per_s) {
  std::vector<sim::LinkOptions> paths(kPaths);
  paths.back().rate_bits_per_s = last_rate_bits_per_s;
  sim::LinkOptions nic;
  nic.rate_bits_per_s = 400 * kGbit;
  return sim::make_direct(paths, nic);
}

std::string measure_asym(const ScenarioOptions& options, const Policy& policy, std::uint64_t bytes,
                         const Report& report) {
  SimWorld world(four_paths(25 * kGbit), scenario_fabric(options.seed), bytes);
  if (!world.failure().empty()) return world.failure();
  ChannelOptions channel;
  pin_lanes(channel, kPaths);
  policy.apply(channel);
  SimFlow* flow = world.connect(0, 1, channel);
  if (flow == nullptr) return world.failure();
  flow->send(bytes, world.fabric().now());
  if (!world.run()) return world.failure();
  Measurement out = begin_measurement("asym", policy, options);
  out.bytes = bytes;
  out.time_ns = (flow->received - flow->started).count();
  const std::int64_t optimum = fluid_ns(bytes, 325 * kGbit, kOneWayNs);
  out.ratio_to_optimum = static_cast<double>(out.time_ns) / static_cast<double>(optimum);
  out.utilisation = 1 / out.ratio_to_optimum;
  out.audit_hash = world.fabric().audit_hash();
  for (std::uint32_t lane = 0; lane < kPaths; ++lane) {
    out.more.emplace_back("lane" + std::to_string(lane) + "_bytes",
                          static_cast<double>(flow->sender().lane_stats(lane).completed_bytes));
  }
  report(out);
  return "";
}

/// One put of `bytes` over four equal paths while the second path fails as `events` say.
std::string measure_fault(const char* scenario, const ScenarioOptions& options,
                          const Policy& policy, const std::vector<sim::FaultEvent>& events,
                          const Report& report) {
  const std::uint64_t bytes = options.bytes != 0 ? options.bytes : 256 * kMib;
  SimWorld world(four_paths(100 * kGbit), scenario_fabric(options.seed), bytes);
  if (!world.failure().empty()) return world.failure();
  ChannelOptions channel;
  pin_lanes(channel, kPaths);
  channel.ack_timeout_exponent = 8;  // 1 ms: paths of microseconds
  policy.apply(channel);
  SimFlow* flow = world.connect(0, 1, channel);
  if (flow == nullptr) return world.failure();
  for (const sim::FaultEvent& event : events) {
    if (!world.fabric().schedule(event).ok()) return "an event cannot be scheduled";
  }
  flow->send(bytes, world.fabric().now());
  if (!world.run()) return world.failure();
  Measurement out = begin_measurement(scenario, policy, options);
  out.bytes = bytes;
  out.time_ns = (flow->received - flow->started).count();
  // Of the network without the fault.
  const std::int64_t optimum = fluid_ns(bytes, 400 * kGbit, kOneWayNs);
  out.ratio_to_optimum = static_cast<double>(out.time_ns) / static_cast<double>(optimum);
  out.utilisation = 1 / out.ratio_to_optimum;
  out.audit_hash = world.fabric().audit_hash();
  std::uint64_t replayed = 0;
  for (std::uint32_t lane = 0; lane < kPaths; ++lane) {
    replayed += flow->sender().lane_stats(lane).replayed_segments;
  }
  const ChannelStats stats = flow->sender().stats();
  out.more = {{"lane_failures", static_cast<double>(stats.lane_failures)},
              {"lane_recoveries", static_cast<double>(stats.lane_recoveries)},
              {"replayed_bytes", static_cast<double>(replayed * channel.segment_bytes)},
              {"retransmitted_packets", static_cast<double>(world.retransmitted_packets())},
              {"extra_ns", static_cast<double>(out.time_ns - optimum)}};
  report(out);
  return "";
}

sim::FaultEvent on_second_path(sim::FaultKind kind, Duration at) {
  return {.at = TimePoint(at), .kind = kind, .link = sim::LinkId(1)};
}

}  // namespace

std::string run_asym(const ScenarioOptions& options, const Report& report) {
  std::vector<std::uint64_t> sizes{kMib,      4 * kMib,   8 * kMib,   16 * kMib,
                                   64 * kMib, 256 * kMib, 1024 * kMib};
  if (options.bytes != 0) sizes = {options.bytes};
  return for_policies(options, [&](const Policy& policy) {
    std::string failure;
    for (const std::uint64_t bytes : sizes) {
      if (failure.empty()) failure = measure_asym(options, policy, bytes, report);
    }
    return failure;
  });
}

std::string run_linkflap(const ScenarioOptions& options, const Report& report) {
  using std::chrono::milliseconds;
  // Down for 200 us each millisecond, from the first on.
  std::vector<sim::FaultEvent> events;
  for (int i = 1; i <= 8; ++i) {
    events.push_back(on_second_path(sim::FaultKind::kLinkDown, milliseconds(i)));
    events.push_back(
        on_second_path(sim::FaultKind::kLinkUp, milliseconds(i) + std::chrono::microseconds(200)));
  }
  return for_policies(options, [&](const Policy& policy) {
    return measure_fault("linkflap", options, policy, events, report);
  });
}

std::string run_blackhole(const ScenarioOptions& options, const Report& report) {
  const std::vector<sim::FaultEvent> events{
      on_second_path(sim::FaultKind::kBlackHole, std::chrono::milliseconds(1))};
  return for_policies(options, [&](const Policy& policy) {
    return measure_fault("blackhole", options, policy, events, report);
  });
}

}  // namespace braid::tools
