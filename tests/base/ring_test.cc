#include "base/ring.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <deque>
#include <memory>

#include "base/random.h"

namespace braid {
namespace {

TEST(Ring, CapacityIsRoundedUpToAPowerOfTwo) {
  EXPECT_EQ(Ring<int>(0).capacity(), 1U);
  EXPECT_EQ(Ring<int>(1).capacity(), 1U);
  EXPECT_EQ(Ring<int>(2).capacity(), 2U);
  EXPECT_EQ(Ring<int>(3).capacity(), 4U);
  EXPECT_EQ(Ring<int>(64).capacity(), 64U);
  EXPECT_EQ(Ring<int>(65).capacity(), 128U);
}

TEST(Ring, DefaultConstructed_HoldsNothing) {
  Ring<int> ring;
  EXPECT_EQ(ring.capacity(), 0U);
  EXPECT_TRUE(ring.empty());
  EXPECT_TRUE(ring.full());
  EXPECT_FALSE(ring.push(1));
}

TEST(Ring, PushAtCapacity_Passes_OnePast_FailsAndChangesNothing) {
  Ring<int> ring(4);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(ring.push(i));
  EXPECT_TRUE(ring.full());
  EXPECT_FALSE(ring.push(99));
  EXPECT_EQ(ring.size(), 4U);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ring.front(), i);
    ring.pop();
  }
  EXPECT_TRUE(ring.empty());
}

TEST(Ring, MoveOnlyElements_AreMovedIn) {
  Ring<std::unique_ptr<int>> ring(2);
  ASSERT_TRUE(ring.push(std::make_unique<int>(7)));
  const std::unique_ptr<int> taken = std::move(ring.front());
  ring.pop();
  EXPECT_EQ(*taken, 7);
  EXPECT_TRUE(ring.empty());
}

void expect_equal(Ring<std::uint64_t>& ring, const std::deque<std::uint64_t>& model) {
  ASSERT_EQ(ring.size(), model.size());
  ASSERT_EQ(ring.empty(), model.empty());
  for (std::size_t i = 0; i < model.size(); ++i) ASSERT_EQ(ring.at(i), model[i]);
  if (!model.empty()) {
    ASSERT_EQ(ring.front(), model.front());
  }
}

TEST(Ring, RandomOperations_AgreeWithADeque) {
  for (std::size_t capacity : {1U, 2U, 8U, 64U}) {
    Random random(capacity);
    Ring<std::uint64_t> ring(capacity);
    std::deque<std::uint64_t> model;
    for (int step = 0; step < 20'000; ++step) {
      const std::uint64_t choice = random.below(100);
      if (choice < 50) {
        const std::uint64_t value = random.next();
        ASSERT_EQ(ring.push(value), model.size() < capacity);
        if (model.size() < capacity) model.push_back(value);
      } else if (choice < 85) {
        if (model.empty()) continue;
        ring.pop();
        model.pop_front();
      } else if (choice < 99) {
        if (model.empty()) continue;
        ring.pop_newest();
        model.pop_back();
      } else {
        ring.clear();
        model.clear();
      }
      ASSERT_EQ(ring.full(), model.size() == capacity);
      expect_equal(ring, model);
    }
  }
}

}  // namespace
}  // namespace braid
