#include "base/random.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

namespace braid {
namespace {

// Values of the published SplitMix64 reference (Steele, Lea, Flood, 2014): a seed must mean the
// same run on every machine and in every later version, or recorded failures stop replaying.
TEST(Random, GoldenValues_OfTheReference) {
  Random zero(0);
  EXPECT_EQ(zero.next(), 0xE220A8397B1DCDAFU);
  EXPECT_EQ(zero.next(), 0x6E789E6AA1B965F4U);
  EXPECT_EQ(zero.next(), 0x06C45D188009454FU);
  Random other(1234567);
  EXPECT_EQ(other.next(), 6457827717110365317U);
  EXPECT_EQ(other.next(), 3203168211198807973U);
  EXPECT_EQ(other.next(), 9817491932198370423U);
}

TEST(Random, Below_StaysBelowAndReachesBothEnds) {
  Random random(3);
  std::array<int, 7> seen{};
  for (int i = 0; i < 7'000; ++i) {
    const std::uint64_t value = random.below(seen.size());
    ASSERT_LT(value, seen.size());
    ++seen[value];
  }
  // Expected 1000 each; six standard deviations are about 180.
  for (const int count : seen) EXPECT_NEAR(count, 1000, 180);
  EXPECT_EQ(random.below(1), 0U);
}

TEST(Random, ChancePpm_NeverAndAlwaysAtTheEnds) {
  Random random(4);
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) {
    ASSERT_FALSE(random.chance_ppm(0));
    ASSERT_TRUE(random.chance_ppm(1'000'000));
    if (random.chance_ppm(10'000)) ++hits;
  }
  EXPECT_NEAR(hits, 1000, 200);
}

}  // namespace
}  // namespace braid
