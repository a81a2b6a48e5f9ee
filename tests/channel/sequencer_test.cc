#include "channel/sequencer.h"

#include <gtest/gtest.h>

#include <set>
#include <vector>

#include "base/random.h"

namespace braid::channel {
namespace {

using Verdict = Sequencer::Verdict;

// What the ring must do, written over unbounded numbers and a set.
struct Model {
  std::uint64_t head = 0;
  std::set<std::uint64_t> arrived;

  Verdict accept(std::uint64_t number, std::uint32_t window) {
    if (number < head) return head - number <= window ? Verdict::kDuplicate : Verdict::kOutOfWindow;
    if (number >= head + window) return Verdict::kOutOfWindow;
    return arrived.insert(number).second ? Verdict::kAccepted : Verdict::kDuplicate;
  }
};

// Requirement: 59
TEST(Sequencer, RandomArrivals_AgreeWithTheModel_FromEveryStartNearTheWrap) {
  for (const std::uint32_t window : {1U, 2U, 8U, 64U}) {
    for (std::uint32_t start = 0; start < 2 * window + 2; ++start) {
      // The run begins up to 2 windows before the wrap and crosses it.
      const std::uint64_t base = kSequenceCount - start;
      Random random(start + 1000ULL * window);
      Sequencer sequencer(window, Sequence(static_cast<std::uint32_t>(base & Sequence::kMask)));
      Model model;
      model.head = base;
      for (std::uint32_t i = 0; i < 40 * window + 200; ++i) {
        const std::uint64_t number = model.head - window - 2 + random.below(2 * window + 5);
        const Imm imm{Sequence(static_cast<std::uint32_t>(number & Sequence::kMask)), 0, false};
        ASSERT_EQ(sequencer.accept(imm), model.accept(number, window));
        if (random.below(3) == 0) {
          while (sequencer.head_arrived()) {
            ASSERT_EQ(model.arrived.erase(model.head), 1U);
            ++model.head;
            sequencer.pop();
          }
          ASSERT_EQ(model.arrived.count(model.head), 0U);
        }
        ASSERT_EQ(sequencer.head().value(), model.head & Sequence::kMask);
      }
      ASSERT_GT(model.head, base);
    }
  }
}

// Requirement: 60
TEST(Sequencer, WindowBoundary_AtTheLimitPasses_OnePastFails) {
  for (const std::uint32_t first : {0U, 5U, Sequence::kMask - 3, Sequence::kMask}) {
    Sequencer sequencer(8, Sequence(first));
    EXPECT_EQ(sequencer.accept({Sequence(first) + 7, 0, true}), Verdict::kAccepted);
    EXPECT_EQ(sequencer.accept({Sequence(first) + 8, 0, true}), Verdict::kOutOfWindow);
    EXPECT_EQ(sequencer.accept({Sequence(first) - 8U, 0, true}), Verdict::kDuplicate);
    EXPECT_EQ(sequencer.accept({Sequence(first) - 9U, 0, true}), Verdict::kOutOfWindow);
    EXPECT_EQ(sequencer.high_water(), 7U);
  }
}

TEST(Sequencer, NotifyOnASegmentThatIsNotLast_IsMalformedAndNotStored) {
  Sequencer sequencer(8);
  EXPECT_EQ(sequencer.accept({Sequence(0), 3, false}), Verdict::kMalformed);
  EXPECT_FALSE(sequencer.head_arrived());
  EXPECT_EQ(sequencer.accept({Sequence(0), 3, true}), Verdict::kAccepted);
  EXPECT_EQ(sequencer.head_notify(), 3U);
}

TEST(Sequencer, WholeCircle_InShuffledWindows_DeliversEverySequenceOnce) {
  constexpr std::uint32_t kWindow = 4096;
  Sequencer sequencer(kWindow, Sequence(77));
  std::vector<std::uint32_t> order(kWindow);
  Random random(9);
  for (std::uint64_t base = 0; base < kSequenceCount + 2 * kWindow; base += kWindow) {
    for (std::uint32_t i = 0; i < kWindow; ++i) order[i] = i;
    for (std::uint32_t i = kWindow - 1; i > 0; --i) std::swap(order[i], order[random.below(i + 1)]);
    for (const std::uint32_t i : order) {
      const auto number = static_cast<std::uint32_t>((77 + base + i) & Sequence::kMask);
      ASSERT_EQ(sequencer.accept({Sequence(number), 0, false}), Verdict::kAccepted);
    }
    while (sequencer.head_arrived()) sequencer.pop();
    ASSERT_EQ(sequencer.delivered(), base + kWindow);
  }
}

}  // namespace
}  // namespace braid::channel
