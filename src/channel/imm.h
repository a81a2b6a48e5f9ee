#pragma once

#include <cstdint>

#include "base/seq24.h"

namespace braid::channel {

struct SequenceTag;
/// Channel-wide number of a segment, mod 2^24.
using Sequence = Seq24<SequenceTag>;

/// Number of different sequences.
inline constexpr std::uint32_t kSequenceCount = 1U << 24U;
/// Largest window: serial order holds only for distances below half the circle, and a quarter of
/// that leaves room to tell an old duplicate from a new arrival.
inline constexpr std::uint32_t kMaxWindow = 1U << 20U;

/// What the immediate of every segment says (docs/architecture.md §4).
struct Imm {
  Sequence sequence;
  std::uint8_t notify = 0;  // bits 24-30: index of the notify id, 0 = none
  bool last = false;        // bit 31: last segment of its operation

  friend constexpr bool operator==(const Imm&, const Imm&) noexcept = default;
};

/// Packs into host order; the poster converts to network order.
[[nodiscard]] constexpr std::uint32_t encode_imm(const Imm& imm) noexcept {
  return imm.sequence.value() | (static_cast<std::uint32_t>(imm.notify & 0x7FU) << 24U) |
         (imm.last ? 1U << 31U : 0U);
}

/// Every 32-bit value is some Imm; whether it makes sense is for the receiver to say.
[[nodiscard]] constexpr Imm decode_imm(std::uint32_t host_order) noexcept {
  return {Sequence(host_order), static_cast<std::uint8_t>((host_order >> 24U) & 0x7FU),
          (host_order >> 31U) != 0};
}

}  // namespace braid::channel
