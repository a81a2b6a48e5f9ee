#include "config/soft_device_env.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

namespace braid::config {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::HasSubstr;

Status load(const std::map<std::string, std::string>& variables, SoftDeviceOptions& options,
            std::string& error) {
  const Lookup lookup = [&](const char* name) -> std::optional<std::string> {
    const auto at = variables.find(name);
    if (at == variables.end()) return std::nullopt;
    return at->second;
  };
  return load_soft_device_options(lookup, options, error);
}

TEST(SoftDeviceEnv, NothingSet_LeavesTheOptions) {
  SoftDeviceOptions options;
  options.window_packets = 17;
  std::string error;
  ASSERT_TRUE(load({}, options, error).ok());
  EXPECT_EQ(options.window_packets, 17U);
  EXPECT_EQ(options.name, SoftDeviceOptions{}.name);
  EXPECT_TRUE(error.empty());
}

TEST(SoftDeviceEnv, EverythingSet_EverythingTaken) {
  SoftDeviceOptions options;
  std::string error;
  ASSERT_TRUE(load({{"BRAID_SOFT_NAME", "mlx5_0"},
                    {"BRAID_SOFT_ADDRESS", "127.0.0.9"},
                    {"BRAID_SOFT_MTU", "1024"},
                    {"BRAID_SOFT_SOCKET_BUFFER", "1048576"},
                    {"BRAID_SOFT_WINDOW_PACKETS", "256"},
                    {"BRAID_SOFT_SEGMENTATION_OFFLOAD", "0"},
                    {"BRAID_SOFT_RAW_RECEIVE", "1"},
                    {"BRAID_SOFT_VERIFY_ICRC", "0"},
                    {"BRAID_SOFT_SEED", "18446744073709551615"},
                    {"BRAID_SOFT_IMPAIR", "port=50004,delay=1ms"}},
                   options, error)
                  .ok())
      << error;
  EXPECT_EQ(options.name, "mlx5_0");
  EXPECT_EQ(options.address, "127.0.0.9");
  EXPECT_EQ(options.mtu_bytes, 1024U);
  EXPECT_EQ(options.socket_buffer_bytes, 1048576U);
  EXPECT_EQ(options.window_packets, 256U);
  EXPECT_FALSE(options.segmentation_offload);
  EXPECT_TRUE(options.raw_receive);
  EXPECT_FALSE(options.verify_icrc);
  EXPECT_EQ(options.seed, ~std::uint64_t{0});
  ASSERT_EQ(options.impairments.size(), 1U);
  EXPECT_EQ(options.impairments[0].source_port, 50004);
}

TEST(SoftDeviceEnv, ValuesAtTheLimits_TakenOnePastRefused) {
  const std::string longest(63, 'n');
  const std::string too_long(64, 'n');
  const struct {
    const char* name;
    std::vector<const char*> good;
    std::vector<const char*> bad;
  } cases[] = {
      {"BRAID_SOFT_NAME",
       {"a", "mlx5_0", "soft-1.a:0", longest.c_str()},
       {"", too_long.c_str(), "a b", "a/b", "a\n"}},
      {"BRAID_SOFT_MTU", {"256", "512", "4096"}, {"255", "128", "300", "8192", "1500", ""}},
      {"BRAID_SOFT_SOCKET_BUFFER", {"65536", "1073741824"}, {"65535", "1073741825", "1M"}},
      {"BRAID_SOFT_WINDOW_PACKETS", {"8", "65536"}, {"7", "65537", "-8", " 8"}},
      {"BRAID_SOFT_RAW_RECEIVE", {"0", "1"}, {"2", "yes", "true", "", "01"}},
      {"BRAID_SOFT_VERIFY_ICRC", {"0", "1"}, {"on"}},
      {"BRAID_SOFT_SEGMENTATION_OFFLOAD", {"0", "1"}, {"off"}},
      {"BRAID_SOFT_SEED", {"0", "7"}, {"18446744073709551616", "0x7", "seven"}},
  };
  for (const auto& one : cases) {
    for (const char* value : one.good) {
      SoftDeviceOptions options;
      std::string error;
      EXPECT_TRUE(load({{one.name, value}}, options, error).ok()) << error;
    }
    for (const char* value : one.bad) {
      SoftDeviceOptions options;
      std::string error;
      const Status status = load({{one.name, value}}, options, error);
      EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << one.name << "=" << value;
      EXPECT_THAT(error, AllOf(HasSubstr(one.name), HasSubstr("'" + std::string(value) + "'"),
                               HasSubstr("expected")));
    }
  }
}

TEST(SoftDeviceEnv, OneIsWrong_NoneIsTaken) {
  SoftDeviceOptions options;
  std::string error;
  EXPECT_FALSE(load({{"BRAID_SOFT_NAME", "other"}, {"BRAID_SOFT_SEED", "x"}}, options, error).ok());
  EXPECT_EQ(options.name, SoftDeviceOptions{}.name);
}

TEST(SoftDeviceEnv, ImpairmentIsWrong_VariableEntryKeyAndValueAreNamed) {
  SoftDeviceOptions options;
  std::string error;
  EXPECT_FALSE(load({{"BRAID_SOFT_IMPAIR", "port=50004,loss=2"}}, options, error).ok());
  EXPECT_THAT(error, AllOf(HasSubstr("BRAID_SOFT_IMPAIR"), HasSubstr("'port=50004,loss=2'"),
                           HasSubstr("'loss'"), HasSubstr("'2'"), HasSubstr("0.1%")));
}

TEST(ParseImpairments, EveryKey) {
  std::vector<PathImpairment> out;
  std::string error;
  ASSERT_TRUE(parse_impairments("port=49153,rate=1Gbit,delay=1ms,loss=0.1%,dup=0.2%,reorder=0.3%,"
                                "reorder-delay=50us,corrupt=0.4%,queue=1000;delay=10us",
                                out, error)
                  .ok())
      << error;
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].source_port, 49153);
  EXPECT_EQ(out[0].rate_bits_per_s, 1'000'000'000U);
  EXPECT_EQ(out[0].delay, 1ms);
  EXPECT_EQ(out[0].loss_ppm, 1000U);
  EXPECT_EQ(out[0].duplicate_ppm, 2000U);
  EXPECT_EQ(out[0].reorder_ppm, 3000U);
  EXPECT_EQ(out[0].reorder_delay, 50us);
  EXPECT_EQ(out[0].corrupt_ppm, 4000U);
  EXPECT_EQ(out[0].queue_packets, 1000U);
  EXPECT_EQ(out[1].source_port, 0);
  EXPECT_EQ(out[1].delay, 10us);
}

TEST(ParseImpairments, ValuesAtTheLimits_TakenOnePastRefused) {
  const auto parses = [](const char* text) {
    std::vector<PathImpairment> out;
    std::string error;
    return parse_impairments(text, out, error).ok();
  };
  EXPECT_TRUE(parses("port=1"));
  EXPECT_TRUE(parses("port=65535"));
  EXPECT_FALSE(parses("port=0"));
  EXPECT_FALSE(parses("port=65536"));
  EXPECT_TRUE(parses("rate=1bit"));
  EXPECT_TRUE(parses("rate=1000Gbit"));
  EXPECT_FALSE(parses("rate=0bit"));
  EXPECT_FALSE(parses("rate=1001Gbit"));
  EXPECT_TRUE(parses("delay=60s"));
  EXPECT_FALSE(parses("delay=60001ms"));
  EXPECT_TRUE(parses("loss=100%"));
  EXPECT_FALSE(parses("loss=100.1%"));
  EXPECT_TRUE(parses("queue=1048576"));
  EXPECT_FALSE(parses("queue=1048577"));
  EXPECT_FALSE(parses("queue=0"));
}

TEST(ParseImpairments, BadShape_RefusedAndNothingChanges) {
  for (const char* text :
       {"", ";", "port=1;", ";port=1", "port=1;;port=2", "port", "port=", "=1", "port=1,",
        ",port=1", "port=1,,loss=1%", "port=1 ,loss=1%", "port=1,port=2", "loss=1%,loss=1%",
        "colour=red", "port=1;port=1", "loss=1%;delay=1ms", "PORT=1"}) {
    std::vector<PathImpairment> out(3);
    std::string error;
    EXPECT_EQ(parse_impairments(text, out, error).code(), StatusCode::kInvalidArgument)
        << "'" << text << "'";
    EXPECT_FALSE(error.empty()) << "'" << text << "'";
    EXPECT_EQ(out.size(), 3U) << "'" << text << "'";
  }
}

}  // namespace
}  // namespace braid::config
