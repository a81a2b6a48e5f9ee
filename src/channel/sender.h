#pragma once

#include <braid/channel.h>
#include <braid/time.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>

#include "base/ring.h"
#include "channel/imm.h"
#include "channel/operation_table.h"
#include "channel/planner.h"
#include "channel/scheduler.h"

namespace braid::channel {

/// A segment that was given to a lane and has to be posted there.
struct SegmentPost {
  std::uint32_t lane = 0;
  std::uint32_t bytes = 0;
  std::uint64_t local_address = 0;
  std::uint64_t remote_address = 0;
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  Imm imm;
};

/// What a lane did in the sending direction.
struct LaneSendCounts {
  std::uint64_t posted_segments = 0;
  std::uint64_t completed_segments = 0;
  std::uint64_t completed_bytes = 0;
  Duration completion_time_sum{0};
  std::uint64_t errors = 0;
  std::uint64_t replayed_segments = 0;  // taken over by other lanes
  /// When the lane last completed a segment, or was given one while it had none.
  TimePoint progress_at{};
  /// Usual time between two completions while it has work: the longest of late, forgotten slowly.
  Duration usual_gap{0};
};

/// Sending half of a channel, without I/O: operations in, segments out, completions in.
///
/// Contract: accept() takes an operation; next() yields segments in sequence order until window,
/// credits or lanes are exhausted; handle_completion() is called once for each segment that was
/// yielded, in any order; fail() ends everything.
/// Invariant: next sequence - lowest unacknowledged <= window, and <= what the receiver granted.
/// Cost: O(1) amortised per segment; allocates in the constructor only.
class Sender {
 public:
  struct Config {
    std::uint32_t lanes = 1;
    std::uint32_t lane_depth = 16;
    std::uint32_t window = 1024;  // power of two
    std::uint32_t segment_bytes = 512U << 10U;
    std::uint32_t max_message_bytes = kMaxSegmentBytes;  // what static split may post at once
    std::uint32_t small_bytes = 64U << 10U;
    std::uint32_t static_threshold_bytes = 512U << 10U;
    bool static_floor = false;
    std::uint32_t operation_capacity = 256;
    std::uint32_t peer_receive_depth = 64;
    Sequence first_sequence = Sequence(0);
  };
  /// Why next() yielded nothing.
  enum class Blocked : std::uint8_t { kNothing, kIdle, kWindow, kLanes, kFence };

  explicit Sender(const Config& config);

  /// Accepts an operation whose fields from local_address to notify are filled in. Index, or
  /// OperationTable::kNone when the table is full.
  [[nodiscard]] std::uint32_t accept(const Operation& operation) noexcept;

  /// Yields the next segment and counts it as under way. False: blocked() says why.
  [[nodiscard]] bool next(SegmentPost& post, TimePoint now) noexcept;
  [[nodiscard]] Blocked blocked() const noexcept { return blocked_; }

  /// The segment with this sequence, on this lane, is done. False when no such segment is under
  /// way: then nothing changed.
  [[nodiscard]] bool handle_completion(Sequence sequence, std::uint32_t lane, Status status,
                                       TimePoint now) noexcept;

  /// Gives no segment to `lane` any more. What it has stays under way until resolve().
  void suspend(std::uint32_t lane) noexcept { scheduler_.suspend(lane); }
  /// Sequences under way on `lane`, at most out.size(), oldest first; how many. Cost: O(window).
  [[nodiscard]] std::size_t under_way_on(std::uint32_t lane,
                                         std::span<Sequence> out) const noexcept;
  /// What became of a segment whose lane died before it completed: it arrived, then it is done, or
  /// it did not and never will, then it is yielded again with the same sequence, before anything
  /// new. False when no such segment is under way there.
  [[nodiscard]] bool resolve(Sequence sequence, std::uint32_t lane, bool arrived,
                             TimePoint now) noexcept;
  /// Ends everything under way on `lane` with an error. After fail().
  void end_lane(std::uint32_t lane, Status status, TimePoint now) noexcept;
  /// The queue pair of `lane` is new, and the peer has posted all receives on its own.
  void renew_credits(std::uint32_t lane) noexcept {
    scheduler_.renew_credits(lane, config_.peer_receive_depth);
  }
  /// `lane` may be given segments again. Only with nothing under way on it.
  void resume(std::uint32_t lane) noexcept { scheduler_.resume(lane); }

  /// The receiver has delivered `total` sequences and posted `receives` receives on `lane`. False
  /// when a peer cannot truthfully say so.
  [[nodiscard]] bool handle_delivered(std::uint64_t total) noexcept;
  [[nodiscard]] bool handle_granted(std::uint32_t lane, std::uint32_t receives) noexcept;

  /// Nothing more is yielded. Operations with nothing under way end now with `status`, the others
  /// when their last segment has completed, or in abandon().
  void fail(Status status) noexcept;
  /// Ends what is still active although segments of it have not completed.
  void abandon() noexcept;

  [[nodiscard]] OperationTable& operations() noexcept { return operations_; }
  [[nodiscard]] const LaneSendCounts& lane_counts(std::uint32_t lane) const noexcept {
    return counts_[lane];
  }
  [[nodiscard]] const Scheduler& scheduler() const noexcept { return scheduler_; }
  [[nodiscard]] std::uint32_t peer_receive_depth() const noexcept {
    return config_.peer_receive_depth;
  }
  /// Sequences used since the beginning.
  [[nodiscard]] std::uint64_t sequences_used() const noexcept { return next_; }
  [[nodiscard]] std::uint32_t inflight_segments() const noexcept { return inflight_; }
  /// When the oldest segment under way was yielded, or kNever.
  [[nodiscard]] TimePoint oldest_post_time() const noexcept;

 private:
  static constexpr std::uint32_t kNoLane = UINT32_MAX;

  struct Record {
    TimePoint posted_at;
    std::uint64_t offset = 0;
    std::uint32_t operation = 0;
    std::uint32_t bytes = 0;
    std::uint32_t lane = 0;
    bool under_way = false;
    bool last = false;  // segment of its operation
    GivenStamp stamp;
  };

  [[nodiscard]] Record& record_of(std::uint64_t number) noexcept {
    return records_[number & window_mask_];
  }
  [[nodiscard]] Sequence sequence_of(std::uint64_t number) const noexcept {
    return config_.first_sequence + static_cast<std::uint32_t>(number & Sequence::kMask);
  }
  /// Record under way with this sequence on this lane, or null.
  [[nodiscard]] Record* find(Sequence sequence, std::uint32_t lane) noexcept {
    // The window is far below 2^23, so the distance from the lowest names one count without doubt.
    const std::int32_t distance = sequence - sequence_of(lowest_);
    const std::uint64_t number = lowest_ + static_cast<std::uint32_t>(distance);
    if (distance < 0 || number >= next_) return nullptr;
    Record& record = record_of(number);
    return record.under_way && record.lane == lane ? &record : nullptr;
  }
  /// Gives the segment to its lane and says what to post there.
  void give(std::uint64_t number, Record& record, TimePoint now, SegmentPost& post) noexcept;
  [[nodiscard]] bool choose_static(const Operation& operation, Choice& choice) const noexcept;
  /// Moves on to the next lane's share at the end of one; true at the end of the operation.
  bool advance_static(Operation& operation) const noexcept;
  bool replay(SegmentPost& post, TimePoint now) noexcept;
  void finish_if_done(std::uint32_t index) noexcept;

  Config config_;
  std::uint32_t window_mask_;
  Scheduler scheduler_;
  OperationTable operations_;
  Ring<std::uint32_t> queue_;    // operations that are not fully planned, in order
  Ring<std::uint64_t> replays_;  // segments to be yielded again
  std::unique_ptr<Record[]> records_;
  // 64-bit counts of sequences; the 24-bit sequence is first_sequence + count.
  std::uint64_t next_ = 0;
  std::uint64_t lowest_ = 0;  // every sequence below it is acknowledged
  std::uint64_t delivered_ = 0;
  std::uint32_t inflight_ = 0;
  std::uint64_t queued_bytes_ = 0;  // accepted and in no segment yet
  Blocked blocked_ = Blocked::kIdle;
  Status failure_;
  std::array<LaneSendCounts, kMaxLanes> counts_{};
};

inline void Sender::give(std::uint64_t number, Record& record, TimePoint now,
                         SegmentPost& post) noexcept {
  LaneSendCounts& counts = counts_[record.lane];
  if (scheduler_.outstanding(record.lane) == 0) counts.progress_at = now;
  ++counts.posted_segments;
  record.posted_at = now;
  scheduler_.on_given(record.lane, record.bytes, now, record.stamp);
  const Operation& operation = operations_.at(record.operation);
  post.lane = record.lane;
  post.bytes = record.bytes;
  post.local_address = operation.local_address + record.offset;
  post.remote_address = operation.remote_address + record.offset;
  post.lkey = operation.lkey;
  post.rkey = operation.rkey;
  post.imm = {sequence_of(number), record.last ? operation.notify : std::uint8_t{0}, record.last};
}

}  // namespace braid::channel
