#pragma once

#include <braid/channel_options.h>
#include <braid/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace braid::channel {

enum class ControlType : std::uint8_t {
  kState = 1,  // nothing but the state below
  kClose = 2,  // nothing follows after `sequences_used` sequences
};

/// Message on the control QP. Every one carries the sender's whole state as cumulative counts, so
/// that the newest alone is enough and a lost chance to send costs nothing.
struct ControlMessage {
  ControlType type = ControlType::kState;
  std::uint32_t control_received = 0;  // control messages received and re-posted, mod 2^32
  std::uint64_t delivered = 0;         // sequences of the peer that were delivered in order
  std::uint64_t sequences_used = 0;    // sequences that the sender of this message has used
  std::uint32_t lane_count = 0;
  std::array<std::uint32_t, kMaxLanes> receives_posted{};  // per lane, mod 2^32
};

/// Bytes of a message with `lanes` lanes.
[[nodiscard]] constexpr std::size_t control_message_bytes(std::uint32_t lanes) noexcept {
  return 28U + 4U * static_cast<std::size_t>(lanes);
}
/// Room for any message, a multiple of the cache line.
inline constexpr std::size_t kControlSlotBytes = 576;
static_assert(control_message_bytes(kMaxLanes) <= kControlSlotBytes);

/// Bytes written; `out` holds at least control_message_bytes(lane_count).
std::size_t encode(const ControlMessage& message, std::span<std::byte> out) noexcept;

/// Errors: kProtocol for a message that is not exactly one with `lanes` lanes.
Status decode(std::span<const std::byte> in, std::uint32_t lanes, ControlMessage& message) noexcept;

}  // namespace braid::channel
