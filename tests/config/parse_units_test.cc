#include "config/parse_units.h"

#include <gtest/gtest.h>

#include <limits>

namespace braid::config {
namespace {

using namespace std::chrono_literals;

TEST(ParseInteger, AtTheLimitsAndOnePast) {
  EXPECT_EQ(parse_integer("1", 1, 32), 1U);
  EXPECT_EQ(parse_integer("32", 1, 32), 32U);
  EXPECT_EQ(parse_integer("0", 1, 32), std::nullopt);
  EXPECT_EQ(parse_integer("33", 1, 32), std::nullopt);
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(parse_integer("18446744073709551615", 0, kMost), kMost);
  EXPECT_EQ(parse_integer("18446744073709551616", 0, kMost), std::nullopt);
}

TEST(ParseInteger, AnythingButDigits_Refused) {
  for (const char* text : {"", " 1", "1 ", "+1", "-1", "0x1", "1.0", "1e1", "one", "1\n"}) {
    EXPECT_EQ(parse_integer(text, 0, 100), std::nullopt) << "'" << text << "'";
  }
}

TEST(ParseRate, UnitsOfAThousand) {
  EXPECT_EQ(parse_rate("1bit"), 1U);
  EXPECT_EQ(parse_rate("8Kbit"), 8'000U);
  EXPECT_EQ(parse_rate("1.5Mbit"), 1'500'000U);
  EXPECT_EQ(parse_rate("100Gbit"), 100'000'000'000U);
  EXPECT_EQ(parse_rate("2G"), 2'000'000'000U);
  EXPECT_EQ(parse_rate("400M"), 400'000'000U);
}

TEST(ParseRate, NoOrWrongUnit_Refused) {
  for (const char* text : {"", "1", "Gbit", "1gbit", "1 Gbit", "1Gbits", "-1Gbit", "1..5Gbit",
                           ".5Gbit", "5.Gbit", "1e3bit", "99999999999G"}) {
    EXPECT_EQ(parse_rate(text), std::nullopt) << "'" << text << "'";
  }
}

TEST(ParseDuration, EveryUnit) {
  EXPECT_EQ(parse_duration("7ns"), 7ns);
  EXPECT_EQ(parse_duration("200us"), 200us);
  EXPECT_EQ(parse_duration("0.5ms"), 500us);
  EXPECT_EQ(parse_duration("60s"), 60s);
  EXPECT_EQ(parse_duration("0ms"), 0ns);
}

TEST(ParseDuration, NoOrWrongUnit_Refused) {
  for (const char* text :
       {"", "1", "ms", "1m", "1MS", "1 ms", "-1ms", "1ms ", "nan s", "infs", "9999999999999s"}) {
    EXPECT_EQ(parse_duration(text), std::nullopt) << "'" << text << "'";
  }
}

TEST(ParsePpm, PercentOfAMillion) {
  EXPECT_EQ(parse_ppm("0%"), 0U);
  EXPECT_EQ(parse_ppm("0.0001%"), 1U);
  EXPECT_EQ(parse_ppm("0.1%"), 1'000U);
  EXPECT_EQ(parse_ppm("100%"), 1'000'000U);
}

TEST(ParsePpm, OutOfRangeOrWithoutSign_Refused) {
  for (const char* text : {"", "1", "%", "100.0001%", "101%", "-1%", "1%%", "1 %"}) {
    EXPECT_EQ(parse_ppm(text), std::nullopt) << "'" << text << "'";
  }
}

}  // namespace
}  // namespace braid::config
