#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace braid::roce {

/// Ring of work completions between the engine and whoever polls.
///
/// Thread: push(), arm() and resize() run under the device's mutex; poll() may run concurrently
/// with them and with other poll() calls (a spin lock per queue serialises the consumers).
class CompletionQueue {
 public:
  /// Shape: holds at least `capacity` completions. `owner` is returned by owner() untouched.
  CompletionQueue(std::size_t capacity, void* owner);

  /// Appends a completion. False when the queue is full: it is then in error for good and the
  /// completion is lost, as on hardware. `solicited` marks what solicited-only arming waits for
  /// (errors always count as solicited).
  /// `event` is set when the push meets the arming: the caller then raises a completion event.
  bool push(const ibv_wc& completion, bool solicited, bool& event) noexcept;

  /// Takes up to `count` completions, oldest first. Returns how many.
  /// Cost: O(returned), no allocation; one atomic load when empty.
  std::size_t poll(std::size_t count, ibv_wc* out) noexcept;

  /// Arms for one event at the next push (the next solicited one if `solicited_only`).
  void arm(bool solicited_only) noexcept;
  /// Whether an arming for any completion stands. Thread: any; advisory without the mutex.
  [[nodiscard]] bool armed_for_any() const noexcept {
    return arming_.load(std::memory_order_relaxed) == Arming::kAny;
  }
  /// Takes back an arming for any completion; false when there is none. Runs under the mutex.
  bool disarm() noexcept;

  /// Removes the completions of a QP that is being destroyed (ibv_destroy_qp: a CQ holds no
  /// completion of a destroyed QP). Runs under the device's mutex.
  void remove_qp(std::uint32_t qpn) noexcept;

  /// Changes the capacity. Returns 0, EINVAL (0, or more completions are queued than the new one
  /// holds) or ENOMEM; the queue is then as before.
  [[nodiscard]] int resize(std::size_t capacity) noexcept;

  [[nodiscard]] bool in_error() const noexcept { return error_.load(std::memory_order_acquire); }
  [[nodiscard]] std::size_t capacity() const noexcept { return mask_ + 1; }
  [[nodiscard]] std::size_t size() const noexcept {
    return head_.load(std::memory_order_acquire) - tail_.load(std::memory_order_acquire);
  }
  [[nodiscard]] void* owner() const noexcept { return owner_; }

 private:
  enum class Arming : std::uint8_t { kNone, kSolicited, kAny };
  class ConsumerLock;

  std::size_t mask_;
  std::unique_ptr<ibv_wc[]> slots_;
  std::atomic<std::size_t> head_{0};           // written by the producer
  std::atomic<Arming> arming_{Arming::kNone};  // written under the mutex
  std::atomic<bool> error_{false};
  void* owner_;
  alignas(64) std::atomic<std::size_t> tail_{0};  // written by the consumer that holds the lock
  std::atomic_flag consumer_busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace braid::roce
