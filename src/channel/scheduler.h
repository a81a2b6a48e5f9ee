#pragma once

#include <braid/channel_options.h>

#include <array>
#include <cstdint>

namespace braid::channel {

/// Says which lane takes the next segment, or none yet. Clockless and without I/O.
///
/// Policy: whole segments in turn. A lane that has no room (its own cap, or no receive credit) is
/// passed over, so that a slow lane holds back nothing but what it has already been given.
/// The owner reports what happens to each lane; the scheduler keeps the counts.
/// Cost: pick() is O(1) while lanes have room, O(lanes) when most are full; no allocation.
class Scheduler {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  Scheduler(std::uint32_t lane_count, std::uint32_t lane_depth) noexcept
      : lane_count_(lane_count), lane_depth_(lane_depth) {}

  /// Lane for the next segment, or kNone. Does not count it: on_given() does.
  [[nodiscard]] std::uint32_t pick() const noexcept {
    std::uint32_t lane = next_;
    for (std::uint32_t i = 0; i < lane_count_; ++i) {
      if (has_room(lane)) return lane;
      if (++lane == lane_count_) lane = 0;
    }
    return kNone;
  }

  /// Passes over `lane` from now on, whatever room it has.
  void suspend(std::uint32_t lane) noexcept { suspended_[lane] = true; }
  void resume(std::uint32_t lane) noexcept { suspended_[lane] = false; }
  /// The peer's receives on `lane` count anew, with `credits` of them posted.
  void renew_credits(std::uint32_t lane, std::uint32_t credits) noexcept {
    used_[lane] = 0;
    granted_[lane] = credits;
  }

  /// The segment was given to `lane`.
  void on_given(std::uint32_t lane) noexcept {
    ++outstanding_[lane];
    ++used_[lane];
    next_ = lane + 1 == lane_count_ ? 0 : lane + 1;
  }

  /// A segment of `lane` completed, with or without success.
  void on_completed(std::uint32_t lane) noexcept { --outstanding_[lane]; }

  /// The peer has posted `total` receives on `lane` since the beginning, mod 2^32. False, and
  /// nothing changed, when that is impossible: fewer than before, or more than `depth` beyond what
  /// it can have consumed.
  [[nodiscard]] bool on_granted(std::uint32_t lane, std::uint32_t total,
                                std::uint32_t depth) noexcept {
    const auto growth = static_cast<std::int32_t>(total - granted_[lane]);
    const auto ahead = static_cast<std::int32_t>(total - used_[lane]);
    if (growth < 0 || ahead < 0 || static_cast<std::uint32_t>(ahead) > depth) return false;
    granted_[lane] = total;
    return true;
  }

  [[nodiscard]] std::uint32_t outstanding(std::uint32_t lane) const noexcept {
    return outstanding_[lane];
  }
  [[nodiscard]] std::uint32_t credits(std::uint32_t lane) const noexcept {
    return granted_[lane] - used_[lane];
  }

 private:
  [[nodiscard]] bool has_room(std::uint32_t lane) const noexcept {
    return outstanding_[lane] < lane_depth_ && granted_[lane] != used_[lane] && !suspended_[lane];
  }

  std::uint32_t lane_count_;
  std::uint32_t lane_depth_;
  std::uint32_t next_ = 0;
  std::array<std::uint32_t, kMaxLanes> outstanding_{};
  std::array<bool, kMaxLanes> suspended_{};
  // Cumulative counts mod 2^32: one ledger for every segment, whatever becomes of it.
  std::array<std::uint32_t, kMaxLanes> granted_{};
  std::array<std::uint32_t, kMaxLanes> used_{};
};

}  // namespace braid::channel
