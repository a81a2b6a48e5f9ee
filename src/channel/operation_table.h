#pragma once

#include <braid/channel.h>
#include <braid/status.h>

#include <cstdint>
#include <memory>

#include "base/ring.h"

namespace braid::channel {

enum class OperationKind : std::uint8_t {
  kPut,  // and notify: the sender's
  kGet,
  kFetchAdd,
  kCompareSwap,
};

/// True for what the peer's device answers with data: the fetcher's work.
[[nodiscard]] constexpr bool is_fetch(OperationKind kind) noexcept {
  return kind != OperationKind::kPut;
}

/// One accepted operation.
struct Operation {
  std::uint64_t local_address = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t next_offset = 0;  // first byte that is not in a segment yet
  std::uint64_t user_data = 0;
  std::uint64_t operand = 0;  // to add, or to store when the comparison holds
  std::uint64_t compare = 0;  // of a compare-and-swap
  std::uint64_t fences = 0;   // raised before it was accepted
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  std::uint32_t inflight_segments = 0;
  std::uint32_t generation = 0;
  OperationKind kind = OperationKind::kPut;
  SchedulerPolicy policy = SchedulerPolicy::kAdaptive;
  std::uint32_t split_lane = 0;   // of static split: whose segment is next
  std::uint64_t split_begin = 0;  // of static split: where the present chunk begins
  std::uint8_t notify = 0;
  bool active = false;     // accepted and not completed
  bool completed = false;  // its completion waits to be taken
  bool planned = false;    // its last segment was given to a lane
  Status status;           // first error of its segments
};

/// Fixed table of operations. A slot is taken by accept(), completes exactly once, and is free
/// again when its completion has been polled.
///
/// It also keeps the fences: an operation may begin when every fetch that was accepted before the
/// newest fence before it has ended. Only counts are kept, one per stretch between two fences that
/// has fetches; a fetch ends only after it may begin, so there are never more of them than slots.
/// Cost: O(1) each; allocates in the constructor only.
class OperationTable {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  explicit OperationTable(std::uint32_t capacity);

  /// Takes a slot for `operation`, of which the fields of its beginning count. Index, or kNone when
  /// all slots are taken.
  [[nodiscard]] std::uint32_t accept(const Operation& operation) noexcept;
  [[nodiscard]] Operation& at(std::uint32_t index) noexcept { return operations_[index]; }
  [[nodiscard]] Ticket ticket_of(std::uint32_t index) const noexcept {
    return {(static_cast<std::uint64_t>(operations_[index].generation) << 32U) | index};
  }

  /// Orders operations that are accepted from now on after the fetches accepted so far.
  void fence() noexcept;
  [[nodiscard]] bool may_begin(const Operation& operation) const noexcept {
    return operation.fences <= passed_fences_;
  }

  /// Ends an active operation with its status. Ending one twice is a programmer error.
  void complete(std::uint32_t index) noexcept;
  /// Takes the oldest completion; false when there is none.
  [[nodiscard]] bool poll(Completion& completion) noexcept;
  /// Takes the completion of one operation, wherever it stands in the queue. Errors: kWouldBlock
  /// (not completed yet), kNotFound (no such operation, or its completion was taken).
  Status take(Ticket ticket, Completion& completion) noexcept;

  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  /// Accepted and not completed.
  [[nodiscard]] std::uint32_t active_count() const noexcept { return active_count_; }

 private:
  // Neighbours in the queue of completions, by index.
  struct Link {
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
  };

  void release(std::uint32_t index, Completion& completion) noexcept;
  [[nodiscard]] std::uint32_t& fetches_after(std::uint64_t fences) noexcept {
    return fetches_[fences & fence_mask_];
  }

  std::uint32_t capacity_;
  std::uint32_t active_count_ = 0;
  std::unique_ptr<Operation[]> operations_;
  Ring<std::uint32_t> free_;
  // Completions in their order. A list, because take() removes from the middle.
  std::unique_ptr<Link[]> links_;
  std::uint32_t oldest_completed_ = kNone;
  std::uint32_t newest_completed_ = kNone;
  // Active fetches by the number of fences before them; only [passed_fences_, fences_] have any.
  std::uint32_t fence_mask_;
  std::unique_ptr<std::uint32_t[]> fetches_;
  std::uint64_t fences_ = 0;
  std::uint64_t passed_fences_ = 0;
};

}  // namespace braid::channel
