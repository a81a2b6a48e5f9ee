#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "roce/memory_table.h"

namespace braid::roce {

/// A posted receive, taken off its queue. The scatter list points into the queue's slot and stays
/// valid until the next post to the queue, so that the taker copies it.
struct PostedReceive {
  std::uint64_t wr_id = 0;
  std::span<const ibv_sge> sges;
};

/// Posted receives of one QP or of a shared receive queue.
///
/// Shape: fixed capacity; each slot has room for max_sge scatter entries.
/// Thread: none; the device's mutex serialises. Cost: O(1), allocates in the constructor only.
class ReceiveQueue {
 public:
  ReceiveQueue(PdId pd, std::uint32_t max_wr, std::uint32_t max_sge, void* owner);

  /// Returns 0, EINVAL (too many SGEs) or ENOMEM (full).
  [[nodiscard]] int post(const ibv_recv_wr& wr) noexcept;

  [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
  /// Takes the oldest receive. The queue is not empty.
  [[nodiscard]] PostedReceive take() noexcept;
  void clear() noexcept { tail_ = head_; }

  /// True once when the number of receives has fallen below the armed limit; disarms it.
  [[nodiscard]] bool limit_reached() noexcept;
  void set_limit(std::uint32_t limit) noexcept { limit_ = limit; }
  [[nodiscard]] std::uint32_t limit() const noexcept { return limit_; }

  [[nodiscard]] PdId pd() const noexcept { return pd_; }
  [[nodiscard]] std::uint32_t max_sge() const noexcept { return max_sge_; }
  [[nodiscard]] void* owner() const noexcept { return owner_; }

 private:
  struct Slot {
    std::uint64_t wr_id;
    std::uint32_t sge_count;
  };

  PdId pd_;
  std::uint32_t max_wr_;
  std::uint32_t max_sge_;
  std::uint32_t mask_;
  std::uint32_t head_ = 0;
  std::uint32_t tail_ = 0;
  std::uint32_t limit_ = 0;
  void* owner_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<ibv_sge[]> sges_;
};

}  // namespace braid::roce
