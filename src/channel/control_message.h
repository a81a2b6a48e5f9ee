#pragma once

#include <braid/channel_options.h>
#include <braid/status.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace braid::channel {

enum class ControlType : std::uint8_t {
  kState = 1,       // nothing but the state below
  kClose = 2,       // nothing follows after `sequences_used` sequences
  kLaneDown = 3,    // the sender's queue pair of this generation takes and gives nothing any more
  kLaneQuery = 4,   // which of these segments arrived before that?
  kLaneAnswer = 5,  // the answer to the newest query for the lane
  kLaneReady = 6,   // the sender's next queue pair of the lane is connected
};

/// Names the control queue pair where a message names a lane.
inline constexpr std::uint32_t kControlLane = 0xFF;
/// Most segments that one query asks for.
inline constexpr std::uint32_t kQuerySegments = 64;

/// About one queue pair that is replaced (docs/architecture.md §7).
struct LaneNews {
  std::uint32_t lane = 0;        // or kControlLane
  std::uint32_t generation = 0;  // of the queue pair that a message is about, from 0, mod 2^32
  std::uint32_t qpn = 0;         // kLaneDown: of the next queue pair
  std::uint32_t psn = 0;         // kLaneDown: likewise
  std::uint32_t count = 0;       // kLaneQuery: segments asked for
  std::array<std::uint32_t, kQuerySegments> sequences{};
  std::uint64_t arrived = 0;  // kLaneAnswer: bit i for the i-th segment asked for
};

/// Message between the two sides of a channel. Every one carries the sender's whole state as
/// cumulative counts, so that the newest alone is enough and a lost chance to send costs nothing.
struct ControlMessage {
  ControlType type = ControlType::kState;
  std::uint32_t number = 0;            // of this message, from 0, mod 2^32
  std::uint32_t control_received = 0;  // the peer's messages below this number were received
  std::uint64_t delivered = 0;         // sequences of the peer that were delivered in order
  std::uint64_t sequences_used = 0;    // sequences that the sender of this message has used
  std::uint32_t lane_count = 0;
  /// Per lane, mod 2^32, since its queue pair of the current generation was made.
  std::array<std::uint32_t, kMaxLanes> receives_posted{};
  LaneNews news;  // of the kinds that are about a lane
};

/// Room for any message, a multiple of the cache line.
inline constexpr std::size_t kControlSlotBytes = 896;

/// Bytes written; `out` holds kControlSlotBytes.
std::size_t encode(const ControlMessage& message, std::span<std::byte> out) noexcept;

/// Errors: kProtocol for a message that is not exactly one with `lanes` lanes.
Status decode(std::span<const std::byte> in, std::uint32_t lanes, ControlMessage& message) noexcept;

}  // namespace braid::channel
