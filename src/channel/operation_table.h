#pragma once

#include <braid/channel.h>
#include <braid/status.h>

#include <cstdint>
#include <memory>

#include "base/ring.h"

namespace braid::channel {

/// One accepted put or notify.
struct Operation {
  std::uint64_t local_address = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t total_bytes = 0;
  std::uint64_t next_offset = 0;  // first byte that is not in a segment yet
  std::uint64_t user_data = 0;
  std::uint32_t lkey = 0;
  std::uint32_t rkey = 0;
  std::uint32_t inflight_segments = 0;
  std::uint32_t generation = 0;
  std::uint8_t notify = 0;
  bool active = false;   // accepted and not completed
  bool planned = false;  // its last segment was given to a lane
  Status status;         // first error of its segments
};

/// Fixed table of operations. A slot is taken by accept(), completes exactly once, and is free
/// again when its completion has been polled.
///
/// Cost: O(1) each; allocates in the constructor only.
class OperationTable {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  explicit OperationTable(std::uint32_t capacity);

  /// Index of a fresh operation, or kNone when all slots are taken.
  [[nodiscard]] std::uint32_t accept() noexcept;
  [[nodiscard]] Operation& at(std::uint32_t index) noexcept { return operations_[index]; }
  [[nodiscard]] Ticket ticket_of(std::uint32_t index) const noexcept {
    return {(static_cast<std::uint64_t>(operations_[index].generation) << 32U) | index};
  }

  /// Ends an active operation with its status. Ending one twice is a programmer error.
  void complete(std::uint32_t index) noexcept;
  /// Takes the oldest completion; false when there is none.
  [[nodiscard]] bool poll(Completion& completion) noexcept;

  [[nodiscard]] std::uint32_t capacity() const noexcept { return capacity_; }
  /// Accepted and not completed.
  [[nodiscard]] std::uint32_t active_count() const noexcept { return active_count_; }

 private:
  std::uint32_t capacity_;
  std::uint32_t active_count_ = 0;
  std::unique_ptr<Operation[]> operations_;
  Ring<std::uint32_t> free_;
  Ring<std::uint32_t> completed_;
};

}  // namespace braid::channel
