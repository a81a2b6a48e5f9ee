#pragma once

#include <braid/channel_options.h>

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace braid::tools {

/// One line of a scenario's report.
struct Measurement {
  std::string scenario;
  std::string policy;
  std::uint64_t seed = 0;
  std::uint64_t bytes = 0;   // of payload, per flow
  std::int64_t time_ns = 0;  // of virtual time, until the last byte was announced
  double ratio_to_optimum = 0;
  double utilisation = 0;
  std::uint64_t audit_hash = 0;
  std::vector<std::pair<std::string, double>> more;  // what this scenario measures beside
};

struct ScenarioOptions {
  std::uint64_t seed = 1;
  std::string policy = "all";
  std::uint32_t hosts = 0;      // 0 = the scenario's own default
  std::uint64_t bytes = 0;      // 0 = the scenario's own default
  std::uint32_t lanes = 0;      // 0 = the scenario's own default
  bool spine_fails = false;     // allreduce
  bool has_background = false;  // allreduce
  bool flow_level = false;      // allreduce
};

/// How segments are spread over lanes.
struct Policy {
  std::string name;
  std::function<void(ChannelOptions&)> apply;
};
/// The policies that channels have, and adaptive with lanes that leave slow paths.
[[nodiscard]] const std::vector<Policy>& policies();

using Report = std::function<void(const Measurement&)>;

/// Runs a scenario for each policy asked for; what it measures goes to `report` as it comes.
/// Returns why it could not, or an empty string.
using Scenario = std::string (*)(const ScenarioOptions&, const Report&);

std::string run_asym(const ScenarioOptions& options, const Report& report);
std::string run_collide(const ScenarioOptions& options, const Report& report);
std::string run_incast(const ScenarioOptions& options, const Report& report);
std::string run_linkflap(const ScenarioOptions& options, const Report& report);
std::string run_blackhole(const ScenarioOptions& options, const Report& report);
std::string run_crossdc(const ScenarioOptions& options, const Report& report);
std::string run_allreduce(const ScenarioOptions& options, const Report& report);

}  // namespace braid::tools
