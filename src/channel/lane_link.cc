#include "channel/lane_link.h"

#include <algorithm>
#include <cassert>

namespace braid::channel {
namespace {

// The first attempt follows at once: a path that came back, or a new source port, is the usual
// case. Then the pause doubles up to the longest.
constexpr Duration kFirstPause = std::chrono::milliseconds(10);
constexpr Duration kLongestPause = std::chrono::seconds(2);
// A lane that stayed up so long begins anew when it fails again.
constexpr Duration kStable = std::chrono::seconds(5);

Duration pause_before(std::uint32_t attempts, Random& random) noexcept {
  if (attempts <= 1) return Duration(0);
  const std::uint32_t doublings = std::min(attempts - 2, 16U);
  const Duration pause = std::min(kFirstPause * (1U << doublings), kLongestPause);
  // Three quarters to five quarters: lanes that failed together do not all come back together.
  const auto quarter = static_cast<std::uint64_t>(pause.count() / 4);
  return pause - Duration(quarter) +
         Duration(static_cast<Duration::rep>(random.below(2 * quarter + 1)));
}

}  // namespace

bool LaneLink::handle_failed(TimePoint now) noexcept {
  if (phase_ == Phase::kDraining || phase_ == Phase::kWaiting) return false;
  if (phase_ == Phase::kUp) {
    down_since_ = now;
    if (now - up_since_ >= kStable) attempts_ = 0;
  }
  ++attempts_;
  phase_ = Phase::kDraining;
  return true;
}

void LaneLink::on_replaced(TimePoint now, Random& random) noexcept {
  assert(phase_ == Phase::kDraining);
  phase_ = Phase::kWaiting;
  if (peer_down_) begin_next(now, random);
}

void LaneLink::begin_next(TimePoint now, Random& random) noexcept {
  ++generation_;
  peer_down_ = false;
  peer_ready_ = false;
  phase_ = Phase::kPausing;
  resume_at_ = now + pause_before(attempts_, random);
}

void LaneLink::on_connected() noexcept {
  assert(phase_ == Phase::kPausing);
  phase_ = peer_ready_ ? Phase::kProbing : Phase::kConnected;
}

void LaneLink::on_probed(TimePoint now) noexcept {
  assert(phase_ == Phase::kProbing);
  phase_ = Phase::kUp;
  up_since_ = now;
}

bool LaneLink::handle_peer_down(std::uint32_t generation, const bootstrap::QpAddress& next,
                                TimePoint now, Random& random) noexcept {
  if (generation != generation_ || peer_down_) return false;
  peer_down_ = true;
  peer_next_ = next;
  (void)handle_failed(now);
  if (phase_ == Phase::kWaiting) begin_next(now, random);
  return true;
}

bool LaneLink::handle_peer_ready(std::uint32_t generation) noexcept {
  if (generation != generation_ || peer_ready_ || peer_down_) return false;
  peer_ready_ = true;
  if (phase_ == Phase::kConnected) phase_ = Phase::kProbing;
  return true;
}

}  // namespace braid::channel
