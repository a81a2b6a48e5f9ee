#pragma once

#include <braid/sim.h>

#include <cstdint>

#include "sim/audit_hash.h"

namespace braid::sim {

// What a switch does with a flow; the packet level and the flow level choose alike.

/// Of addresses, protocol and ports.
[[nodiscard]] constexpr std::uint64_t flow_hash(std::uint32_t source, std::uint32_t destination,
                                                std::uint16_t source_port) noexcept {
  constexpr std::uint64_t kRoceUdpPort = 4791;
  return mix((static_cast<std::uint64_t>(source) << 32U) | destination) ^
         mix((kRoceUdpPort << 32U) | source_port);
}

/// Which of `ways` a flow takes; below `ways`, which is not 0.
[[nodiscard]] constexpr std::uint32_t pick_way(PathHash hash, std::uint64_t switch_seed,
                                               std::uint64_t flow, std::uint16_t source_port,
                                               std::uint32_t destination_qpn,
                                               std::uint32_t ways) noexcept {
  if (hash == PathHash::kSourcePortInOrder) return source_port % ways;
  if (ways == 1) return 0;
  std::uint64_t word = flow ^ switch_seed;
  if (hash == PathHash::kFiveTupleAndQpn) word ^= mix(destination_qpn);
  return static_cast<std::uint32_t>(((mix(word) >> 32U) * ways) >> 32U);
}

}  // namespace braid::sim
