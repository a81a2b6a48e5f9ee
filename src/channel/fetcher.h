#pragma once

#include <braid/channel.h>
#include <braid/time.h>

#include <array>
#include <cstdint>
#include <memory>

#include "base/ring.h"
#include "channel/operation_table.h"

namespace braid::channel {

/// A part of a get, or a whole atomic, that was given to a lane and has to be posted there.
struct FetchPost {
  std::uint32_t lane = 0;
  std::uint32_t bytes = 0;
  std::uint32_t number = 0;  // names it in its completion
  OperationKind kind = OperationKind::kGet;
  std::uint64_t local_address = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t operand = 0;
  std::uint64_t compare = 0;
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
};

/// What a lane did for gets and atomics.
struct LaneFetchCounts {
  std::uint64_t completed_parts = 0;
  std::uint64_t completed_bytes = 0;
  std::uint64_t errors = 0;
  TimePoint progress_at{};  // as of LaneSendCounts
};

/// Fetching half of a channel, without I/O: gets and atomics in, parts out, completions in.
///
/// Contract: as of the Sender, but parts take no sequence and no receive credit: the peer's device
/// answers them alone. What bounds a lane is how many READs and atomics its QP may have under way
/// (max_rd_atomic); one more would stop the queue pair, and the puts behind it. So a lane gets its
/// next part when it has finished one, and a slow lane gets fewer.
/// Cost: O(1) per part; allocates in the constructor only.
class Fetcher {
 public:
  struct Config {
    std::uint32_t lanes = 1;
    std::uint32_t read_depth = 1;  // parts under way per lane
    std::uint32_t segment_bytes = 512U << 10U;
  };

  /// `operations` is shared with the sender and outlives this.
  Fetcher(const Config& config, OperationTable& operations);

  /// Accepts an operation of a kind that is_fetch(). Index, or OperationTable::kNone.
  [[nodiscard]] std::uint32_t accept(const Operation& operation) noexcept;
  /// Lowers the parts under way per lane to what both devices can do. Before the first next().
  void limit_read_depth(std::uint32_t depth) noexcept;

  /// Yields the next part and counts it as under way; false when none can begin now. A get of
  /// nothing ends here without a part.
  [[nodiscard]] bool next(FetchPost& post, TimePoint now) noexcept;

  /// The part with this number, on this lane, is done. False when no such part is under way.
  [[nodiscard]] bool handle_completion(std::uint32_t number, std::uint32_t lane, Status status,
                                       TimePoint now) noexcept;

  /// Gives no part to `lane` any more.
  void suspend(std::uint32_t lane) noexcept;
  /// A part that was yielded for `lane` and never posted: it is yielded again.
  [[nodiscard]] bool take_back(std::uint32_t number, std::uint32_t lane) noexcept;
  /// The lane died, and nothing of it can reach local memory any more: parts of gets are yielded
  /// again; whether an atomic was executed nobody knows, so it ends with kUnknownOutcome.
  void fail_over(std::uint32_t lane) noexcept;
  /// Ends everything under way on `lane` with an error. After fail().
  void end_lane(std::uint32_t lane, Status status, TimePoint now) noexcept;
  /// `lane` is new: nothing under way.
  void resume(std::uint32_t lane) noexcept;
  /// Parts under way on `lane`.
  [[nodiscard]] std::uint32_t outstanding(std::uint32_t lane) const noexcept {
    return under_way_[lane];
  }
  /// Parts that were yielded again because their lane died.
  [[nodiscard]] std::uint64_t replayed_parts() const noexcept { return replayed_parts_; }

  /// Nothing more is yielded; what has nothing under way ends now with `status`.
  void fail(Status status) noexcept;
  /// Ends what is still active although parts of it have not completed.
  void abandon() noexcept;

  /// True when there is nothing to post and nothing under way.
  [[nodiscard]] bool idle() const noexcept { return queue_.empty() && lowest_ == next_; }
  [[nodiscard]] std::uint32_t inflight_parts() const noexcept { return next_ - completed_; }
  [[nodiscard]] std::uint32_t read_depth() const noexcept { return config_.read_depth; }
  /// When the oldest part under way was yielded, or kNever.
  [[nodiscard]] TimePoint oldest_post_time() const noexcept;
  [[nodiscard]] const LaneFetchCounts& lane_counts(std::uint32_t lane) const noexcept {
    return counts_[lane];
  }

 private:
  static constexpr std::uint32_t kNoLane = UINT32_MAX;

  struct Record {
    TimePoint posted_at;
    std::uint64_t offset = 0;
    std::uint32_t operation = 0;
    std::uint32_t bytes = 0;
    std::uint32_t lane = 0;
    bool under_way = false;
  };

  [[nodiscard]] std::uint32_t pick() const noexcept;
  void fill(FetchPost& post, std::uint32_t number) noexcept;
  void give(std::uint32_t lane, TimePoint now) noexcept;
  void release(std::uint32_t lane) noexcept;
  [[nodiscard]] Record* find(std::uint32_t number, std::uint32_t lane) noexcept;
  void end(Record& record, Status status) noexcept;
  void finish_if_done(std::uint32_t index) noexcept;

  Config config_;
  OperationTable& operations_;
  Ring<std::uint32_t> queue_;  // operations that are not fully planned, in order
  std::uint32_t window_mask_;
  Ring<std::uint32_t> replays_;  // parts to be yielded again
  std::unique_ptr<Record[]> records_;
  // Counts of parts, mod 2^32; records of [lowest_, next_) are in use.
  std::uint32_t next_ = 0;
  std::uint32_t lowest_ = 0;
  std::uint32_t completed_ = 0;
  std::uint64_t replayed_parts_ = 0;
  std::uint32_t next_lane_ = 0;
  std::array<std::uint64_t, kMaxLanes / 64> room_{};  // a bit for each lane that may take a part
  Status failure_;
  std::array<std::uint32_t, kMaxLanes> under_way_{};
  std::array<bool, kMaxLanes> suspended_{};
  std::array<LaneFetchCounts, kMaxLanes> counts_{};
};

}  // namespace braid::channel
