#pragma once

#include <braid/channel_options.h>
#include <braid/time.h>

#include <array>
#include <cstdint>

#include "base/ring.h"

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
/// Cost: pick() is O(1) while lanes have room and much is queued, O(lanes) otherwise.
class Scheduler {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

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
  [[nodiscard]] bool has_room(std::uint32_t lane) const noexcept { return bit(open_, lane); }
  /// Nothing waits any more: for dqplb a new turn begins.
  void on_drained() noexcept {
    waiting_ = false;
    freed_.clear();
  }

  /// The segment was given to `lane`. `more`: further bytes are queued behind it.
  GivenStamp on_given(std::uint32_t lane, std::uint32_t bytes, TimePoint now) noexcept;
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
  using LaneSet = std::array<std::uint64_t, kMaxLanes / 64>;

  struct LaneState {
    std::uint32_t outstanding = 0;
    // Cumulative counts mod 2^32: one ledger for every segment, whatever becomes of it.
    std::uint32_t granted = 0;
    std::uint32_t used = 0;
    bool suspended = false;
    std::uint64_t inflight_bytes = 0;
    std::uint64_t window_bytes = 0;
    std::uint64_t delivered_bytes = 0;
    TimePoint delivered_at{};  // of the newest completion, or the beginning of the busy time
    // The first completion of the busy time, if there was one, and delivered_bytes with it.
    TimePoint first_at{};
    std::uint64_t first_bytes = 0;
    std::uint64_t limited_until = 0;  // of delivered_bytes
    bool first_seen = false;
    bool measured = false;  // false: the rate is just the least that it can be
    double rate = 0;        // bytes per nanosecond; 0 = not known
    double least_time = 0;  // nanoseconds of the quickest completion, slowly forgotten
  };

  [[nodiscard]] static bool bit(const LaneSet& set, std::uint32_t lane) noexcept {
    return ((set[lane / 64] >> (lane % 64)) & 1U) != 0;
  }
  static void assign(LaneSet& set, std::uint32_t lane, bool value) noexcept {
    const std::uint64_t mask = std::uint64_t{1} << (lane % 64);
    set[lane / 64] = value ? set[lane / 64] | mask : set[lane / 64] & ~mask;
  }
  /// First lane of the set at or after `from`, going round; kNone when it is empty.
  [[nodiscard]] std::uint32_t next_in(const LaneSet& set, std::uint32_t from) const noexcept;

  void update_room(std::uint32_t lane) noexcept;
  /// What the completion of a segment with that stamp says of the lane's rate.
  [[nodiscard]] RateSample take_sample(LaneState& lane, const GivenStamp& stamp,
                                       TimePoint now) noexcept;
  void update_rate(LaneState& lane, const RateSample& sample, double time) noexcept;
  void update_totals() noexcept;
  /// The lane whose turn it is, or the next one that is not suspended.
  [[nodiscard]] std::uint32_t in_turn() const noexcept;
  [[nodiscard]] bool pick_dqplb(std::uint32_t& lane) noexcept;
  [[nodiscard]] bool pick_adaptive(const Demand& demand, TimePoint now, Choice& choice) noexcept;
  [[nodiscard]] bool pick_small(const Demand& demand, TimePoint now, Choice& choice) const noexcept;
  /// Nanoseconds until `bytes` given to the lane now would be done.
  [[nodiscard]] static double time_to_finish(const LaneState& lane, double bytes,
                                             TimePoint now) noexcept;
  [[nodiscard]] bool pick_shared(const Demand& demand, TimePoint now, Choice& choice) noexcept;
  [[nodiscard]] std::uint32_t whole(const Demand& demand) const noexcept;

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
  std::uint64_t outstanding_sum_ = 0;  // segments
  std::uint32_t unknown_count_ = 0;    // lanes without a rate
  std::uint32_t known_count_ = 0;      // lanes with one
  std::uint32_t until_totals_ = 0;     // completions until the sums are made anew
  // Of dqplb: the oldest segment waits, and these lanes completed one since.
  bool waiting_ = false;
  Ring<std::uint32_t> freed_;
};

}  // namespace braid::channel
