#pragma once

#include <braid/channel_options.h>
#include <braid/time.h>

#include <array>
#include <cstdint>
#include <span>

namespace braid::channel {

/// Says which lane should look for another path, from how fast the lanes are.
///
/// A lane that stays below `slow_ratio` of the fastest lane's rate for `patience` moves to a new
/// source port. Whether that was right shows in the sum of all rates, since the new path may be one
/// that another lane uses: when it has not grown by a twentieth after another `patience`, the lane
/// moves back. It is then left alone for twice as long as the last time, 64 times `patience` at
/// most, so that a path that is slow for good costs little. One lane moves at a time.
///
/// Pure: no clock, no I/O, no allocation. Its times count only while there is something to send,
/// since an idle lane shows nothing. Cost: observe() O(lanes).
class Repather {
 public:
  enum class Verdict : std::uint8_t { kStay, kMove, kMoveBack };
  struct Decision {
    Verdict verdict = Verdict::kStay;
    std::uint32_t lane = 0;
  };

  /// Shape: lanes 1..kMaxLanes, patience > 0, slow_ratio in 0..1.
  Repather(std::uint32_t lanes, Duration patience, double slow_ratio) noexcept;

  /// `rates` in bytes per second, one per lane, 0 = not known. Call several times per patience.
  [[nodiscard]] Decision observe(std::span<const double> rates, TimePoint now) noexcept;
  /// The lane of the last decision uses its new port, or its old one again.
  void on_moved(TimePoint now) noexcept;
  /// The lane's queue pair was replaced, or its move did not come about.
  void on_abandoned(std::uint32_t lane, TimePoint now) noexcept;

  [[nodiscard]] Duration patience() const noexcept { return patience_; }

 private:
  enum class Phase : std::uint8_t { kWatching, kMoving, kTrying, kMovingBack };
  struct Lane {
    TimePoint slow_since = kNever;
    TimePoint quiet_until{};
    Duration rest{0};
  };

  [[nodiscard]] Decision watch(std::span<const double> rates, TimePoint now) noexcept;
  void rest(Lane& lane, TimePoint now) noexcept;
  [[nodiscard]] Decision judge(std::span<const double> rates, TimePoint now) noexcept;

  std::uint32_t lane_count_;
  Duration patience_;
  double slow_ratio_;
  Phase phase_ = Phase::kWatching;
  std::uint32_t moving_ = 0;  // the lane, unless watching
  TimePoint moved_at_{};
  double sum_before_ = 0;
  std::array<Lane, kMaxLanes> lanes_{};
};

}  // namespace braid::channel
