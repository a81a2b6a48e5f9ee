#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

namespace braid {

/// FIFO of fixed capacity. Indices run freely and are masked on access, so full and empty differ
/// without a spare slot.
///
/// Shape: capacity is rounded up to a power of two. Thread: none; the owner serialises.
/// Cost: O(1) each; allocates in the constructor only.
template <typename T>
class Ring {
 public:
  Ring() noexcept = default;
  explicit Ring(std::size_t capacity)
      : mask_(std::bit_ceil(capacity < 1 ? std::size_t{1} : capacity) - 1),
        slots_(std::make_unique<T[]>(mask_ + 1)) {}

  [[nodiscard]] std::size_t capacity() const noexcept { return slots_ ? mask_ + 1 : 0; }
  [[nodiscard]] std::size_t size() const noexcept { return head_ - tail_; }
  [[nodiscard]] bool empty() const noexcept { return head_ == tail_; }
  [[nodiscard]] bool full() const noexcept { return size() == capacity(); }

  /// False when full; the ring is then unchanged.
  [[nodiscard]] bool push(T value) noexcept {
    if (full()) return false;
    slots_[head_++ & mask_] = std::move(value);
    return true;
  }
  [[nodiscard]] T& front() noexcept {
    assert(!empty());
    return slots_[tail_ & mask_];
  }
  /// i-th oldest element, i < size().
  [[nodiscard]] T& at(std::size_t i) noexcept {
    assert(i < size());
    return slots_[(tail_ + i) & mask_];
  }
  void pop() noexcept {
    assert(!empty());
    ++tail_;
  }
  void pop_newest() noexcept {
    assert(!empty());
    --head_;
  }
  void clear() noexcept { tail_ = head_; }

 private:
  std::size_t mask_ = 0;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
  std::unique_ptr<T[]> slots_;
};

}  // namespace braid
