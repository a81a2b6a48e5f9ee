#include "config/ranges.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace braid::config {
namespace {

using ::testing::HasSubstr;

bool taken(const NumberRange& range, const char* text) {
  Report report;
  return parse_number(text, "NAME", range, report).has_value();
}

// Requirement: 37
TEST(NumberRanges, AtTheLimits_TakenOnePastRefused) {
  EXPECT_TRUE(taken(kTrafficClass, "0"));
  EXPECT_TRUE(taken(kTrafficClass, "252"));
  EXPECT_FALSE(taken(kTrafficClass, "256"));
  EXPECT_FALSE(taken(kTrafficClass, "255"));  // no multiple of 4
  EXPECT_FALSE(taken(kTrafficClass, "130"));
  EXPECT_TRUE(taken(kServiceLevel, "0"));
  EXPECT_TRUE(taken(kServiceLevel, "7"));
  EXPECT_FALSE(taken(kServiceLevel, "8"));
  const NumberRange retry = retry_count_range(Profile::kHcomm);
  EXPECT_FALSE(taken(retry, "0"));
  EXPECT_TRUE(taken(retry, "1"));
  EXPECT_TRUE(taken(retry, "7"));
  EXPECT_FALSE(taken(retry, "8"));
}

// Requirement: 37
TEST(NumberRanges, DefaultsAreThoseOfTheSeed) {
  EXPECT_EQ(kTrafficClass.default_value, 132U);  // DSCP 33
  EXPECT_EQ(kTrafficClass.default_value / 4, 33U);
  EXPECT_EQ(kServiceLevel.default_value, 4U);
  EXPECT_EQ(retry_count_range(Profile::kHcomm).default_value, 7U);
  EXPECT_EQ(ack_timeout_range(Profile::kHcomm).default_value, 20U);
}

TEST(NumberRanges, OtherVariables_AtTheLimits_TakenOnePastRefused) {
  const struct {
    NumberRange range;
    const char *below, *low, *high, *above;
  } cases[] = {{kQpsPerConnection, "0", "1", "32", "33"},
               {kMultiQpThresholdKib, "0", "1", "8192", "8193"},
               {connect_timeout_range(Profile::kHcomm), "119", "120", "7200", "7201"},
               {kBasePort, "1023", "1024", "65520", "65521"}};
  for (const auto& each : cases) {
    EXPECT_FALSE(taken(each.range, each.below)) << each.below;
    EXPECT_TRUE(taken(each.range, each.low)) << each.low;
    EXPECT_TRUE(taken(each.range, each.high)) << each.high;
    EXPECT_FALSE(taken(each.range, each.above)) << each.above;
  }
}

TEST(ParseNumber, AnythingButDigits_RefusedWithRangeStepAndDefault) {
  for (const char* text : {"", " 4", "4 ", "+4", "-4", "0x4", "4.0", "four"}) {
    Report report;
    EXPECT_FALSE(parse_number(text, "NAME", kTrafficClass, report)) << text;
    EXPECT_EQ(report.fault().to_string(),
              "NAME is '" + std::string(text) +
                  "'; allowed is a whole number from 0 to 255, a multiple of 4 (default 132)");
  }
}

struct TimeoutCase {
  Profile profile;
  const char* text;
  int wanted;  // -1: refused
  bool warns;
};

// Requirement: 38
TEST(ParseAckTimeout, EveryProfile_AtTheLimitsAndOnePast) {
  const TimeoutCase cases[] = {
      {Profile::kBraid, "0", -1, false},       {Profile::kBraid, "1", 1, false},
      {Profile::kBraid, "31", 31, false},      {Profile::kBraid, "32", -1, false},
      {Profile::kHcomm, "17", 18, true},       {Profile::kHcomm, "18", 18, false},
      {Profile::kHcomm, "31", 31, false},      {Profile::kHcomm, "32", 18, true},
      {Profile::kHcomm, "0", 18, true},        {Profile::kHcomm950, "0", 0, true},
      {Profile::kHcomm950, "1", 1, false},     {Profile::kHcomm950, "31", 31, false},
      {Profile::kHcomm950, "32", 0, true},     {Profile::kHcomm950, "4000000000", 0, true},
      {Profile::kHcommA2, "4", -1, false},     {Profile::kHcommA2, "5", 5, false},
      {Profile::kHcommA2, "20", 20, false},    {Profile::kHcommA2, "21", -1, false},
      {Profile::kDescriptor, "4", -1, false},  {Profile::kDescriptor, "5", 5, false},
      {Profile::kDescriptor, "24", 24, false}, {Profile::kDescriptor, "25", -1, false},
      {Profile::kHcomm, "x", -1, false},       {Profile::kHcomm, "-1", -1, false},
      {Profile::kHcomm950, "+5", -1, false},
  };
  for (const TimeoutCase& each : cases) {
    Report report;
    const auto value = parse_ack_timeout(each.text, "NAME", each.profile, report);
    const std::string what = std::string(to_string(each.profile)) + " " + each.text;
    EXPECT_EQ(value ? int{*value} : -1, each.wanted) << what;
    EXPECT_EQ(!report.warnings().empty(), each.warns) << what;
  }
}

TEST(ParseProfile, EveryName_BackAndForth) {
  for (const char* name : {"braid", "hcomm", "hcomm-950", "hcomm-a2", "descriptor"}) {
    Report report;
    const auto profile = parse_profile(name, "PROFILE", report);
    ASSERT_TRUE(profile) << name;
    EXPECT_EQ(to_string(*profile), name);
  }
  Report report;
  EXPECT_FALSE(parse_profile("Braid", "PROFILE", report));
  EXPECT_THAT(report.fault().to_string(), HasSubstr("hcomm-950"));
}

TEST(Report, LongAndUnprintableValues_AreCutAndReplaced) {
  const Fault fault{
      .source = "file", .line = 3, .key = "key", .value = "\x1b[31m" + std::string(200, 'a')};
  const std::string text = fault.to_string();
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
  EXPECT_LT(text.size(), 120U);
  EXPECT_THAT(text, HasSubstr("file:3: key is '?[31maaa"));
}

}  // namespace
}  // namespace braid::config
