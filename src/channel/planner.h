#pragma once

#include <algorithm>
#include <cstdint>

namespace braid::channel {

/// Every cut lies on such a boundary from the beginning of its operation, so that protocols which
/// flag each 128-byte line never see a torn one.
inline constexpr std::uint32_t kCutAlignment = 128;
inline constexpr std::uint32_t kMaxSegmentBytes = 1U << 30U;

/// One slice of an operation.
struct Segment {
  std::uint64_t offset = 0;  // bytes from the beginning of the operation
  std::uint32_t bytes = 0;
  bool last = false;
};

/// Most bytes per segment: what was asked for, lowered to what the port takes in one message and
/// to 1 GiB, rounded down to the alignment. Never below one alignment unit.
[[nodiscard]] constexpr std::uint32_t effective_segment_bytes(std::uint32_t requested,
                                                              std::uint32_t port_max) noexcept {
  const std::uint32_t limit = std::min({requested, port_max, kMaxSegmentBytes});
  return std::max(limit / kCutAlignment * kCutAlignment, kCutAlignment);
}

/// Yields the segment that begins at `offset`, which is 0 or the end of the previous one.
///
/// An operation without bytes has one segment without bytes. Cost: O(1).
[[nodiscard]] constexpr Segment plan_segment(std::uint64_t total_bytes, std::uint64_t offset,
                                             std::uint32_t segment_bytes) noexcept {
  const std::uint64_t rest = total_bytes - offset;
  if (rest <= segment_bytes) return {offset, static_cast<std::uint32_t>(rest), true};
  return {offset, segment_bytes, false};
}

}  // namespace braid::channel
