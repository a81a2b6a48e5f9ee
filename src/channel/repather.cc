#include "channel/repather.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace braid::channel {
namespace {

// A move must gain that much, or chance would keep lanes moving.
constexpr double kLeastGain = 1.05;
constexpr int kMostRest = 64;  // times patience
// A new path gets so many times patience to show a rate at all.
constexpr int kMostTrial = 4;

double sum_of(std::span<const double> rates) noexcept {
  return std::accumulate(rates.begin(), rates.end(), 0.0);
}

}  // namespace

Repather::Repather(std::uint32_t lanes, Duration patience, double slow_ratio) noexcept
    : lane_count_(lanes), patience_(patience), slow_ratio_(slow_ratio) {
  assert(lanes >= 1 && lanes <= kMaxLanes);
}

Repather::Decision Repather::observe(std::span<const double> rates, TimePoint now) noexcept {
  assert(rates.size() == lane_count_);
  switch (phase_) {
    case Phase::kWatching: return watch(rates, now);
    case Phase::kTrying: return judge(rates, now);
    case Phase::kMoving:
    case Phase::kMovingBack: break;
  }
  return {};
}

Repather::Decision Repather::watch(std::span<const double> rates, TimePoint now) noexcept {
  const auto known = std::count_if(rates.begin(), rates.end(), [](double r) { return r > 0; });
  // Of two lanes one may well be the faster.
  if (known < 3) return {};
  // The fastest shows what a path can do. When it is the unusual one, the trials show that, too.
  const double limit = slow_ratio_ * *std::max_element(rates.begin(), rates.end());
  std::uint32_t slowest = lane_count_;
  for (std::uint32_t i = 0; i < lane_count_; ++i) {
    Lane& lane = lanes_[i];
    if (rates[i] == 0 || rates[i] >= limit) {
      lane.slow_since = kNever;
      continue;
    }
    if (lane.slow_since == kNever) lane.slow_since = now;
    const bool due = now - lane.slow_since >= patience_ && now >= lane.quiet_until;
    if (due && (slowest == lane_count_ || rates[i] < rates[slowest])) slowest = i;
  }
  if (slowest == lane_count_) return {};
  phase_ = Phase::kMoving;
  moving_ = slowest;
  sum_before_ = sum_of(rates);
  return {Verdict::kMove, slowest};
}

Repather::Decision Repather::judge(std::span<const double> rates, TimePoint now) noexcept {
  const Duration tried = now - moved_at_;
  const bool known = rates[moving_] > 0;
  if (tried < patience_ || (!known && tried < patience_ * kMostTrial)) return {};
  Lane& lane = lanes_[moving_];
  lane.slow_since = kNever;
  if (known && sum_of(rates) >= kLeastGain * sum_before_) {
    phase_ = Phase::kWatching;
    lane.rest = Duration(0);
    return {};
  }
  rest(lane, now);
  phase_ = Phase::kMovingBack;
  return {Verdict::kMoveBack, moving_};
}

void Repather::on_moved(TimePoint now) noexcept {
  assert(phase_ == Phase::kMoving || phase_ == Phase::kMovingBack);
  moved_at_ = now;
  phase_ = phase_ == Phase::kMoving ? Phase::kTrying : Phase::kWatching;
}

void Repather::on_abandoned(std::uint32_t lane, TimePoint now) noexcept {
  lanes_[lane].slow_since = kNever;
  if (phase_ == Phase::kWatching || moving_ != lane) return;
  rest(lanes_[lane], now);
  phase_ = Phase::kWatching;
}

void Repather::rest(Lane& lane, TimePoint now) noexcept {
  lane.rest = std::min(std::max(lane.rest * 2, patience_), patience_ * kMostRest);
  lane.quiet_until = now + lane.rest;
}

}  // namespace braid::channel
