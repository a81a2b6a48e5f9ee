#include "tools/sim_case.h"

#include <algorithm>
#include <array>

namespace braid::tools {
namespace {

using std::chrono::microseconds;

constexpr std::uint64_t kGbit = 1'000'000'000;
/// Takes a stall that lost packets cause for the death of a lane.
constexpr std::uint64_t kHastyLaneTimeoutMs = 20;

sim::LinkOptions random_link(Random& random) {
  static constexpr std::array<std::uint64_t, 5> kRates{10, 25, 100, 200, 400};
  sim::LinkOptions link;
  link.rate_bits_per_s = kRates[random.below(kRates.size())] * kGbit;
  link.delay = Duration(static_cast<std::int64_t>(100 + random.below(20'000)));
  link.queue_bytes = 64U << (10U + random.below(5));
  return link;
}

sim::Topology random_topology(Random& random) {
  const sim::LinkOptions nic = random_link(random);
  if (random.below(2) == 0) {
    std::vector<sim::LinkOptions> paths(1 + random.below(6));
    for (sim::LinkOptions& path : paths) path = random_link(random);
    return sim::make_direct(paths, nic);
  }
  sim::ClosOptions clos;
  clos.hosts = static_cast<std::uint32_t>(2 + random.below(5));
  clos.rails = static_cast<std::uint32_t>(1 + random.below(2));
  clos.hosts_per_leaf = static_cast<std::uint32_t>(1 + random.below(3));
  clos.spines = static_cast<std::uint32_t>(1 + random.below(4));
  clos.nic = nic;
  clos.fabric = random_link(random);
  clos.core = random_link(random);
  if (random.below(4) == 0) {
    // Lossless: room for what the pause lets through.
    clos.nic.pause_bytes = clos.fabric.pause_bytes = 64U << 10U;
    clos.fabric.queue_bytes = clos.nic.queue_bytes = 4U << 20U;
  }
  if (random.below(3) == 0) clos.switches.hash = sim::PathHash::kFiveTupleAndQpn;
  if (random.below(4) == 0) {
    clos.pods = 2;
    clos.cores = static_cast<std::uint32_t>(1 + random.below(3));
  }
  if (random.below(5) != 0) return sim::make_clos(clos);
  sim::MultiDcOptions dcs;
  dcs.dc = clos;
  dcs.dc.hosts = 2;
  dcs.long_links = static_cast<std::uint32_t>(1 + random.below(3));
  dcs.long_link = random_link(random);
  dcs.long_link.delay = microseconds(50 + random.below(300));
  return sim::make_multi_dc(dcs);
}

ChannelOptions random_options(Random& random, std::uint32_t lanes) {
  ChannelOptions options;
  options.lanes = lanes;
  options.segment_bytes = 128U << random.below(10);
  options.window_segments = 4U << random.below(7);
  options.lane_depth = static_cast<std::uint32_t>(1 + random.below(16));
  options.receive_depth = static_cast<std::uint32_t>(1 + random.below(32));
  options.read_depth = static_cast<std::uint32_t>(random.below(5));
  options.operation_capacity = static_cast<std::uint32_t>(1 + random.below(16));
  options.notification_capacity = static_cast<std::uint32_t>(1 + random.below(16));
  options.ack_timeout_exponent = static_cast<std::uint8_t>(7 + random.below(3));
  options.path_mtu_bytes = 256U << random.below(5);
  options.keepalive_interval = std::chrono::milliseconds(1 + random.below(20));
  options.segment_timeout = std::chrono::seconds(10);
  options.recovery_timeout = std::chrono::milliseconds(200 + random.below(800));
  options.lane_timeout =
      std::chrono::milliseconds(random.below(8) == 0 ? kHastyLaneTimeoutMs : random.below(2) * 200);
  static constexpr std::array kPolicies{SchedulerPolicy::kStaticSplit, SchedulerPolicy::kRoundRobin,
                                        SchedulerPolicy::kDqplb, SchedulerPolicy::kAdaptive};
  options.policy = kPolicies[random.below(kPolicies.size())];
  options.heal = random.below(8) != 0;
  if (random.below(4) == 0) {
    options.repath_after = std::chrono::microseconds(20 + random.below(2000));
  }
  if (random.below(3) != 0) {
    const auto first = static_cast<std::uint16_t>(49'152 + random.below(10'000));
    for (std::uint32_t i = 0; i < lanes; ++i) {
      options.source_ports.push_back(static_cast<std::uint16_t>(first + i));
    }
  }
  return options;
}

CaseChannel random_channel(Random& random, std::uint32_t ports) {
  CaseChannel channel;
  channel.first_port = static_cast<std::uint32_t>(random.below(ports));
  channel.second_port =
      static_cast<std::uint32_t>((channel.first_port + 1 + random.below(ports - 1)) % ports);
  const auto lanes = static_cast<std::uint32_t>(1 + random.below(8));
  channel.first = random_options(random, lanes);
  channel.second = random_options(random, lanes);
  // Half of the channels cross the wrap.
  if (random.below(2) == 0) {
    channel.first_sequence = static_cast<std::uint32_t>((1U << 24U) - random.below(200));
  }
  channel.keep_stream = random.below(8) != 0;
  channel.operations = static_cast<std::uint32_t>(1 + random.below(60));
  channel.bytes = static_cast<std::uint32_t>(1 + random.below(1U << (8U + random.below(11))));
  return channel;
}

sim::LinkFaults random_faults(Random& random) {
  sim::LinkFaults faults;
  const auto ppm = [&] {
    return random.below(2) == 0 ? 0U : static_cast<std::uint32_t>(random.below(5000));
  };
  faults.drop_ppm = ppm();
  faults.duplicate_ppm = ppm();
  faults.corrupt_ppm = ppm();
  faults.reorder_ppm = ppm();
  faults.spike_ppm = ppm() / 4;
  faults.reorder_delay = microseconds(1 + random.below(50));
  faults.spike_delay = microseconds(1 + random.below(200));
  return faults;
}

void add_event(Random& random, SwarmCase& out) {
  const TimePoint at{Duration(static_cast<std::int64_t>(random.below(400'000)))};
  const Duration span = microseconds(10 + random.below(3000));
  const auto link = static_cast<sim::LinkId>(random.below(out.topology.links().size()));
  const sim::NodeId port = out.topology.ports()[random.below(out.topology.ports().size())];
  const auto from_to = [&](sim::FaultKind begin, sim::FaultKind end) {
    out.may_lose_lanes = true;
    out.events.push_back({.at = at, .kind = begin, .link = link, .port = port});
    if (random.below(3) == 0) {
      out.may_fail = true;  // broken for good
      return;
    }
    out.events.push_back({.at = at + span, .kind = end, .link = link, .port = port});
  };
  switch (random.below(6)) {
    case 0: return from_to(sim::FaultKind::kLinkDown, sim::FaultKind::kLinkUp);
    case 1: return from_to(sim::FaultKind::kBlackHole, sim::FaultKind::kHeal);
    case 2: return from_to(sim::FaultKind::kPortDown, sim::FaultKind::kPortUp);
    case 3:
      out.events.push_back({.at = at,
                            .kind = sim::FaultKind::kRate,
                            .link = link,
                            .rate_bits_per_s = (1 + random.below(100)) * kGbit});
      return;
    default:
      out.events.push_back(
          {.at = at, .kind = sim::FaultKind::kHostPause, .port = port, .duration = span});
  }
}

}  // namespace

SwarmCase make_case(std::uint64_t seed) {
  Random random(seed * 0x9E3779B97F4A7C15U + 0x5EED);
  SwarmCase out;
  out.seed = seed;
  out.topology = random_topology(random);
  out.fabric.seed = random.next();
  out.fabric.window_packets = 16U << random.below(4);
  out.fabric.max_qp_per_port = 64;
  out.fabric.poll_delay = Duration(static_cast<std::int64_t>(random.below(2000)));
  const std::uint64_t count = 1 + random.below(3);
  const auto ports = static_cast<std::uint32_t>(out.topology.ports().size());
  bool heals = true;
  for (std::uint64_t i = 0; i < count; ++i) {
    out.channels.push_back(random_channel(random, ports));
    const CaseChannel& channel = out.channels.back();
    heals = heals && channel.keep_stream && channel.first.heal && channel.second.heal;
  }
  if (random.below(4) != 0) {
    for (std::uint32_t link = 0; link < out.topology.links().size(); ++link) {
      for (const bool from_first : {true, false}) {
        if (random.below(3) != 0) continue;
        out.faults.push_back({sim::LinkId(link), from_first, random_faults(random)});
      }
    }
  }
  if (random.below(3) == 0) {
    for (std::uint64_t i = 1 + random.below(3); i > 0; --i) add_event(random, out);
  }
  for (const CaseChannel& channel : out.channels) {
    const Duration hasty = std::chrono::milliseconds(kHastyLaneTimeoutMs);
    if (channel.first.lane_timeout == hasty || channel.second.lane_timeout == hasty) {
      out.may_lose_lanes = true;
    }
  }
  if (!heals) out.may_fail = out.may_lose_lanes;
  return out;
}

}  // namespace braid::tools
