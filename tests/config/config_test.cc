#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "config/config_world.h"

namespace braid::config {
namespace {

using namespace std::chrono_literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(ConfigSources, NothingSet_DefaultsOfTheProfile) {
  World world;
  const auto config = world.load();
  ASSERT_TRUE(config);
  const ChannelOptions& options = config->options;
  EXPECT_EQ(options.lanes, 1U);
  EXPECT_THAT(options.source_ports, IsEmpty());
  EXPECT_EQ(options.traffic_class, 132);
  EXPECT_EQ(options.service_level, 4);
  EXPECT_EQ(options.retry_count, 6);
  EXPECT_EQ(options.ack_timeout_exponent, 16);
  EXPECT_EQ(options.connect_timeout, Duration(10s));
  EXPECT_EQ(config->options.static_threshold_bytes, 512U << 10U);
  EXPECT_EQ(config->execution_timeout, Duration(1836s));
  EXPECT_THAT(config->listen_ports, IsEmpty());
  EXPECT_THAT(config->warnings, IsEmpty());
  for (const ConfigEntry& each : config->entries) {
    EXPECT_EQ(each.source, ConfigSource::kDefault) << each.name;
    EXPECT_THAT(each.overrode, IsEmpty()) << each.name;
  }
}

// Requirement: 37, 38
TEST(ConfigSources, HcommProfile_DefaultsOfTheSeed) {
  World world;
  world.variables["BRAID_PROFILE"] = "hcomm";
  const auto config = world.load();
  ASSERT_TRUE(config);
  EXPECT_EQ(config->options.traffic_class, 132);
  EXPECT_EQ(config->options.service_level, 4);
  EXPECT_EQ(config->options.retry_count, 7);
  EXPECT_EQ(config->options.ack_timeout_exponent, 20);
  EXPECT_EQ(config->options.connect_timeout, Duration(140s));  // 120 s, and 20 s more
  EXPECT_EQ(entry_of(*config, "retry_count").where, "profile hcomm");
}

TEST(ConfigSources, EveryVariable_ByItsNameAndByItsAlias) {
  const std::map<std::string, std::string> values = {
      {"RDMA_QPS_PER_CONNECTION", "4"},
      {"HOST_RDMA_UDP_PORTS_LIST", "0:5001,5002,5003,5004"},
      {"MULTI_QP_THRESHOLD", "8192"},
      {"RDMA_TC", "104"},
      {"RDMA_SL", "3"},
      {"RDMA_RETRY_CNT", "2"},
      {"RDMA_TIMEOUT", "19"},
      {"CONNECT_TIMEOUT", "121"},
      {"EXEC_TIMEOUT", "0"},
      {"IF_BASE_PORT", "61000"}};
  for (const char* prefix : {"BRAID_", "HCCL_"}) {
    World world;
    for (const auto& [name, value] : values) world.variables[prefix + name] = value;
    std::string why;
    const auto config = world.load({}, &why);
    ASSERT_TRUE(config) << why;
    EXPECT_EQ(config->options.lanes, 4U);
    EXPECT_THAT(config->options.source_ports, ElementsAre(5001, 5002, 5003, 5004));
    EXPECT_EQ(config->options.static_threshold_bytes, 8U << 20U);
    EXPECT_EQ(config->options.traffic_class, 104);
    EXPECT_EQ(config->options.service_level, 3);
    EXPECT_EQ(config->options.retry_count, 2);
    EXPECT_EQ(config->options.ack_timeout_exponent, 19);
    EXPECT_EQ(config->options.connect_timeout, Duration(121s));
    EXPECT_EQ(config->execution_timeout, Duration(0));
    EXPECT_THAT(config->listen_ports, ElementsAre(PortRange{61000, 61031}));
    EXPECT_EQ(entry_of(*config, "traffic_class").where, prefix + std::string("RDMA_TC"));
    EXPECT_THAT(config->warnings, IsEmpty());
  }
}

TEST(ConfigSources, BothNamesDiffer_OwnNameHoldsWithAWarning) {
  World world;
  world.variables = {{"BRAID_RDMA_TC", "104"}, {"HCCL_RDMA_TC", "128"}};
  auto config = world.load();
  ASSERT_TRUE(config);
  EXPECT_EQ(config->options.traffic_class, 104);
  ASSERT_EQ(config->warnings.size(), 1U);
  EXPECT_THAT(config->warnings[0],
              AllOf(HasSubstr("BRAID_RDMA_TC is '104'"), HasSubstr("HCCL_RDMA_TC is '128'"),
                    HasSubstr("BRAID_RDMA_TC holds")));
  const ConfigEntry entry = entry_of(*config, "traffic_class");
  ASSERT_EQ(entry.overrode.size(), 2U);
  EXPECT_EQ(entry.overrode[0].where, "HCCL_RDMA_TC");
  EXPECT_EQ(entry.overrode[0].value, "128");
  world.variables["HCCL_RDMA_TC"] = "104";
  config = world.load();
  EXPECT_THAT(config->warnings, IsEmpty());
}

TEST(ConfigSources, EmptyVariable_CountsAsNotSet) {
  World world;
  world.variables = {{"BRAID_RDMA_TC", ""}, {"HCCL_RDMA_TC", "128"}, {"BRAID_RDMA_SL", ""}};
  const auto config = world.load();
  ASSERT_TRUE(config);
  EXPECT_EQ(config->options.traffic_class, 128);
  EXPECT_EQ(config->options.service_level, 4);
}

// Requirement: 37
TEST(ConfigSources, RequestedValues_BeatTheVariables) {
  World world;
  world.variables = {{"HCCL_RDMA_TC", "128"},
                     {"HCCL_RDMA_SL", "1"},
                     {"HCCL_RDMA_RETRY_CNT", "2"},
                     {"HCCL_RDMA_TIMEOUT", "19"},
                     {"HCCL_CONNECT_TIMEOUT", "300"}};
  const auto config = world.load({.traffic_class = 0,
                                  .service_level = 7,
                                  .retry_count = 5,
                                  .ack_timeout_exponent = 9,
                                  .connect_timeout = 250ms});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->options.traffic_class, 0);
  EXPECT_EQ(config->options.service_level, 7);
  EXPECT_EQ(config->options.retry_count, 5);
  EXPECT_EQ(config->options.ack_timeout_exponent, 9);
  EXPECT_EQ(config->options.connect_timeout, Duration(250ms));
  for (const char* name : {"traffic_class", "service_level", "retry_count", "ack_timeout_exponent",
                           "connect_timeout"}) {
    const ConfigEntry entry = entry_of(*config, name);
    EXPECT_EQ(entry.source, ConfigSource::kExplicit) << name;
    ASSERT_EQ(entry.overrode.size(), 2U) << name;
    EXPECT_EQ(entry.overrode[0].source, ConfigSource::kEnvironment) << name;
  }
}

// Requirement: 37
TEST(ConfigSources, RequestedValuesOutOfRange_RefusedByName) {
  World world;
  const std::pair<ConfigRequest, const char*> cases[] = {
      {{.traffic_class = 131}, "traffic_class is '131'"},
      {{.traffic_class = 256}, "traffic_class is '256'"},
      {{.service_level = 8}, "service_level is '8'"},
      {{.retry_count = 0}, "retry_count is '0'"},
      {{.retry_count = 8}, "retry_count is '8'"},
      {{.ack_timeout_exponent = 32}, "ack_timeout_exponent is '32'"},
      {{.connect_timeout = Duration(0)}, "connect_timeout"}};
  for (const auto& [request, text] : cases) {
    std::string why;
    EXPECT_EQ(world.load(request, &why).error().code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(why, AllOf(HasSubstr(text), HasSubstr("allowed is")));
  }
}

TEST(ConfigSources, WrongVariable_NamesItItsValueAndTheRange) {
  const std::map<std::string, std::vector<const char*>> bad = {
      {"BRAID_RDMA_TC", {"131", "256", "x"}},     {"HCCL_RDMA_SL", {"8", "-1"}},
      {"HCCL_RDMA_RETRY_CNT", {"0", "8"}},        {"BRAID_RDMA_TIMEOUT", {"0", "32"}},
      {"HCCL_MULTI_QP_THRESHOLD", {"0", "8193"}}, {"BRAID_CONNECT_TIMEOUT", {"0", "7201"}},
      {"HCCL_EXEC_TIMEOUT", {"-1", "1.5"}},       {"HCCL_IF_BASE_PORT", {"1023", "65521"}},
      {"BRAID_HOST_SOCKET_PORT_RANGE", {"7-6"}},  {"BRAID_PROFILE", {"other"}}};
  for (const auto& [name, values] : bad) {
    for (const char* value : values) {
      World world;
      world.variables[name] = value;
      std::string why;
      EXPECT_FALSE(world.load({}, &why)) << name << "=" << value;
      EXPECT_THAT(why, HasSubstr(name + " is '" + value + "'; allowed is ")) << name;
    }
  }
}

TEST(ConfigSources, ListenPorts_RangeBeatsBaseAndAutoIsTheSystems) {
  World world;
  world.variables["BRAID_IF_BASE_PORT"] = "65520";
  EXPECT_THAT(world.load()->listen_ports, ElementsAre(PortRange{65520, 65535}));
  world.variables["HCCL_HOST_SOCKET_PORT_RANGE"] = "50000,50010-50012";
  const auto config = world.load();
  EXPECT_THAT(config->listen_ports, ElementsAre(PortRange{50000, 50000}, PortRange{50010, 50012}));
  EXPECT_EQ(entry_of(*config, "listen_ports").overrode[0].where, "BRAID_IF_BASE_PORT");
  world.variables["HCCL_HOST_SOCKET_PORT_RANGE"] = "auto";
  EXPECT_THAT(world.load()->listen_ports, ElementsAre(PortRange{0, 0}));
}

// Section 2: of a file with any fault nothing is kept, and a later load may succeed.
TEST(ConfigSources, FileWithAFault_NothingKeptAndReadAgain) {
  World world;
  ConfigSources sources = world.sources();
  world.files[kHcommPath] = hcomm_lines(0, 4, "6001") + hcomm_lines(1, 33, "6002");
  std::string why;
  EXPECT_FALSE(sources.load({}, &why));
  EXPECT_THAT(why, HasSubstr("/etc/hcomm.cfg:5: multi_qp_count_1 is '33'"));
  world.files[kHcommPath] = hcomm_lines(0, 2, "6003");
  auto config = sources.load({});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->options.lanes, 2U);
  // And now it is kept, whatever becomes of the file.
  world.files[kHcommPath] = "multi_qp_count_0=nonsense";
  config = sources.load({});
  ASSERT_TRUE(config);
  EXPECT_EQ(config->options.lanes, 2U);
  EXPECT_EQ(world.reads[kHcommPath], 2);
}

TEST(ConfigSources, FileCannotBeRead_RefusedAndReadAgain) {
  World world;
  ConfigSources sources = world.sources();
  world.broken[kHcommPath] = Status::from_errno(StatusCode::kIo, EACCES);
  std::string why;
  EXPECT_EQ(sources.load({}, &why).error().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(why, HasSubstr("/etc/hcomm.cfg"));
  world.broken.clear();
  world.files[kHcommPath] = hcomm_lines(0, 2, "6003");
  ASSERT_TRUE(sources.load({}));
}

TEST(ConfigSources, NoFile_TheVariablesAlone) {
  World world;
  ConfigSources sources = world.sources();
  world.variables["HCCL_RDMA_QPS_PER_CONNECTION"] = "3";
  EXPECT_EQ(sources.load({})->options.lanes, 3U);
  // A file that comes later is found.
  world.files[kHcommPath] = hcomm_lines(0, 2, "6003");
  EXPECT_EQ(sources.load({})->options.lanes, 2U);
}

TEST(ConfigSources, WarningsOfAFile_ComeWithEveryLoad) {
  World world;
  ConfigSources sources = world.sources();
  world.files[kHcommPath] = hcomm_lines(0, 1, "6001") + "multi_qp_count_0=9\n";
  for (int i = 0; i < 2; ++i) {
    const auto config = sources.load({});
    ASSERT_TRUE(config);
    ASSERT_EQ(config->warnings.size(), 1U);
    EXPECT_THAT(config->warnings[0], HasSubstr("multi_qp_count_0"));
  }
}

TEST(ConfigSources, OtherOptions_AreThoseOfTheRequest) {
  World world;
  ConfigRequest request;
  request.base.segment_bytes = 4096;
  request.base.window_segments = 64;
  request.base.retry_count = 1;  // a configured value: the base does not count
  const auto config = world.load(request);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->options.segment_bytes, 4096U);
  EXPECT_EQ(config->options.window_segments, 64U);
  EXPECT_EQ(config->options.retry_count, 6);
}

// Fault: B1
TEST(ConfigDump, TextAndJson_SayValueOriginAndWhatWasOverridden) {
  World world;
  world.variables = {{"BRAID_RDMA_TC", "104"}, {"HCCL_RDMA_TC", "12\xff"}};
  world.files[kHcommPath] = hcomm_lines(0, 2, "6001,6002");
  const auto config = world.load();
  ASSERT_TRUE(config);
  const std::string text = to_text(*config);
  EXPECT_THAT(text, HasSubstr("lanes                = 2  [hcomm_file /etc/hcomm.cfg:2; over 1 from "
                              "default profile braid]\n"));
  EXPECT_THAT(text, HasSubstr("warning: BRAID_RDMA_TC is '104'"));
  const auto json = nlohmann::json::parse(to_json(*config));
  ASSERT_EQ(json["settings"].size(), config->entries.size());
  for (std::size_t i = 0; i < config->entries.size(); ++i) {
    const auto& setting = json["settings"][i];
    EXPECT_EQ(setting["name"], config->entries[i].name);
    EXPECT_EQ(setting["value"], config->entries[i].value);
    EXPECT_EQ(setting["source"], to_string(config->entries[i].source));
    EXPECT_EQ(setting["where"], config->entries[i].where);
    EXPECT_EQ(setting["overrode"].size(), config->entries[i].overrode.size());
  }
  EXPECT_EQ(json["warnings"].size(), 1U);
  EXPECT_EQ(to_json(*config).find('\n'), std::string::npos);
}

TEST(ConfigDump, EverySetting_HasAnEntry) {
  World world;
  std::vector<std::string> names;
  const auto config = world.load();
  for (const ConfigEntry& each : config->entries) names.push_back(each.name);
  EXPECT_THAT(names,
              ElementsAre("profile", "lanes", "source_ports", "traffic_class", "service_level",
                          "retry_count", "ack_timeout_exponent", "connect_timeout",
                          "execution_timeout", "split_threshold", "listen_ports"));
}

}  // namespace
}  // namespace braid::config
