#include "roce/completion_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <new>

namespace braid::roce {

/// Serialises the consumers of one queue. Held for a copy of a few completions only.
class CompletionQueue::ConsumerLock {
 public:
  explicit ConsumerLock(std::atomic_flag& busy) noexcept : busy_(busy) {
    while (busy_.test_and_set(std::memory_order_acquire)) {
      while (busy_.test(std::memory_order_relaxed)) __builtin_ia32_pause();
    }
  }
  ~ConsumerLock() { busy_.clear(std::memory_order_release); }
  ConsumerLock(const ConsumerLock&) = delete;
  ConsumerLock& operator=(const ConsumerLock&) = delete;

 private:
  std::atomic_flag& busy_;
};

CompletionQueue::CompletionQueue(std::size_t capacity, void* owner)
    : mask_(std::bit_ceil(std::max(capacity, std::size_t{1})) - 1),
      slots_(std::make_unique<ibv_wc[]>(mask_ + 1)),
      owner_(owner) {}

bool CompletionQueue::push(const ibv_wc& completion, bool solicited, bool& event) noexcept {
  event = false;
  const std::size_t head = head_.load(std::memory_order_relaxed);
  if (in_error() || head - tail_.load(std::memory_order_acquire) > mask_) {
    error_.store(true, std::memory_order_release);
    return false;
  }
  slots_[head & mask_] = completion;
  head_.store(head + 1, std::memory_order_release);
  const bool counts_as_solicited = solicited || completion.status != IBV_WC_SUCCESS;
  const Arming arming = arming_.load(std::memory_order_relaxed);
  if (arming == Arming::kAny || (arming == Arming::kSolicited && counts_as_solicited)) {
    arming_.store(Arming::kNone, std::memory_order_relaxed);
    event = true;
  }
  return true;
}

std::size_t CompletionQueue::poll(std::size_t count, ibv_wc* out) noexcept {
  // Without the lock first: an idle queue costs its pollers no shared write.
  if (head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_relaxed)) return 0;
  const ConsumerLock lock(consumer_busy_);
  const std::size_t tail = tail_.load(std::memory_order_relaxed);
  const std::size_t available = head_.load(std::memory_order_acquire) - tail;
  const std::size_t taken = std::min(count, available);
  for (std::size_t i = 0; i < taken; ++i) out[i] = slots_[(tail + i) & mask_];
  tail_.store(tail + taken, std::memory_order_release);
  return taken;
}

void CompletionQueue::arm(bool solicited_only) noexcept {
  // Arming for any completion is not weakened by a later solicited-only one.
  if (!solicited_only) {
    arming_.store(Arming::kAny, std::memory_order_relaxed);
  } else if (arming_.load(std::memory_order_relaxed) == Arming::kNone) {
    arming_.store(Arming::kSolicited, std::memory_order_relaxed);
  }
}

bool CompletionQueue::disarm() noexcept {
  if (!armed_for_any()) return false;
  arming_.store(Arming::kNone, std::memory_order_relaxed);
  return true;
}

void CompletionQueue::remove_qp(std::uint32_t qpn) noexcept {
  const ConsumerLock lock(consumer_busy_);
  const std::size_t head = head_.load(std::memory_order_relaxed);
  const std::size_t tail = tail_.load(std::memory_order_relaxed);
  // Moves what stays towards the head, newest first, so that only the tail has to change.
  std::size_t to = head;
  for (std::size_t from = head; from != tail; --from) {
    const ibv_wc& completion = slots_[(from - 1) & mask_];
    if (completion.qp_num == qpn) continue;
    --to;
    if (to != from - 1) slots_[to & mask_] = completion;
  }
  tail_.store(to, std::memory_order_release);
}

int CompletionQueue::resize(std::size_t capacity) noexcept {
  if (capacity == 0) return EINVAL;
  const std::size_t mask = std::bit_ceil(capacity) - 1;
  // Before the lock, so that pollers do not spin through an allocation.
  std::unique_ptr<ibv_wc[]> slots(new (std::nothrow) ibv_wc[mask + 1]);
  if (slots == nullptr) return ENOMEM;
  const ConsumerLock lock(consumer_busy_);
  const std::size_t head = head_.load(std::memory_order_relaxed);
  const std::size_t tail = tail_.load(std::memory_order_relaxed);
  if (head - tail > capacity) return EINVAL;
  for (std::size_t i = tail; i != head; ++i) slots[i & mask] = slots_[i & mask_];
  slots_ = std::move(slots);
  mask_ = mask;
  return 0;
}

}  // namespace braid::roce
