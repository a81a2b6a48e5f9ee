#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace braid::sim {

enum class EventKind : std::uint16_t {
  kSent,     // subject: directed link; its packet has left
  kArrival,  // subject: directed link; the oldest packet on the wire is at the end
  kStray,    // subject: packet that was held back
  kPause,    // subject: directed link
  kResume,   // subject: directed link
  kTimer,    // subject: port
  kWake,     // subject: port; the time that its poller asked for
  kPoll,     // subject: port; its NIC has something
  kFault,    // subject: index of the scheduled fault
};

struct Event {
  std::int64_t at_ns = 0;
  std::uint64_t order = 0;  // of scheduling; breaks ties, so the order is total
  EventKind kind = EventKind::kSent;
  std::uint32_t subject = 0;
};

/// Events by time, then by the order in which they were scheduled: a heap with four children per
/// node, which is shallower than a binary one and keeps the children in one cache line and a half.
///
/// Cost: O(log n); allocates only while it grows beyond what it held before.
class EventQueue {
 public:
  void push(std::int64_t at_ns, EventKind kind, std::uint32_t subject) {
    heap_.push_back({at_ns, next_order_++, kind, subject});
    sift_up(heap_.size() - 1);
  }
  [[nodiscard]] bool empty() const noexcept { return heap_.empty(); }
  [[nodiscard]] std::size_t size() const noexcept { return heap_.size(); }
  [[nodiscard]] const Event& top() const noexcept {
    assert(!empty());
    return heap_.front();
  }
  void pop() noexcept {
    assert(!empty());
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(last);
  }
  [[nodiscard]] std::size_t memory_bytes() const noexcept {
    return heap_.capacity() * sizeof(Event);
  }

 private:
  static bool before(const Event& x, const Event& y) noexcept {
    return x.at_ns != y.at_ns ? x.at_ns < y.at_ns : x.order < y.order;
  }
  void sift_up(std::size_t index) noexcept {
    const Event event = heap_[index];
    while (index > 0) {
      const std::size_t parent = (index - 1) / 4;
      if (!before(event, heap_[parent])) break;
      heap_[index] = heap_[parent];
      index = parent;
    }
    heap_[index] = event;
  }
  /// Puts `event` where the hole at the top sinks to.
  void sift_down(const Event& event) noexcept {
    std::size_t index = 0;
    const std::size_t count = heap_.size();
    for (;;) {
      const std::size_t first = index * 4 + 1;
      if (first >= count) break;
      std::size_t best = first;
      const std::size_t end = first + 4 < count ? first + 4 : count;
      for (std::size_t child = first + 1; child < end; ++child) {
        if (before(heap_[child], heap_[best])) best = child;
      }
      if (!before(heap_[best], event)) break;
      heap_[index] = heap_[best];
      index = best;
    }
    heap_[index] = event;
  }

  std::vector<Event> heap_;
  std::uint64_t next_order_ = 0;
};

}  // namespace braid::sim
