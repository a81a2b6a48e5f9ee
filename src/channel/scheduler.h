#pragma once

#include <braid/channel_options.h>
#include <braid/time.h>

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/ring.h"
#include "channel/lane_set.h"

namespace braid::channel {

/// What the sender wants to send next.
struct Demand {
  std::uint64_t rest_bytes = 0;    // of the operation, from the next segment on
  std::uint64_t queued_bytes = 0;  // of all operations together, these included
};

/// Lane and size of the next segment.
struct Choice {
  std::uint32_t lane = 0;
  std::uint32_t bytes = 0;  // at most rest_bytes; a multiple of 128 unless all of them
};

/// What a completion needs to know of the moment when its segment was given, to sample the rate.
struct GivenStamp {
  std::uint64_t delivered_bytes = 0;  // of the lane until then
  TimePoint delivered_at{};           // when that was, or when the lane began to work
  bool first = false;                 // given before anything of the busy time completed
  bool limited = false;  // the path had run empty: the lane could not show what it can do
};

/// Says which lane takes the next segment and how large it is, or that none takes one yet.
///
/// Pure: no clock, no I/O, no allocation after the constructor. The owner reports what happens to
/// each lane. Every policy stays within `lane_depth` segments under way and the receive credits of
/// the peer, per lane.
///
/// - round_robin: whole segments strictly in turn; when the lane whose turn it is has no room, the
///   others wait with it.
/// - dqplb: segment i goes to lane i mod N while that has room. Else it waits, and those after it;
///   whichever lane completes a segment next takes the oldest that waits. (Seed S2, rule 58.)
/// - adaptive: each lane has a rate, sampled at completions as bytes delivered over the time that
///   they took (as BBR does), and a byte window of twice rate x least completion time plus two
///   segments. Of what went onto an idle path only the spacing of the completions counts, not the
///   round trip before the first; samples of a path that ran empty can only raise the rate. With
///   all rates known, everything under way and queued ends at one time T if each lane gets rate x
///   T; a lane takes a segment only while it stays below that, and a smaller one when that is all
///   it may take. So a slow lane gets little of a short put, and all lanes finish a long one
///   together. Puts up to the gate go whole to the lane that finishes them first. A lane of which
///   nothing was heard for long is given a little, to see whether it became faster.
/// Static split is no matter of lanes' room, so it is in planner.h.
/// Cost: pick() is O(1) while lanes have room and much is queued, O(lanes) at the end of the queue;
/// a small put looks at eight lanes at most. What completions of one moment say of a lane's rate is
/// worked out once, when the next segment is picked, not for each of them.
class Scheduler {
 public:
  static constexpr std::uint32_t kNone = LaneSet::kNone;

  struct Config {
    std::uint32_t lanes = 1;
    std::uint32_t lane_depth = 16;
    std::uint32_t segment_bytes = 512U << 10U;
    std::uint32_t small_bytes = 64U << 10U;  // the gate of adaptive
  };

  explicit Scheduler(const Config& config);

  /// Lane and size of the next segment; false when none can take it now. Does not count it:
  /// on_given() does. `policy` is not static split. A demand without bytes is one segment.
  [[nodiscard]] bool pick(SchedulerPolicy policy, const Demand& demand, TimePoint now,
                          Choice& choice) noexcept;
  /// Any lane with room, in turn: for a segment whose size is settled.
  [[nodiscard]] std::uint32_t pick_any() const noexcept;
  [[nodiscard]] bool has_room(std::uint32_t lane) const noexcept { return open_.contains(lane); }
  /// Nothing waits any more: for dqplb a new turn begins.
  void on_drained() noexcept {
    waiting_ = false;
    freed_.clear();
  }

  /// The segment was given to `lane`, which is not suspended.
  /// `stamp` is for its completion.
  void on_given(std::uint32_t lane, std::uint32_t bytes, TimePoint now, GivenStamp& stamp) noexcept;
  /// A segment of `lane` completed. `sample`: with success, so its time says something.
  void on_completed(std::uint32_t lane, std::uint32_t bytes, const GivenStamp& stamp,
                    TimePoint given_at, bool sample, TimePoint now) noexcept;

  /// The peer has posted `total` receives on `lane` since the beginning, mod 2^32. False, and
  /// nothing changed, when that is impossible: fewer than before, or more than `depth` beyond what
  /// it can have consumed.
  [[nodiscard]] bool on_granted(std::uint32_t lane, std::uint32_t total,
                                std::uint32_t depth) noexcept;

  /// Passes over `lane` from now on, whatever room it has.
  void suspend(std::uint32_t lane) noexcept;
  /// `lane` may be given segments again; what was known of its path is forgotten.
  void resume(std::uint32_t lane) noexcept;
  /// The peer's receives on `lane` count anew, with `credits` of them posted.
  void renew_credits(std::uint32_t lane, std::uint32_t credits) noexcept;

  [[nodiscard]] bool suspended(std::uint32_t lane) const noexcept { return lanes_[lane].suspended; }
  [[nodiscard]] std::uint32_t outstanding(std::uint32_t lane) const noexcept {
    return lanes_[lane].outstanding;
  }
  [[nodiscard]] std::uint32_t credits(std::uint32_t lane) const noexcept {
    return lanes_[lane].granted - lanes_[lane].used;
  }
  /// Bytes per second that the lane was last seen to deliver; 0 = not known.
  [[nodiscard]] double rate(std::uint32_t lane) const noexcept { return lanes_[lane].rate * 1e9; }
  [[nodiscard]] std::uint64_t inflight_bytes(std::uint32_t lane) const noexcept {
    return lanes_[lane].inflight_bytes;
  }
  /// Bytes that adaptive lets the lane have under way.
  [[nodiscard]] std::uint64_t window_bytes(std::uint32_t lane) const noexcept {
    return lanes_[lane].window_bytes;
  }

 private:
  struct RateSample {
    double bytes = 0;
    double interval = 0;    // nanoseconds
    bool at_least = false;  // the lane may be quicker than that
  };

  struct LaneState {
    std::uint32_t outstanding = 0;
    // Cumulative counts mod 2^32: one ledger for every segment, whatever becomes of it.
    std::uint32_t granted = 0;
    std::uint32_t used = 0;
    std::uint32_t plan = 0;  // that `allowance` belongs to
    bool suspended = false;
    bool ready = false;      // as the set of that name says
    bool unsampled = false;  // a completion that no sample was taken of
    bool first_seen = false;
    bool measured = false;  // false: the rate is just the least that it can be
    std::uint64_t inflight_bytes = 0;
    std::uint64_t window_bytes = 0;
    std::uint64_t path_bytes = UINT64_MAX;  // what the path holds: rate x least completion time
    std::uint64_t delivered_bytes = 0;
    std::uint64_t limited_until = 0;  // of delivered_bytes
    std::int64_t allowance = 0;       // bytes that it may still be given
    TimePoint delivered_at{};         // of the newest completion, or the beginning of the busy time
    // The newest completion that no sample was taken of.
    GivenStamp stamp;
    TimePoint given_at{};
    // The first completion of the busy time, if there was one, and delivered_bytes with it.
    TimePoint first_at{};
    std::uint64_t first_bytes = 0;
    double rate = 0;           // bytes per nanosecond; 0 = not known
    double time_per_byte = 0;  // its inverse
    double least_time = 0;     // nanoseconds of the quickest completion, slowly forgotten
  };

  void update_room(std::uint32_t lane) noexcept;
  [[nodiscard]] bool pick_of_many(SchedulerPolicy policy, const Demand& demand, TimePoint now,
                                  Choice& choice) noexcept;
  /// Takes the samples that are due; completions from now on happen at `now`.
  void take_samples(TimePoint now) noexcept;
  /// What the completion of a segment with that stamp says of the lane's rate.
  [[nodiscard]] RateSample take_sample(LaneState& lane, const GivenStamp& stamp,
                                       TimePoint now) const noexcept;
  void update_rate(LaneState& lane, const RateSample& sample, double time) noexcept;
  void update_totals() noexcept;
  [[nodiscard]] double time_of_window(const LaneState& lane) const noexcept;
  /// The lane whose turn it is, or the next one that is not suspended.
  [[nodiscard]] std::uint32_t in_turn() const noexcept;
  [[nodiscard]] bool pick_dqplb(std::uint32_t& lane) noexcept;
  [[nodiscard]] bool pick_adaptive(const Demand& demand, TimePoint now, Choice& choice) noexcept;
  [[nodiscard]] bool pick_small(const Demand& demand, TimePoint now, Choice& choice) const noexcept;
  /// Nanoseconds until `bytes` given to the lane now would be done.
  [[nodiscard]] static double time_to_finish(const LaneState& lane, double bytes,
                                             TimePoint now) noexcept;
  [[nodiscard]] bool pick_shared(const Demand& demand, TimePoint now, Choice& choice) noexcept;
  [[nodiscard]] bool pick_by_plan(const Demand& demand, TimePoint now, Choice& choice) noexcept;
  /// When everything ends if every lane works until then.
  void make_plan(const Demand& demand) noexcept;
  [[nodiscard]] std::int64_t allowance(LaneState& lane) const noexcept;
  [[nodiscard]] std::uint32_t whole(const Demand& demand) const noexcept {
    return static_cast<std::uint32_t>(
        std::min<std::uint64_t>(demand.rest_bytes, config_.segment_bytes));
  }

  Config config_;
  std::uint32_t least_cut_bytes_;
  std::uint32_t first_cut_bytes_;
  std::uint32_t next_ = 0;  // whose turn it is
  LaneSet open_{};          // within lane_depth and credit, and not suspended
  LaneSet ready_{};         // of these, within the byte window
  std::array<LaneState, kMaxLanes> lanes_{};
  // Of adaptive, over all lanes that are not suspended.
  double rate_sum_ = 0;
  double time_of_windows_ = 0;  // nanoseconds that the slowest to empty its window takes
  std::uint64_t inflight_sum_ = 0;
  std::uint64_t outstanding_sum_ = 0;                // segments
  std::uint32_t unknown_count_ = 0;                  // lanes without a rate
  std::uint32_t known_count_ = 0;                    // lanes with one
  std::uint32_t until_totals_ = 0;                   // samples until the sums are made anew
  std::array<std::uint8_t, kMaxLanes> unsampled_{};  // lanes of which a sample is due
  std::uint32_t unsampled_count_ = 0;
  TimePoint unsampled_at_{};  // when these were
  // The plan holds while segments are given, since bytes only go from the queue to the lanes.
  std::uint32_t plan_ = 0;
  bool plan_holds_ = false;
  LaneSet eligible_{};               // of the ready lanes, those that do not have their share yet
  std::uint64_t planned_bytes_ = 0;  // queued and under way
  double plan_end_ = 0;              // nanoseconds from now; 0 = not known
  std::uint64_t far_bytes_ = 0;      // with more queued than this, every lane may fill its window
  // Of dqplb: the oldest segment waits, and these lanes completed one since.
  bool waiting_ = false;
  Ring<std::uint32_t> freed_;
};

inline void Scheduler::update_room(std::uint32_t lane) noexcept {
  LaneState& state = lanes_[lane];
  const bool open =
      state.outstanding < config_.lane_depth && state.granted != state.used && !state.suspended;
  state.ready = open && state.inflight_bytes < state.window_bytes;
  open_.assign(lane, open);
  ready_.assign(lane, state.ready);
  if (!state.ready) eligible_.erase(lane);
}

inline bool Scheduler::pick(SchedulerPolicy policy, const Demand& demand, TimePoint now,
                            Choice& choice) noexcept {
  if (config_.lanes > 1) return pick_of_many(policy, demand, now, choice);
  choice = {0, whole(demand)};
  return has_room(0);
}

inline void Scheduler::on_given(std::uint32_t lane, std::uint32_t bytes, TimePoint now,
                                GivenStamp& stamp) noexcept {
  LaneState& state = lanes_[lane];
  if (state.outstanding == 0) {
    state.delivered_at = now;
    state.first_seen = false;
  }
  // With less under way than the path holds it runs empty, and until all of that is through, the
  // lane shows less than it can.
  if (state.inflight_bytes < state.path_bytes) {
    state.limited_until = state.delivered_bytes + state.inflight_bytes + bytes;
  }
  stamp.delivered_bytes = state.delivered_bytes;
  stamp.delivered_at = state.delivered_at;
  stamp.first = !state.first_seen;
  stamp.limited = state.delivered_bytes < state.limited_until;
  ++state.outstanding;
  ++outstanding_sum_;
  ++state.used;
  state.inflight_bytes += bytes;
  inflight_sum_ += bytes;
  state.allowance -= bytes;
  if (waiting_ && !freed_.empty() && freed_.front() == lane) freed_.pop();
  next_ = lane + 1 == config_.lanes ? 0 : lane + 1;
  if (state.outstanding == config_.lane_depth || state.granted == state.used ||
      state.inflight_bytes >= state.window_bytes) {
    update_room(lane);
  }
}

inline void Scheduler::on_completed(std::uint32_t lane, std::uint32_t bytes,
                                    const GivenStamp& stamp, TimePoint given_at, bool sample,
                                    TimePoint now) noexcept {
  if (unsampled_at_ != now) take_samples(now);
  LaneState& state = lanes_[lane];
  --state.outstanding;
  --outstanding_sum_;
  state.inflight_bytes -= bytes;
  if (waiting_) (void)freed_.push(lane);
  if (state.suspended) return;
  inflight_sum_ -= bytes;
  plan_holds_ = false;
  if (sample) {
    state.delivered_bytes += bytes;
    state.stamp = stamp;
    state.given_at = given_at;
    if (!state.unsampled) {
      state.unsampled = true;
      unsampled_[unsampled_count_++] = static_cast<std::uint8_t>(lane);
    }
  }
  if (!state.ready) update_room(lane);
}

}  // namespace braid::channel
