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

/// How static split divides one chunk of at most 1 GiB over all lanes: seed S0's formula, golden
/// values in requirement 16. Lanes 0 to used - 2 get `tile` bytes, lane used - 1 the rest, the
/// others a segment without bytes, so that every lane has one.
struct StaticSplit {
  std::uint64_t total_bytes = 0;
  std::uint64_t tile = 0;
  std::uint32_t used = 1;

  [[nodiscard]] constexpr std::uint64_t begin_of(std::uint32_t lane) const noexcept {
    return lane < used ? tile * lane : total_bytes;
  }
  [[nodiscard]] constexpr std::uint64_t bytes_of(std::uint32_t lane) const noexcept {
    if (lane >= used) return 0;
    return lane + 1 == used ? total_bytes - tile * lane : tile;
  }
};

/// Divides `bytes` <= 1 GiB. A tile below `threshold` bytes uses fewer lanes: as many as the
/// formula says, which leaves tiles somewhat below it, or, with `floor`, as many as get at least
/// the threshold (requirement 17).
[[nodiscard]] constexpr StaticSplit static_split(std::uint64_t bytes, std::uint32_t lanes,
                                                 std::uint64_t threshold, bool floor) noexcept {
  StaticSplit out{bytes, bytes / lanes, lanes};
  if (lanes > 1 && out.tile != 0 && out.tile < threshold) {
    const std::uint64_t wanted =
        floor ? std::max<std::uint64_t>(bytes / threshold, 1) : (bytes - 1) / threshold + 1;
    out.used = static_cast<std::uint32_t>(std::min<std::uint64_t>(lanes, wanted));
    out.tile = bytes / out.used;
  }
  return out;
}

}  // namespace braid::channel
