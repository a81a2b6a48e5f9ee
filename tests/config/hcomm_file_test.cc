#include "config/hcomm_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace braid::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<std::vector<HcommDevice>> parse(std::string_view text, Report* out = nullptr) {
  Report report;
  auto result = parse_hcomm_file(text, "hcomm.cfg", report);
  if (!result) {
    EXPECT_THAT(report.fault().to_string(), HasSubstr("hcomm.cfg")) << text;
  }
  if (out != nullptr) *out = report;
  return result;
}

std::string device_text(const std::string& id, const std::string& count, const std::string& ports) {
  return "udp_port_mode_" + id + "=multi_qp\nmulti_qp_count_" + id + "=" + count +
         "\nmulti_qp_udp_ports_" + id + "=" + ports + "\n";
}

TEST(ParseHcommFile, TwoDevices_PortsAndCountMayDiffer) {
  const auto devices = parse(device_text("0", "4", "10000,10001") + device_text("1", "1", "7000"));
  ASSERT_TRUE(devices);
  ASSERT_EQ(devices->size(), 2U);
  const HcommDevice* zero = find_device(*devices, 0);
  ASSERT_NE(zero, nullptr);
  EXPECT_EQ(zero->qp_count, 4U);
  EXPECT_THAT(zero->ports, ElementsAre(10000, 10001));
  EXPECT_EQ(zero->count_line, 2U);
  EXPECT_EQ(zero->ports_line, 3U);
  EXPECT_EQ(find_device(*devices, 2), nullptr);
}

TEST(ParseHcommFile, BlanksAroundKeysAndValues_CommentsAndOtherLines_DoNotCount) {
  const auto devices = parse(
      "# comment = with an equals sign\r\n"
      "\r\n"
      "a line without the sign\n"
      "some_other_key=whatever\n"
      " \tudp_port_mode_3 \t= multi_qp \r\n"
      "multi_qp_count_3\t=\t2\r\n"
      "multi_qp_udp_ports_3 = 10000,10001\r");
  ASSERT_TRUE(devices);
  ASSERT_EQ(devices->size(), 1U);
  EXPECT_EQ((*devices)[0].device, 3U);
  EXPECT_THAT((*devices)[0].ports, ElementsAre(10000, 10001));
}

TEST(ParseHcommFile, HashElsewhereThanInTheFirstColumn_IsNoComment) {
  Report report;
  EXPECT_FALSE(parse("udp_port_mode_0=multi_qp # yes\n", &report));
  EXPECT_EQ(report.fault().value, "multi_qp # yes");
  // The key is "# udp_port_mode_0", which nobody knows.
  const auto devices = parse(" # udp_port_mode_0=nonsense\n");
  ASSERT_TRUE(devices);
  EXPECT_TRUE(devices->empty());
}

TEST(ParseHcommFile, NothingInIt_NoDevices) {
  for (const char* text : {"", "\n", "\n\n#", "key=value"}) {
    const auto devices = parse(text);
    ASSERT_TRUE(devices) << text;
    EXPECT_TRUE(devices->empty()) << text;
  }
}

TEST(ParseHcommFile, CountAtTheLimits_TakenOnePastRefused) {
  EXPECT_TRUE(parse(device_text("0", "1", "1024")));
  EXPECT_TRUE(parse(device_text("0", "32", "1024")));
  for (const char* count : {"0", "33", "+1", "-1", "", "1.0", "0x2", "2 3", "two"}) {
    EXPECT_FALSE(parse(device_text("0", count, "1024"))) << count;
  }
}

TEST(ParseHcommFile, PortsAtTheLimits_TakenOnePastRefused) {
  std::string ports = "1024";
  for (int i = 1; i < 32; ++i) ports += ",1024";
  EXPECT_TRUE(parse(device_text("0", "1", ports)));
  EXPECT_FALSE(parse(device_text("0", "1", ports + ",1024")));
  EXPECT_TRUE(parse(device_text("0", "1", "1,65535")));
  for (const char* bad : {"0", "65536", "", "1,", ",1", "1,,2", "1, 2", "1 ,2", "+1", "0x10"}) {
    EXPECT_FALSE(parse(device_text("0", "1", bad))) << bad;
  }
}

TEST(ParseHcommFile, IdsWithLeadingZeroOrTooLarge_Refused) {
  EXPECT_TRUE(parse(device_text("4294967295", "1", "1024")));
  for (const char* id : {"4294967296", "00", "01", "", "-1", "+1", "x", "1x"}) {
    EXPECT_FALSE(parse(device_text(id, "1", "1024"))) << id;
  }
}

TEST(ParseHcommFile, OneKeyMissing_RefusedByItsName) {
  const std::string whole[] = {"udp_port_mode_5=multi_qp\n", "multi_qp_count_5=2\n",
                               "multi_qp_udp_ports_5=1024\n"};
  for (int missing = 0; missing < 3; ++missing) {
    std::string text;
    for (int i = 0; i < 3; ++i) text += i == missing ? "" : whole[i];
    Report report;
    EXPECT_FALSE(parse(text, &report));
    EXPECT_EQ(report.fault().key, whole[missing].substr(0, whole[missing].find('=')));
  }
}

TEST(ParseHcommFile, OtherMode_Refused) {
  for (const char* mode : {"nslb", "MULTI_QP", "multi_qp2", ""}) {
    EXPECT_FALSE(parse("udp_port_mode_0=" + std::string(mode) +
                       "\nmulti_qp_count_0=1\nmulti_qp_udp_ports_0=1024\n"))
        << mode;
  }
}

TEST(ParseHcommFile, KeyTwice_FirstHoldsWithAWarning) {
  Report report;
  const auto devices = parse(device_text("0", "2", "1024") + "multi_qp_count_0=9\n", &report);
  ASSERT_TRUE(devices);
  EXPECT_EQ((*devices)[0].qp_count, 2U);
  ASSERT_EQ(report.warnings().size(), 1U);
  EXPECT_THAT(report.warnings()[0],
              AllOf(HasSubstr("hcomm.cfg:4"), HasSubstr("multi_qp_count_0"), HasSubstr("line 2")));
}

TEST(ParseHcommFile, WrongValue_NamesFileLineKeyValueAndRange) {
  Report report;
  EXPECT_FALSE(parse("#\n\nmulti_qp_count_8 = 33\n", &report));
  EXPECT_EQ(report.fault().line, 3U);
  EXPECT_EQ(report.fault().to_string(),
            "hcomm.cfg:3: multi_qp_count_8 is '33'; allowed is a whole number from 1 to 32");
}

// Whatever was written is read again, whatever order and blanks the lines have.
TEST(ParseHcommFile, RandomConfigurations_ReadAsWritten) {
  Random random(7);
  for (int round = 0; round < 300; ++round) {
    std::vector<HcommDevice> wanted(random.next() % 6);
    std::vector<std::string> lines(3, "# nothing");
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      wanted[i].device = static_cast<std::uint32_t>(i * 1000 + random.next() % 1000);
      wanted[i].qp_count = 1 + static_cast<std::uint32_t>(random.next() % 32);
      std::string ports;
      for (std::uint64_t left = 1 + random.next() % 32; left > 0; --left) {
        wanted[i].ports.push_back(static_cast<std::uint16_t>(1 + random.next() % 65535));
        ports += (ports.empty() ? "" : ",") + std::to_string(wanted[i].ports.back());
      }
      const std::string id = std::to_string(wanted[i].device);
      lines.push_back("udp_port_mode_" + id + " =multi_qp");
      lines.push_back("\tmulti_qp_count_" + id + "= " + std::to_string(wanted[i].qp_count) + "\r");
      lines.push_back("multi_qp_udp_ports_" + id + "=" + ports + " ");
    }
    for (std::size_t i = lines.size(); i > 1; --i) {
      std::swap(lines[i - 1], lines[random.next() % i]);
    }
    std::string text;
    for (const std::string& line : lines) text += line + "\n";
    const auto devices = parse(text);
    ASSERT_TRUE(devices) << text;
    ASSERT_EQ(devices->size(), wanted.size());
    for (const HcommDevice& each : wanted) {
      const HcommDevice* found = find_device(*devices, each.device);
      ASSERT_NE(found, nullptr);
      EXPECT_EQ(found->qp_count, each.qp_count);
      EXPECT_EQ(found->ports, each.ports);
    }
  }
}

}  // namespace
}  // namespace braid::config
