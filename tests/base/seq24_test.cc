#include "base/seq24.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "base/random.h"

namespace braid {
namespace {

struct TestTag;
using Seq = Seq24<TestTag>;

constexpr std::int64_t kModulus = 1 << 24;
constexpr std::int32_t kHalf = 1 << 23;

// Independent of the shifts of the implementation: arithmetic on integers that cannot wrap.
std::int32_t model_distance(std::int64_t a, std::int64_t b) {
  const std::int64_t difference = ((a - b) % kModulus + kModulus) % kModulus;
  return static_cast<std::int32_t>(difference < kHalf ? difference : difference - kModulus);
}

void expect_like_model(std::uint32_t a, std::uint32_t b) {
  const Seq x(a);
  const Seq y(b);
  const std::int32_t distance = model_distance(a, b);
  ASSERT_EQ(x - y, distance) << a << " " << b;
  ASSERT_EQ(x == y, distance == 0);
  ASSERT_EQ(x < y, distance < 0);
  ASSERT_EQ(x > y, distance > 0);
  ASSERT_EQ(x <= y, distance <= 0);
  ASSERT_EQ(x >= y, distance >= 0);
  ASSERT_EQ((x + b).value(), (std::int64_t{a} + b) % kModulus);
  ASSERT_EQ((x - b).value(), (std::int64_t{a} - b + kModulus) % kModulus);
}

// Values at and next to every boundary, all pairs.
TEST(Seq24, AllPairsOfBoundaries_MatchTheModel) {
  constexpr std::array<std::uint32_t, 6> kCentres = {0,         1U << 22U, 1U << 23U,
                                                     3U << 22U, 0xFFFFFF,  0x00FF00};
  for (const std::uint32_t base_a : kCentres) {
    for (const std::uint32_t base_b : kCentres) {
      for (std::uint32_t i = 0; i < 7; ++i) {
        for (std::uint32_t j = 0; j < 7; ++j) {
          expect_like_model((base_a + i - 3) & Seq::kMask, (base_b + j - 3) & Seq::kMask);
        }
      }
    }
  }
}

TEST(Seq24, RandomPairs_MatchTheModel) {
  Random random(24);
  for (int i = 0; i < 200'000; ++i) {
    expect_like_model(static_cast<std::uint32_t>(random.below(1U << 24U)),
                      static_cast<std::uint32_t>(random.below(1U << 24U)));
  }
}

TEST(Seq24, EveryValue_HasItsSuccessorAheadOfIt) {
  Seq value(0);
  for (std::int64_t i = 0; i < kModulus; ++i) {
    const Seq next = value + 1;
    ASSERT_TRUE(value < next && next > value && next - value == 1 && value - next == -1);
    value = next;
  }
  EXPECT_EQ(value, Seq(0));
}

TEST(Seq24, DistanceOfHalf_IsTheFarthestBehind) {
  constexpr auto kHalfCount = static_cast<std::uint32_t>(kHalf);
  EXPECT_EQ(Seq(kHalfCount - 1) - Seq(0), kHalf - 1);
  EXPECT_GT(Seq(kHalfCount - 1), Seq(0));
  EXPECT_EQ(Seq(kHalfCount) - Seq(0), -kHalf);
  EXPECT_LT(Seq(kHalfCount), Seq(0));
}

TEST(Seq24, ValueBeyond24Bits_IsMasked) {
  EXPECT_EQ(Seq(0xFFFFFF).value(), 0xFFFFFFU);
  EXPECT_EQ(Seq(0x1000000).value(), 0U);
  EXPECT_EQ(Seq(0xFFFFFFFF).value(), 0xFFFFFFU);
  EXPECT_EQ((Seq(0xFFFFFF) + 0xFFFFFFFF).value(), 0xFFFFFEU);
}

TEST(Seq24, Increment_WrapsToZero) {
  Seq value(0xFFFFFE);
  EXPECT_EQ((++value).value(), 0xFFFFFFU);
  EXPECT_EQ((++value).value(), 0U);
  value += 0xFFFFFF;
  EXPECT_EQ(value.value(), 0xFFFFFFU);
}

}  // namespace
}  // namespace braid
