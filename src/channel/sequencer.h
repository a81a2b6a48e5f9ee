#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>
#include <memory>

#include "channel/imm.h"

namespace braid::channel {

/// Puts the segments of the peer back in order: a fixed ring of its window, one byte per sequence.
///
/// Shape: the window is a power of two up to kMaxWindow, and both sides use the same.
/// Invariant: slots of [head, head + window) say what has arrived; all others are empty.
/// Cost: accept() and pop() O(1); allocates in the constructor only.
class Sequencer {
 public:
  enum class Verdict : std::uint8_t {
    kAccepted,
    kDuplicate,    // arrived before: not stored
    kOutOfWindow,  // beyond what the sender may use, or older than any duplicate can be
    kMalformed,    // a notify index on a segment that is not the last of its operation
  };

  explicit Sequencer(std::uint32_t window, Sequence first = Sequence(0))
      : mask_(window - 1), head_(first), slots_(std::make_unique<std::uint8_t[]>(window)) {
    assert(std::has_single_bit(window) && window <= kMaxWindow);
  }

  [[nodiscard]] Verdict accept(const Imm& imm) noexcept {
    const std::int32_t distance = imm.sequence - head_;
    const auto window = static_cast<std::int32_t>(mask_ + 1);
    if (distance < 0) return distance >= -window ? Verdict::kDuplicate : Verdict::kOutOfWindow;
    if (distance >= window) return Verdict::kOutOfWindow;
    if (imm.notify != 0 && !imm.last) return Verdict::kMalformed;
    std::uint8_t& slot = slots_[imm.sequence.value() & mask_];
    if ((slot & kArrived) != 0) return Verdict::kDuplicate;
    slot = static_cast<std::uint8_t>(kArrived | imm.notify);
    high_water_ = std::max(high_water_, static_cast<std::uint32_t>(distance));
    return Verdict::kAccepted;
  }

  /// True when the sequence has arrived, whether or not it was delivered.
  [[nodiscard]] bool arrived(Sequence sequence) const noexcept {
    const std::int32_t distance = sequence - head_;
    if (distance < 0) return true;
    if (distance > static_cast<std::int32_t>(mask_)) return false;
    return (slots_[sequence.value() & mask_] & kArrived) != 0;
  }

  /// True when the oldest sequence that was not delivered has arrived.
  [[nodiscard]] bool head_arrived() const noexcept { return (head_slot() & kArrived) != 0; }
  /// Notify index of that sequence, 0 = none. Only when head_arrived().
  [[nodiscard]] std::uint8_t head_notify() const noexcept {
    return static_cast<std::uint8_t>(head_slot() & ~kArrived);
  }
  /// Delivers it. Only when head_arrived().
  void pop() noexcept {
    assert(head_arrived());
    slots_[head_.value() & mask_] = 0;
    ++head_;
    ++delivered_;
  }

  [[nodiscard]] Sequence head() const noexcept { return head_; }
  /// Sequences delivered since the beginning.
  [[nodiscard]] std::uint64_t delivered() const noexcept { return delivered_; }
  [[nodiscard]] std::uint32_t window() const noexcept { return mask_ + 1; }
  /// Largest distance at which a sequence has waited beyond the head.
  [[nodiscard]] std::uint32_t high_water() const noexcept { return high_water_; }

 private:
  static constexpr std::uint8_t kArrived = 0x80;

  [[nodiscard]] std::uint8_t head_slot() const noexcept { return slots_[head_.value() & mask_]; }

  std::uint32_t mask_;
  Sequence head_;
  std::uint64_t delivered_ = 0;
  std::uint32_t high_water_ = 0;
  std::unique_ptr<std::uint8_t[]> slots_;
};

}  // namespace braid::channel
