#include "config/port_range.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bitset>

#include "base/random.h"

namespace braid::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<std::vector<PortRange>> parse(std::string_view text, Report* out = nullptr) {
  Report report;
  auto result = parse_port_ranges(text, "RANGE", report);
  if (!result) {
    EXPECT_THAT(report.fault().to_string(), HasSubstr("RANGE is '"));
  }
  if (out != nullptr) *out = report;
  return result;
}

TEST(ParsePortRanges, PortsAndRanges_InTheirOrder) {
  const auto ranges = parse("50000,60000-60031,1");
  ASSERT_TRUE(ranges);
  EXPECT_THAT(*ranges,
              ElementsAre(PortRange{50000, 50000}, PortRange{60000, 60031}, PortRange{1, 1}));
}

TEST(ParsePortRanges, Auto_NoRanges) {
  const auto ranges = parse("auto");
  ASSERT_TRUE(ranges);
  EXPECT_TRUE(ranges->empty());
}

TEST(ParsePortRanges, AtTheLimits_TakenOnePastRefused) {
  EXPECT_TRUE(parse("1-65535"));
  EXPECT_FALSE(parse("0-65535"));
  EXPECT_FALSE(parse("1-65536"));
  EXPECT_TRUE(parse("7-7"));
  EXPECT_FALSE(parse("7-6"));
  EXPECT_TRUE(parse("5-7,8-9"));
  EXPECT_FALSE(parse("5-8,8-9"));
  std::string many = "1";
  for (int i = 2; i <= 64; ++i) many += "," + std::to_string(i);
  EXPECT_TRUE(parse(many));
  EXPECT_FALSE(parse(many + ",65"));
}

TEST(ParsePortRanges, BadShape_Refused) {
  for (const char* text :
       {"",     " ",  ",",  "1,",     ",1",     "1,,2", "1-",  "-1", "1-2-3", "1 -2",
        "1- 2", " 1", "1 ", "auto,1", "1,auto", "AUTO", "a-b", "+1", "0x1",   "5-7,6"}) {
    EXPECT_EQ(parse(text).error().code(), StatusCode::kInvalidArgument) << "'" << text << "'";
  }
}

TEST(ParsePortRanges, RandomElements_OverlapsAsASetSaysThem) {
  Random random(3);
  int taken = 0;
  for (int round = 0; round < 3000; ++round) {
    std::bitset<64> used;
    bool wanted = true;
    std::string text;
    for (std::uint64_t left = 1 + random.next() % 4; left > 0; --left) {
      const std::uint64_t first = 1 + random.next() % 40;
      const std::uint64_t last = first + random.next() % 8;
      for (std::uint64_t port = first; port <= last; ++port) {
        wanted = wanted && !used[port];
        used.set(port);
      }
      text += (text.empty() ? "" : ",") + std::to_string(first) + "-" + std::to_string(last);
    }
    ASSERT_EQ(parse(text).has_value(), wanted) << text;
    taken += wanted ? 1 : 0;
  }
  EXPECT_GT(taken, 500);
}

}  // namespace
}  // namespace braid::config
