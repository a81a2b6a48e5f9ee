#include "config/port_list.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "base/random.h"

namespace braid::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<std::vector<DevicePorts>> parse(std::string_view text, Report* out = nullptr) {
  Report report;
  auto result = parse_device_ports(text, "PORTS", report);
  if (!result) {
    EXPECT_THAT(report.fault().to_string(), HasSubstr("PORTS")) << text;
  }
  if (out != nullptr) *out = report;
  return result;
}

std::string ports_text(std::size_t count, int first = 10000) {
  std::string out;
  for (std::size_t i = 0; i < count; ++i) {
    out += (i == 0 ? "" : ",") + std::to_string(first + static_cast<int>(i));
  }
  return out;
}

TEST(ParseDevicePorts, TheExampleOfTheSeed_TwoDevices) {
  const auto list = parse("0:10000,10015;1:10016,10031");
  ASSERT_TRUE(list);
  ASSERT_EQ(list->size(), 2U);
  EXPECT_EQ((*list)[0].device, 0U);
  EXPECT_THAT((*list)[0].ports, ElementsAre(10000, 10015));
  EXPECT_EQ((*list)[1].device, 1U);
  EXPECT_THAT((*list)[1].ports, ElementsAre(10016, 10031));
}

TEST(ParseDevicePorts, Empty_NoDevices) {
  const auto list = parse("");
  ASSERT_TRUE(list);
  EXPECT_TRUE(list->empty());
}

TEST(ParseDevicePorts, AtTheLimits_TakenOnePastRefused) {
  EXPECT_TRUE(parse("0:1"));
  EXPECT_FALSE(parse("0:0"));
  EXPECT_TRUE(parse("0:65535"));
  EXPECT_FALSE(parse("0:65536"));
  EXPECT_TRUE(parse("4294967295:1024"));
  EXPECT_FALSE(parse("4294967296:1024"));
  EXPECT_TRUE(parse("0:" + ports_text(32)));
  EXPECT_FALSE(parse("0:" + ports_text(33)));
}

TEST(ParseDevicePorts, LengthAtTheLimit_TakenOnePastRefused) {
  // Leading zeros change nothing but the length.
  std::string text = "0:" + std::string(kMaxPortListChars - 6, '0') + "1024";
  ASSERT_EQ(text.size(), 32768U);
  Report report;
  const auto list = parse(text, &report);
  ASSERT_TRUE(list) << report.fault().to_string();
  EXPECT_THAT((*list)[0].ports, ElementsAre(1024));
  text.insert(2, "0");
  EXPECT_FALSE(parse(text, &report));
  EXPECT_THAT(report.fault().to_string(), HasSubstr("at most 32768 characters"));
}

TEST(ParseDevicePorts, BadShape_Refused) {
  for (const char* text :
       {" ",        "0",      "0:",    ":1",      "0:1;",     ";0:1", "0:1;;1:2", "0:1,",
        "0:,1",     "0:1,,2", "0:1:2", "0 :1",    "0: 1",     "0:1 ", " 0:1",     "0:1, 2",
        "0:1; 1:2", "0:1\n",  "0:1\t", "+0:1",    "-1:1",     "0:+1", "0x0:1",    "0:0x10",
        "a:1",      "0:a",    "0:1.0", "0:1;0:2", "0:1;00:2", "0;1",  "0,1"}) {
    EXPECT_EQ(parse(text).error().code(), StatusCode::kInvalidArgument) << "'" << text << "'";
  }
}

TEST(ParseDevicePorts, WrongPort_NamesVariableDeviceValueAndRange) {
  Report report;
  EXPECT_FALSE(parse("0:10000;7:10,65536", &report));
  EXPECT_EQ(report.fault().value, "65536");
  EXPECT_THAT(report.fault().to_string(),
              AllOf(HasSubstr("PORTS: device 7 is '65536'"), HasSubstr("1 to 65535")));
}

TEST(ParseDevicePorts, SystemPort_TakenWithAWarning) {
  Report report;
  EXPECT_TRUE(parse("0:1023", &report));
  ASSERT_EQ(report.warnings().size(), 1U);
  EXPECT_THAT(report.warnings()[0], HasSubstr("1023"));
  EXPECT_TRUE(parse("0:1024", &report));
  EXPECT_TRUE(report.warnings().empty());
}

// The rules once more, by a regular expression and a map.
bool model(const std::string& text, std::map<std::uint64_t, std::vector<std::uint64_t>>& out) {
  out.clear();
  if (text.empty()) return true;
  static const std::regex shape("[0-9]+:[0-9]+(,[0-9]+)*(;[0-9]+:[0-9]+(,[0-9]+)*)*");
  if (!std::regex_match(text, shape)) return false;
  static const std::regex entry("([0-9]+):([0-9,]+)");
  static const std::regex number("[0-9]+");
  const std::sregex_iterator end;
  for (std::sregex_iterator at(text.begin(), text.end(), entry); at != end; ++at) {
    const long double device = std::stold((*at)[1]);
    std::vector<std::uint64_t> ports;
    const std::string list = (*at)[2];
    for (std::sregex_iterator p(list.begin(), list.end(), number); p != end; ++p) {
      const long double port = std::stold(p->str());
      if (port < 1 || port > 65535) return false;
      ports.push_back(static_cast<std::uint64_t>(port));
    }
    if (device > 4294967295.0L || ports.size() > 32) return false;
    if (!out.emplace(static_cast<std::uint64_t>(device), ports).second) return false;
  }
  return true;
}

TEST(ParseDevicePorts, RandomTexts_AgreeWithTheModel) {
  Random random(20240501);
  constexpr std::string_view kPieces[] = {
      "0", "1", "7",   "65535", "65536", "10000", ":", ":",  ":",          ",",     ",", ";",
      ";", " ", "1:1", ";2",    ":9",    "x",     "-", "00", "4294967295", "3:4,5", ",6"};
  std::map<std::uint64_t, std::vector<std::uint64_t>> wanted;
  int taken = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string text;
    const std::uint64_t pieces = random.next() % 9;
    for (std::uint64_t i = 0; i < pieces; ++i) {
      text += kPieces[random.next() % std::size(kPieces)];
    }
    const auto list = parse(text);
    ASSERT_EQ(list.has_value(), model(text, wanted)) << "'" << text << "'";
    if (!list) continue;
    ++taken;
    ASSERT_EQ(list->size(), wanted.size()) << text;
    for (const DevicePorts& each : *list) {
      const auto& ports = wanted.at(each.device);
      ASSERT_TRUE(std::equal(each.ports.begin(), each.ports.end(), ports.begin(), ports.end()))
          << text;
    }
  }
  EXPECT_GT(taken, 1000);  // the texts are not all nonsense
}

}  // namespace
}  // namespace braid::config
