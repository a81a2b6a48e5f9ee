#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "config/config_world.h"

namespace braid::config {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr const char* kQps = "HCCL_RDMA_QPS_PER_CONNECTION";
constexpr const char* kPorts = "HCCL_HOST_RDMA_UDP_PORTS_LIST";
constexpr const char* kPairPath = "HCCL_RDMA_QP_PORT_CONFIG_PATH";

ConfigRequest request_of(std::uint32_t device) {
  return {.device = device, .local_address = "10.0.0.1", .remote_address = "10.0.0.2"};
}

// Every set of sources that may be there, against the order as requirements write it.
// Requirement: 8, 9
TEST(ResolveLanes, EverySetOfSources_StrongestHolds) {
  for (unsigned present = 0; present < 64; ++present) {
    const auto has = [&](unsigned bit) { return (present >> bit & 1U) != 0; };
    World world;
    ConfigRequest request = request_of(3);
    if (has(0)) request.lanes = 5;
    if (has(1)) world.files[kHcommPath] = hcomm_lines(3, 6, "6001,6002");
    if (has(2)) {
      world.variables[kPairPath] = "/pairs";
      world.files["/pairs/MultiQpSrcPort.cfg"] = "10.0.0.1,10.0.0.2=7001,7002,7003\n";
    }
    if (has(3)) world.variables[kQps] = "8";
    if (has(4)) world.variables[kPorts] = "3:9001,9002,9003,9004";
    if (has(5)) request.source_ports = {4001};
    std::string why;
    const auto config = world.load(request, &why);
    ASSERT_TRUE(config) << why;
    const unsigned lanes = has(0) ? 5 : has(1) ? 6 : has(2) ? 3 : has(3) ? 8 : 1;
    EXPECT_EQ(config->options.lanes, lanes) << present;
    EXPECT_EQ(config->lanes_configured, (present & 15U) != 0) << present;
    const unsigned port = has(5) ? 4001 : has(1) ? 6001 : has(4) ? 9001 : has(2) ? 7001 : 0;
    const auto& ports = config->options.source_ports;
    EXPECT_EQ(ports.empty() ? 0U : ports.front(), port) << present;
    // Whatever did not win is named as overridden: one per source that was there, and the default.
    const ConfigEntry lanes_entry = entry_of(*config, "lanes");
    EXPECT_EQ(lanes_entry.overrode.size() + 1, 1U + has(0) + has(1) + has(2) + has(3)) << present;
    const ConfigEntry ports_entry = entry_of(*config, "source_ports");
    EXPECT_EQ(ports_entry.overrode.size() + 1, 1U + has(5) + has(1) + has(4) + has(2)) << present;
  }
}

// Requirement: 8
TEST(ResolveLanes, EachSource_IsNamedWithFileAndLine) {
  World world;
  world.files[kHcommPath] = "#\n" + hcomm_lines(0, 6, "6001,6002");
  world.variables[kPairPath] = "pairs/";
  world.files["pairs/MultiQpSrcPort.cfg"] = "\n0.0.0.0,0.0.0.0=7001,7002,7003\n";
  world.variables[kQps] = "8";
  const auto config = world.load(request_of(0));
  ASSERT_TRUE(config);
  const ConfigEntry lanes = entry_of(*config, "lanes");
  EXPECT_EQ(lanes.value, "6");
  EXPECT_EQ(lanes.source, ConfigSource::kHcommFile);
  EXPECT_EQ(lanes.where, "/etc/hcomm.cfg:3");
  ASSERT_EQ(lanes.overrode.size(), 3U);
  EXPECT_EQ(lanes.overrode[0].value, "3");
  EXPECT_EQ(lanes.overrode[0].where, "pairs/MultiQpSrcPort.cfg:2");
  EXPECT_EQ(lanes.overrode[1].where, kQps);
  EXPECT_EQ(lanes.overrode[2].source, ConfigSource::kDefault);
  EXPECT_EQ(entry_of(*config, "source_ports").where, "/etc/hcomm.cfg:4");
}

// Requirement: 9
TEST(ResolveLanes, HcommFile_ReplacesTheVariablesEntryOfTheSameDeviceOnly) {
  World world;
  world.files[kHcommPath] = hcomm_lines(0, 2, "6001,6002");
  world.variables[kPorts] = "0:9001,9002;1:9101,9102";
  EXPECT_THAT(world.load(request_of(0))->options.source_ports, ElementsAre(6001, 6002));
  EXPECT_THAT(world.load(request_of(1))->options.source_ports, ElementsAre(9101, 9102));
  EXPECT_THAT(world.load(request_of(2))->options.source_ports, IsEmpty());
}

// Requirement: 9
TEST(ResolveLanes, PortsOfTheVariableAlone_DoNotChangeTheCount) {
  World world;
  world.variables[kPorts] = "0:9001,9002,9003,9004";
  const auto config = world.load(request_of(0));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->options.lanes, 1U);
  EXPECT_FALSE(config->lanes_configured);
  EXPECT_EQ(config->options.source_ports.size(), 4U);  // and the list stays whole
}

// Requirement: 8
TEST(ResolveLanes, ExplicitOne_IsToldFromTheDefault) {
  World world;
  ConfigRequest request;
  EXPECT_FALSE(world.load(request)->lanes_configured);
  request.lanes = 1;
  EXPECT_TRUE(world.load(request)->lanes_configured);
  world.variables[kQps] = "1";
  EXPECT_TRUE(world.load({})->lanes_configured);
}

// Requirement: 8
TEST(ResolveLanes, CountAtTheLimits_TakenOnePastRefused) {
  for (const auto& [text, taken] : std::map<std::string, bool>{
           {"0", false}, {"1", true}, {"32", true}, {"33", false}, {"+2", false}, {"2 ", false}}) {
    World world;
    world.variables[kQps] = text;
    EXPECT_EQ(world.load().has_value(), taken) << text;
  }
  World world;
  for (const auto& [lanes, taken] :
       std::map<std::uint32_t, bool>{{0, false}, {1, true}, {128, true}, {129, false}}) {
    EXPECT_EQ(world.load({.lanes = lanes}).has_value(), taken) << lanes;
  }
  world.variables["BRAID_PROFILE"] = "hcomm";
  EXPECT_TRUE(world.load({.lanes = 32}));
  EXPECT_FALSE(world.load({.lanes = 33}));
}

// Requirement: 10
TEST(ResolveLanes, PortsAndLanesDiffer_WarnsBothWays) {
  World world;
  world.variables[kPorts] = "0:9001,9002";
  const auto warnings = [&](std::uint32_t lanes) {
    std::string all;
    const auto config = world.load({.lanes = lanes});
    for (const std::string& each : config->warnings) all += each;
    return all;
  };
  EXPECT_THAT(warnings(1), HasSubstr("2 source ports for 1 lanes: only the first"));
  EXPECT_EQ(warnings(2), "");
  EXPECT_THAT(warnings(3), HasSubstr("2 source ports for 3 lanes: they are used in turn"));
}

TEST(ResolveLanes, PairFile_NeedsBothAddresses) {
  World world;
  world.variables[kPairPath] = "/pairs";
  world.files["/pairs/MultiQpSrcPort.cfg"] = "0.0.0.0,0.0.0.0=7001,7002\n";
  EXPECT_EQ(world.load(request_of(0))->options.lanes, 2U);
  EXPECT_EQ(world.load({.local_address = "10.0.0.1"})->options.lanes, 1U);
  std::string why;
  EXPECT_FALSE(world.load({.local_address = "here", .remote_address = "10.0.0.2"}, &why));
  EXPECT_THAT(why, HasSubstr("local address is 'here'"));
}

TEST(ResolveLanes, PairFileMissingOrWrong_Refused) {
  World world;
  world.variables[kPairPath] = "/pairs";
  std::string why;
  EXPECT_FALSE(world.load({}, &why));
  EXPECT_THAT(why, HasSubstr("/pairs/MultiQpSrcPort.cfg"));
  world.files["/pairs/MultiQpSrcPort.cfg"] = "10.0.0.1,10.0.0.2=70000\n";
  EXPECT_FALSE(world.load({}, &why));
  EXPECT_THAT(why, HasSubstr("/pairs/MultiQpSrcPort.cfg:1: 10.0.0.1,10.0.0.2 is '70000'"));
}

TEST(ResolveLanes, PathLengthAtTheLimit_TakenOnePastRefused) {
  World world;
  const std::string longest(4095, 'p');
  world.variables[kPairPath] = longest;
  world.files[longest + "/MultiQpSrcPort.cfg"] = "";
  EXPECT_TRUE(world.load());
  world.variables[kPairPath] = longest + "p";
  world.files[longest + "p/MultiQpSrcPort.cfg"] = "";
  EXPECT_FALSE(world.load());
}

TEST(ResolveLanes, WrongListOfPorts_RefusedEvenWhereAFileIsStronger) {
  World world;
  world.files[kHcommPath] = hcomm_lines(0, 2, "6001,6002");
  world.variables[kPorts] = "0:9001,";
  std::string why;
  EXPECT_EQ(world.load({}, &why).error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(why, HasSubstr(kPorts));
}

TEST(ResolveLanes, RequestedPortsAtTheLimits_TakenOnePastRefused) {
  World world;
  EXPECT_TRUE(world.load({.source_ports = std::vector<std::uint16_t>(128, 65535)}));
  EXPECT_FALSE(world.load({.source_ports = std::vector<std::uint16_t>(129, 65535)}));
  EXPECT_FALSE(world.load({.source_ports = {5000, 0}}));
}

}  // namespace
}  // namespace braid::config
