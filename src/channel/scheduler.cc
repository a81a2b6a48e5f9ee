#include "channel/scheduler.h"

#include <algorithm>
#include <cassert>

#include "channel/planner.h"

namespace braid::channel {
namespace {

// A cut below this costs more in requests than it gains in balance.
constexpr std::uint32_t kLeastCutBytes = 16U << 10U;
// While nothing is known of a lane, it is asked with small segments, a few at a time.
// So a lane that turns out slow holds a first put back little, and four say how fast it is.
constexpr std::uint32_t kFirstCutBytes = 16U << 10U;
constexpr std::uint64_t kFirstWindowBytes = 64U << 10U;
// A sample moves the estimate by a quarter: eight samples after a path changed, a tenth of the
// difference is left.
constexpr double kRateGain = 0.25;
// The least completion time grows by this per sample, so that a longer path is noticed.
constexpr double kForget = 1.0 / 256;
// A small put looks at so many lanes: the best of a few is nearly as good as the best of all.
constexpr std::uint32_t kSmallCandidates = 8;
// A lane that completed nothing for so long is tried again: with a part of a put that the others
// carry meanwhile, or, rarely, with a small put, which then takes as long as that lane does.
constexpr Duration kProbeAfter = std::chrono::milliseconds(20);
constexpr Duration kProbeSmallAfter = std::chrono::seconds(1);

}  // namespace

Scheduler::Scheduler(const Config& config)
    : config_(config),
      least_cut_bytes_(std::min(config.segment_bytes, kLeastCutBytes)),
      first_cut_bytes_(std::min(config.segment_bytes, kFirstCutBytes)),
      unknown_count_(config.lanes),
      freed_(std::size_t{config.lanes} * config.lane_depth) {
  for (std::uint32_t lane = 0; lane < config.lanes; ++lane) {
    lanes_[lane].window_bytes = std::max<std::uint64_t>(kFirstWindowBytes, first_cut_bytes_);
  }
}

std::uint32_t Scheduler::pick_any() const noexcept { return open_.next_round(next_); }

inline void Scheduler::make_plan(const Demand& demand) noexcept {
  ++plan_;
  plan_holds_ = true;
  eligible_ = ready_;
  planned_bytes_ = demand.queued_bytes + inflight_sum_;
  // Lanes of which nothing is known count as an average one.
  const double rate_all =
      known_count_ == 0 ? 0 : rate_sum_ * (1 + static_cast<double>(unknown_count_) / known_count_);
  plan_end_ = rate_all == 0 ? 0 : static_cast<double>(planned_bytes_) / rate_all;
  far_bytes_ =
      unknown_count_ == 0 ? static_cast<std::uint64_t>(rate_sum_ * time_of_windows_) : UINT64_MAX;
}

inline std::int64_t Scheduler::allowance(LaneState& lane) const noexcept {
  if (lane.plan != plan_) {
    lane.plan = plan_;
    lane.allowance = static_cast<std::int64_t>(lane.rate * plan_end_) -
                     static_cast<std::int64_t>(lane.inflight_bytes);
  }
  return lane.allowance;
}

inline bool Scheduler::pick_by_plan(const Demand& demand, TimePoint now, Choice& choice) noexcept {
  const bool far = demand.queued_bytes > far_bytes_;
  std::uint32_t lane = eligible_.next_round(next_);
  while (lane != kNone) {
    LaneState& state = lanes_[lane];
    choice.lane = lane;
    if (state.rate == 0) {
      choice.bytes = std::min(whole(demand), first_cut_bytes_);
      return true;
    }
    choice.bytes = whole(demand);
    if (far) return true;
    const std::int64_t share = allowance(state);
    if (share >= choice.bytes) return true;
    const bool forgotten = state.outstanding == 0 && now - state.delivered_at > kProbeAfter;
    if (share >= least_cut_bytes_ || forgotten) {
      const auto part = static_cast<std::uint32_t>(std::max<std::int64_t>(share, 0));
      const std::uint32_t cut = std::max(part / kCutAlignment * kCutAlignment, least_cut_bytes_);
      choice.bytes = std::min(choice.bytes, cut);
      return true;
    }
    eligible_.erase(lane);
    lane = eligible_.next_round(lane);
  }
  return false;
}

inline bool Scheduler::pick_shared(const Demand& demand, TimePoint now, Choice& choice) noexcept {
  if (!plan_holds_ || planned_bytes_ != demand.queued_bytes + inflight_sum_) make_plan(demand);
  if (pick_by_plan(demand, now, choice)) return true;
  // Each has its share already. What is left, less than the least cut for each, goes where it ends
  // first, unless all of the quick ones are full: then it waits for one of them.
  return demand.queued_bytes < std::uint64_t{least_cut_bytes_} * config_.lanes &&
         pick_small(demand, now, choice);
}

inline bool Scheduler::pick_adaptive(const Demand& demand, TimePoint now, Choice& choice) noexcept {
  if (unsampled_count_ > 0) take_samples(now);
  if (demand.rest_bytes == 0) {
    choice = {pick_any(), 0};
    return choice.lane != kNone;
  }
  if (demand.rest_bytes <= config_.small_bytes && demand.queued_bytes <= config_.small_bytes) {
    return pick_small(demand, now, choice);
  }
  return pick_shared(demand, now, choice);
}

bool Scheduler::pick_of_many(SchedulerPolicy policy, const Demand& demand, TimePoint now,
                             Choice& choice) noexcept {
  switch (policy) {
    case SchedulerPolicy::kStaticSplit: assert(false); return false;
    case SchedulerPolicy::kRoundRobin:
      choice = {in_turn(), whole(demand)};
      return has_room(choice.lane);
    case SchedulerPolicy::kDqplb: choice.bytes = whole(demand); return pick_dqplb(choice.lane);
    case SchedulerPolicy::kAdaptive: return pick_adaptive(demand, now, choice);
  }
  return false;
}

std::uint32_t Scheduler::in_turn() const noexcept {
  std::uint32_t lane = next_;
  for (std::uint32_t i = 0; i < config_.lanes && lanes_[lane].suspended; ++i) {
    lane = lane + 1 == config_.lanes ? 0 : lane + 1;
  }
  return lane;
}

bool Scheduler::pick_dqplb(std::uint32_t& lane) noexcept {
  if (!waiting_) {
    lane = in_turn();
    waiting_ = !has_room(lane);
    if (waiting_) freed_.clear();
    return !waiting_;
  }
  // With nothing under way no completion would ever end the wait.
  if (outstanding_sum_ == 0) {
    lane = pick_any();
    return lane != kNone;
  }
  for (; !freed_.empty(); freed_.pop()) {
    lane = freed_.front();
    // Once given, on_given() takes it off.
    if (has_room(lane)) return true;
  }
  return false;
}

double Scheduler::time_to_finish(const LaneState& lane, double bytes, TimePoint now) noexcept {
  if (lane.rate == 0) {
    // Of a lane that only had small segments the latency is known, and nothing of a new one: it
    // counts as quick, since that is how something gets known.
    return lane.least_time * (1 + lane.outstanding);
  }
  // One that owes a completion and has been silent is worth less the longer that goes on.
  const double silent =
      lane.outstanding == 0 ? 0 : static_cast<double>((now - lane.delivered_at).count());
  return (static_cast<double>(lane.inflight_bytes) + bytes) * lane.time_per_byte +
         std::max(lane.least_time, silent);
}

bool Scheduler::pick_small(const Demand& demand, TimePoint now, Choice& choice) const noexcept {
  choice = {kNone, whole(demand)};
  double best = 0;
  std::uint32_t lane = next_;
  std::uint32_t candidates = 0;
  for (std::uint32_t i = 0; i < config_.lanes && candidates < kSmallCandidates; ++i) {
    const LaneState& state = lanes_[lane];
    if (!state.suspended) {
      ++candidates;
      const bool forgotten = state.outstanding == 0 && now - state.delivered_at > kProbeSmallAfter;
      const double time =
          forgotten ? 0 : time_to_finish(state, static_cast<double>(demand.rest_bytes), now);
      if (choice.lane == kNone || time < best) {
        choice.lane = lane;
        best = time;
      }
    }
    if (++lane == config_.lanes) lane = 0;
  }
  // A quick lane that is full is worth waiting for: it ends this first all the same.
  return choice.lane != kNone && has_room(choice.lane);
}

void Scheduler::take_samples(TimePoint now) noexcept {
  for (std::uint32_t i = 0; i < unsampled_count_; ++i) {
    LaneState& state = lanes_[unsampled_[i]];
    state.unsampled = false;
    const RateSample sample = take_sample(state, state.stamp, unsampled_at_);
    const auto time = static_cast<double>((unsampled_at_ - state.given_at).count());
    if (sample.interval > 0) update_rate(state, sample, time);
    state.delivered_at = unsampled_at_;
  }
  unsampled_count_ = 0;
  unsampled_at_ = now;
}

Scheduler::RateSample Scheduler::take_sample(LaneState& lane, const GivenStamp& stamp,
                                             TimePoint now) const noexcept {
  const auto delivered = [&](std::uint64_t before) {
    return static_cast<double>(lane.delivered_bytes - before);
  };
  const auto since = [&](TimePoint at) { return static_cast<double>((now - at).count()); };
  if (!stamp.first) {
    return {delivered(stamp.delivered_bytes), since(stamp.delivered_at), stamp.limited};
  }
  // What goes onto an idle lane comes back a round trip later, which says nothing of the rate. How
  // closely the others follow the first one does.
  if (!lane.first_seen || lane.first_at == now) {
    lane.first_seen = true;
    lane.first_at = now;
    lane.first_bytes = lane.delivered_bytes;
  } else if (delivered(lane.first_bytes) >= least_cut_bytes_) {
    return {delivered(lane.first_bytes), since(lane.first_at), false};
  }
  return {delivered(stamp.delivered_bytes), since(stamp.delivered_at), true};
}

void Scheduler::update_rate(LaneState& lane, const RateSample& sample, double time) noexcept {
  lane.least_time = lane.least_time == 0 ? time : std::min(lane.least_time * (1 + kForget), time);
  const double rate = sample.bytes / sample.interval;
  const double before = lane.rate;
  // So little says more of the latency than of the rate.
  const bool little = sample.bytes < least_cut_bytes_;
  if (before == 0) {
    // What follows the first completion says more.
    if (little || (sample.at_least && lane.outstanding != 0)) return;
    --unknown_count_;
    ++known_count_;
    lane.rate = rate;
  } else if (sample.at_least || little) {
    // The lane shows at least what it can, not at most. But when it takes twice as long as it
    // should, what is beyond the round trip is owed to the rate.
    const double expected = sample.bytes * lane.time_per_byte + lane.least_time;
    if (sample.interval > 2 * expected) {
      lane.rate += (sample.bytes / (sample.interval - lane.least_time) - lane.rate) * kRateGain;
    } else if (rate > lane.rate && !little) {
      lane.rate += (rate - lane.rate) * kRateGain;
    }
  } else {
    lane.rate = lane.measured ? lane.rate + (rate - lane.rate) * kRateGain : rate;
    lane.measured = true;
  }
  lane.time_per_byte = 1 / lane.rate;
  const double path_bytes = lane.rate * lane.least_time;
  if (lane.measured) lane.path_bytes = static_cast<std::uint64_t>(path_bytes);
  lane.window_bytes =
      static_cast<std::uint64_t>(2 * path_bytes) + 2 * std::uint64_t{config_.segment_bytes};
  rate_sum_ += lane.rate - before;
  time_of_windows_ = std::max(time_of_windows_, time_of_window(lane));
  // The sums drift and the largest falls: made anew once per lane and round, on average.
  if (until_totals_-- == 0) update_totals();
}

double Scheduler::time_of_window(const LaneState& lane) const noexcept {
  return static_cast<double>(lane.window_bytes + config_.segment_bytes) * lane.time_per_byte;
}

void Scheduler::update_totals() noexcept {
  until_totals_ = config_.lanes;
  rate_sum_ = 0;
  time_of_windows_ = 0;
  for (std::uint32_t i = 0; i < config_.lanes; ++i) {
    const LaneState& state = lanes_[i];
    if (state.rate == 0 || state.suspended) continue;
    rate_sum_ += state.rate;
    time_of_windows_ = std::max(time_of_windows_, time_of_window(state));
  }
}

bool Scheduler::on_granted(std::uint32_t lane, std::uint32_t total, std::uint32_t depth) noexcept {
  LaneState& state = lanes_[lane];
  const auto growth = static_cast<std::int32_t>(total - state.granted);
  const auto ahead = static_cast<std::int32_t>(total - state.used);
  if (growth < 0 || ahead < 0 || static_cast<std::uint32_t>(ahead) > depth) return false;
  state.granted = total;
  plan_holds_ = false;
  update_room(lane);
  return true;
}

void Scheduler::suspend(std::uint32_t lane) noexcept {
  LaneState& state = lanes_[lane];
  if (state.suspended) return;
  take_samples(unsampled_at_);
  state.suspended = true;
  // A rate of the path that died says nothing of the next one.
  plan_holds_ = false;
  --(state.rate == 0 ? unknown_count_ : known_count_);
  inflight_sum_ -= state.inflight_bytes;
  state.rate = 0;
  state.measured = false;
  state.path_bytes = UINT64_MAX;
  state.least_time = 0;
  update_totals();
  update_room(lane);
}

void Scheduler::resume(std::uint32_t lane) noexcept {
  LaneState& state = lanes_[lane];
  if (!state.suspended) return;
  state.suspended = false;
  ++unknown_count_;
  plan_holds_ = false;
  inflight_sum_ += state.inflight_bytes;
  state.window_bytes = std::max<std::uint64_t>(kFirstWindowBytes, first_cut_bytes_);
  update_room(lane);
}

void Scheduler::renew_credits(std::uint32_t lane, std::uint32_t credits) noexcept {
  lanes_[lane].used = 0;
  lanes_[lane].granted = credits;
  update_room(lane);
}

}  // namespace braid::channel
