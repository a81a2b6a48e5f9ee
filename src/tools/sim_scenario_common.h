#pragma once

#include <braid/sim.h>

#include <cstdint>
#include <string>

#include "base/random.h"
#include "sim/packet_pool.h"
#include "tools/sim_scenario.h"
#include "tools/sim_world.h"

namespace braid::tools {

inline constexpr std::uint64_t kGbit = 1'000'000'000;
inline constexpr std::uint64_t kMib = std::uint64_t{1} << 20U;

/// Bytes on the wire for a payload at full packets: BTH and ICRC in each, framing around it; the
/// few bytes that only the first and last packet of a segment have are left out.
[[nodiscard]] constexpr std::uint64_t wire_bytes(std::uint64_t payload_bytes,
                                                 std::uint32_t mtu_bytes = 4096) noexcept {
  const std::uint64_t packets = (payload_bytes + mtu_bytes - 1) / mtu_bytes;
  return payload_bytes + packets * (16 + sim::kFrameOverheadBytes);
}

/// What a fluid without queues would need: all bytes at the sum of the rates, and the way there.
[[nodiscard]] constexpr std::int64_t fluid_ns(std::uint64_t payload_bytes,
                                              std::uint64_t rate_bits_per_s,
                                              std::int64_t one_way_ns) noexcept {
  const std::uint64_t bits = wire_bytes(payload_bytes) * 8;
  const std::uint64_t megabits_per_s = rate_bits_per_s / 1'000'000;
  return static_cast<std::int64_t>(bits * 1000 / megabits_per_s) + one_way_ns;
}

/// Lane i of the channel takes path i of a make_direct() topology of that many paths.
inline void pin_lanes(ChannelOptions& options, std::uint32_t lanes) {
  options.lanes = lanes;
  options.source_ports.clear();
  // A multiple of all numbers of paths up to 10.
  for (std::uint32_t i = 0; i < lanes; ++i) {
    options.source_ports.push_back(static_cast<std::uint16_t>(50'400 + i));
  }
}

/// Random ports of its own for every channel, as an application that wants entropy chooses them.
inline void scatter_lanes(ChannelOptions& options, std::uint32_t lanes, Random& random) {
  options.lanes = lanes;
  options.source_ports.clear();
  for (std::uint32_t i = 0; i < lanes; ++i) {
    options.source_ports.push_back(static_cast<std::uint16_t>(49'152 + random.below(16'384)));
  }
}

[[nodiscard]] inline sim::FabricOptions scenario_fabric(std::uint64_t seed) {
  sim::FabricOptions options;
  options.seed = seed;
  options.verify_icrc = false;  // nothing corrupts packets here, and nobody looks at bytes
  options.carry_payload = false;
  return options;
}

/// Calls `run` for each policy asked for, until one fails.
template <typename Run>
std::string for_policies(const ScenarioOptions& options, Run run) {
  for (const Policy& policy : policies()) {
    if (options.policy != "all" && options.policy != policy.name) continue;
    std::string failure = run(policy);
    if (!failure.empty()) return policy.name + ": " + failure;
  }
  return "";
}

/// Fills in what every measurement has.
[[nodiscard]] inline Measurement begin_measurement(const char* scenario, const Policy& policy,
                                                   const ScenarioOptions& options) {
  Measurement out;
  out.scenario = scenario;
  out.policy = policy.name;
  out.seed = options.seed;
  return out;
}

}  // namespace braid::tools
