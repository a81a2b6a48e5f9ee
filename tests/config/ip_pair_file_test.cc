#include "config/ip_pair_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/random.h"

namespace braid::config {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<IpPairTable> parse(std::string_view text, Report* out = nullptr) {
  Report report;
  auto result = IpPairTable::parse(text, "pairs.cfg", report);
  if (!result) {
    EXPECT_THAT(report.fault().to_string(), HasSubstr("pairs.cfg:")) << text;
  }
  if (out != nullptr) *out = report;
  return result;
}

/// First port of what is found; 0 when nothing is.
int first_port(const IpPairTable& table, const char* source, const char* destination) {
  const auto* entry = table.find(*parse_ip_address(source), *parse_ip_address(destination));
  return entry == nullptr ? 0 : entry->ports.front();
}

TEST(IpPairTable, PairThenAnySourceThenAnyDestinationThenAny) {
  const auto table = parse(
      "10.0.0.1,10.0.0.2=1001,1002\n"
      "0.0.0.0,10.0.0.2=2001\n"
      "10.0.0.1,0.0.0.0=3001\n"
      "0.0.0.0,0.0.0.0=4001\n");
  ASSERT_TRUE(table);
  EXPECT_EQ(table->size(), 4U);
  EXPECT_EQ(first_port(*table, "10.0.0.1", "10.0.0.2"), 1001);
  EXPECT_EQ(first_port(*table, "10.0.0.9", "10.0.0.2"), 2001);
  EXPECT_EQ(first_port(*table, "10.0.0.1", "10.0.0.9"), 3001);
  EXPECT_EQ(first_port(*table, "10.0.0.2", "10.0.0.1"), 4001);
  EXPECT_EQ(first_port(*table, "fe80::1", "fe80::2"), 0);  // any IPv4 is no IPv6
  EXPECT_THAT(table->find(*parse_ip_address("10.0.0.1"), *parse_ip_address("10.0.0.2"))->ports,
              ElementsAre(1001, 1002));
}

TEST(IpPairTable, AnyDestinationBeatsNothingOfAnySource) {
  // Both match: (any, destination) is asked first.
  const auto table = parse("10.0.0.1,0.0.0.0=3001\n0.0.0.0,10.0.0.2=2001\n");
  ASSERT_TRUE(table);
  EXPECT_EQ(first_port(*table, "10.0.0.1", "10.0.0.2"), 2001);
}

TEST(IpPairTable, EveryWayToWriteAny) {
  for (const char* any : {"::", "::/128", "0.0.0.0", "0:0:0:0:0:0:0:0"}) {
    const auto table = parse(std::string(any) + ",2001:db8::2=5000\n");
    ASSERT_TRUE(table) << any;
    EXPECT_EQ(first_port(*table, "2001:db8::1", "2001:db8::2"), 5000) << any;
  }
  const auto both = parse("::,::=6000\n0.0.0.0,0.0.0.0=4000\n");
  ASSERT_TRUE(both);
  EXPECT_EQ(first_port(*both, "2001:db8::1", "2001:db8::2"), 6000);
  EXPECT_EQ(first_port(*both, "10.0.0.1", "10.0.0.2"), 4000);
}

TEST(IpPairTable, AddressesAreComparedByValue) {
  const auto table = parse("2001:DB8:0::1,2001:db8::0:2=5000\n::ffff:10.0.0.1,10.0.0.2=4000\n");
  ASSERT_TRUE(table);
  EXPECT_EQ(first_port(*table, "2001:db8::1", "2001:db8::2"), 5000);
  EXPECT_EQ(first_port(*table, "10.0.0.1", "::ffff:10.0.0.2"), 4000);
}

TEST(IpPairTable, BlanksCarriageReturnsAndComments_DoNotCount) {
  const auto table = parse(
      "# comment\r\n"
      "\r\n"
      " \t\n"
      " 10.0.0.1 ,\t10.0.0.2 = 1 0 0 1 , 1002 # a = comment\r\n");
  ASSERT_TRUE(table);
  EXPECT_EQ(first_port(*table, "10.0.0.1", "10.0.0.2"), 1001);
}

TEST(IpPairTable, BadShape_Refused) {
  for (const char* text :
       {"10.0.0.1,10.0.0.2", "10.0.0.1=1", "10.0.0.1,10.0.0.2=", "10.0.0.1,10.0.0.2==1",
        "10.0.0.1,10.0.0.2=1=2", "10.0.0.1,10.0.0.2,10.0.0.3=1", ",=1", "=1", "x", "10.0.0.1,=1",
        "10.0.0.256,10.0.0.2=1", "host,10.0.0.2=1", "fe80::1%eth0,fe80::2=1",
        "10.0.0.1,2001:db8::1=1", "0.0.0.0,::=1", "10.0.0.1/32,10.0.0.2=1", "10.0.0.1,10.0.0.2=1,",
        "10.0.0.1,10.0.0.2=,1", "10.0.0.1,10.0.0.2=a"}) {
    EXPECT_EQ(parse(text).error().code(), StatusCode::kInvalidArgument) << "'" << text << "'";
  }
}

TEST(IpPairTable, PortsAtTheLimits_TakenOnePastRefused) {
  const std::string key = "10.0.0.1,10.0.0.2=";
  std::string ports = "1024";
  for (int i = 1; i < 32; ++i) ports += ",1024";
  EXPECT_TRUE(parse(key + ports));
  EXPECT_FALSE(parse(key + ports + ",1024"));
  EXPECT_TRUE(parse(key + "1,65535"));
  for (const char* bad : {"0", "65536", "010", "1,010", "0x400", "1,0x400"}) {
    EXPECT_FALSE(parse(key + bad)) << bad;
  }
}

TEST(IpPairTable, PairTwice_RefusedWithBothLines) {
  Report report;
  EXPECT_FALSE(parse("10.0.0.1,0.0.0.0=1001\n\n10.0.0.1,0.0.0.0=1001\n", &report));
  EXPECT_THAT(report.fault().to_string(), AllOf(HasSubstr("pairs.cfg:3"), HasSubstr("line 1")));
  // The same pair in another spelling.
  EXPECT_FALSE(parse("2001:db8::1,2001:db8::2=1\n2001:db8:0::1,2001:DB8::2=2\n"));
  // The other direction is another pair.
  EXPECT_TRUE(parse("10.0.0.1,10.0.0.2=1\n10.0.0.2,10.0.0.1=2\n"));
}

TEST(IpPairTable, WrongPort_NamesFileLineKeyAndValue) {
  Report report;
  EXPECT_FALSE(parse("#\n10.0.0.1,10.0.0.2=1001,70000\n", &report));
  EXPECT_THAT(report.fault().to_string(),
              HasSubstr("pairs.cfg:2: 10.0.0.1,10.0.0.2 is '70000'; allowed is ports from 1"));
}

TEST(IpPairTable, LinesAtTheLimit_ReadOnePastNot) {
  std::string text(kMaxIpPairLines - 1, '\n');
  text += "10.0.0.1,10.0.0.2=5001\n";
  Report report;
  auto table = parse(text, &report);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->size(), 1U);
  EXPECT_TRUE(report.warnings().empty());
  table = parse("\n" + text, &report);
  ASSERT_TRUE(table);
  EXPECT_EQ(table->size(), 0U);
  ASSERT_EQ(report.warnings().size(), 1U);
  EXPECT_THAT(report.warnings()[0], HasSubstr("131072"));
}

// Few addresses, so that all four steps of the search are taken often.
TEST(IpPairTable, RandomTables_FindWhatALinearSearchFinds) {
  Random random(99);
  const std::string names[] = {"0.0.0.0", "10.0.0.1", "10.0.0.2", "10.0.0.3"};
  for (int round = 0; round < 200; ++round) {
    std::vector<std::array<std::size_t, 3>> rows;  // source, destination, port
    std::string text;
    for (std::size_t i = 0; i < 4; ++i) {
      for (std::size_t j = 0; j < 4; ++j) {
        if (random.next() % 3 != 0) continue;
        rows.push_back({i, j, 1000 + rows.size()});
        text += names[i] + "," + names[j] + "=" + std::to_string(rows.back()[2]) + "\n";
      }
    }
    const auto table = parse(text);
    ASSERT_TRUE(table);
    for (std::size_t i = 1; i < 4; ++i) {
      for (std::size_t j = 1; j < 4; ++j) {
        std::size_t wanted = 0;
        int best = 0;  // exact 4, any source 3, any destination 2, any 1
        for (const auto& [source, destination, port] : rows) {
          if ((source != i && source != 0) || (destination != j && destination != 0)) continue;
          const int rank = source != 0 ? (destination != 0 ? 4 : 2) : (destination != 0 ? 3 : 1);
          if (rank > best) wanted = port;
          best = std::max(best, rank);
        }
        ASSERT_EQ(first_port(*table, names[i].c_str(), names[j].c_str()), static_cast<int>(wanted))
            << text << names[i] << " to " << names[j];
      }
    }
  }
}

}  // namespace
}  // namespace braid::config
