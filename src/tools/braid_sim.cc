// braid_sim: simulated networks in virtual time. `swarm` looks for violated invariants; the other
// commands measure scenarios.
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "tools/sim_scenario.h"
#include "tools/sim_swarm.h"

namespace braid::tools {
namespace {

enum : int { kSimOk = 0, kSimViolated = 1, kSimUsage = 2 };

int run_swarm_command(const SwarmOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  const SwarmOutcome outcome = run_swarm(options, [](const CaseOutcome& failed) {
    std::printf("FAILED: %s; replay: braid_sim swarm --seeds 1 --start %" PRIu64 "\n",
                failed.violation.c_str(), failed.seed);
    (void)std::fflush(stdout);
  });
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("swarm: %" PRIu64 " seeds from %" PRIu64 ", %" PRIu64 " violations, %" PRIu64
              " with a channel that failed as it may, %" PRIu64 " queue pairs replaced, %" PRIu64
              " operations, %" PRIu64 " packets, digest %016" PRIx64 ", %.1f s\n",
              outcome.cases, options.start, outcome.violations, outcome.failed_channels,
              outcome.recoveries, outcome.operations, outcome.packets, outcome.combined_hash,
              took.count());
  return outcome.violations == 0 ? kSimOk : kSimViolated;
}

struct ScenarioEntry {
  const char* name;
  const char* what;
  Scenario run;
};
constexpr std::array<ScenarioEntry, 7> kScenarios{{
    {"asym", "one put over four paths of 100, 100, 100 and 25 Gb/s, 1 MiB to 1 GiB", run_asym},
    {"collide", "a permutation over an ECMP Clos, by number of lanes", run_collide},
    {"incast", "many hosts to one, lossy and lossless", run_incast},
    {"linkflap", "a path that goes down and up while a put is under way", run_linkflap},
    {"blackhole", "a path that swallows everything while a put is under way", run_blackhole},
    {"crossdc", "a rack, a cross-rack and a cross-DC channel at the same time", run_crossdc},
    {"allreduce", "a ring all-reduce, step after step", run_allreduce},
}};

void print_measurement(const Measurement& one, bool as_json) {
  char hash[17];
  (void)std::snprintf(hash, sizeof hash, "%016" PRIx64, one.audit_hash);
  if (!as_json) {
    std::printf("%-9s %-24s %12" PRIu64 " bytes %12" PRId64
                " ns  x%.3f of optimum  %5.1f %% utilised",
                one.scenario.c_str(), one.policy.c_str(), one.bytes, one.time_ns,
                one.ratio_to_optimum, one.utilisation * 100);
    for (const auto& [name, value] : one.more) std::printf("  %s=%.0f", name.c_str(), value);
    std::printf("\n");
  } else {
    nlohmann::ordered_json line{{"scenario", one.scenario},
                                {"policy", one.policy},
                                {"seed", one.seed},
                                {"bytes", one.bytes},
                                {"time_ns", one.time_ns},
                                {"ratio_to_optimum", one.ratio_to_optimum},
                                {"utilisation", one.utilisation},
                                {"audit_hash", hash}};
    for (const auto& [name, value] : one.more) line[name] = value;
    std::printf("%s\n", line.dump().c_str());
  }
  (void)std::fflush(stdout);
}

/// Each simulated device holds a descriptor, for its asynchronous events.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

int run_scenario(const ScenarioEntry& entry, const ScenarioOptions& options, bool as_json) {
  raise_descriptor_limit();
  const std::string failure =
      entry.run(options, [&](const Measurement& one) { print_measurement(one, as_json); });
  if (failure.empty()) return kSimOk;
  (void)std::fprintf(stderr, "braid_sim %s: %s\n", entry.name, failure.c_str());
  return kSimViolated;
}

std::string check_policy(const std::string& name) {
  std::string known = "all";
  if (name == "all") return "";
  for (const Policy& policy : policies()) {
    if (policy.name == name) return "";
    known += ", " + policy.name;
  }
  return "\"" + name + "\" is no policy; there are " + known;
}

void add_scenario_options(CLI::App& command, ScenarioOptions& options, bool& as_json) {
  command.add_option("--policy", options.policy, "How segments are spread over lanes, or all")
      ->check(check_policy)
      ->capture_default_str();
  command.add_option("--seed", options.seed, "Decides everything random")->capture_default_str();
  command.add_option("--hosts", options.hosts, "Hosts (collide, allreduce) or senders (incast)")
      ->check(CLI::Range(4, 131072));
  command.add_option("--bytes", options.bytes, "Payload of each put, or of the all-reduce")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1} << 34U));
  command.add_option("--lanes", options.lanes, "Lanes per channel")->check(CLI::Range(1, 32));
  command.add_flag("--json", as_json, "One JSON object per line and measurement");
}

int run(int argc, char** argv) {
  CLI::App app(
      "Simulated networks in virtual time: the same channels, devices and RoCEv2 engine as on a "
      "real one.");
  app.require_subcommand(1);
  SwarmOptions swarm;
  CLI::App* swarm_command = app.add_subcommand(
      "swarm", "Random networks, sizes, options, faults and call orders; checks every invariant");
  swarm_command->add_option("--seeds", swarm.seeds, "How many seeds")->capture_default_str();
  swarm_command->add_option("--start", swarm.start, "The first seed")->capture_default_str();
  swarm_command->add_option("--jobs", swarm.jobs, "Threads; 0 = one per processor")
      ->capture_default_str();
  ScenarioOptions scenario;
  bool as_json = false;
  std::vector<std::pair<CLI::App*, const ScenarioEntry*>> commands;
  for (const ScenarioEntry& entry : kScenarios) {
    CLI::App* command = app.add_subcommand(entry.name, entry.what);
    add_scenario_options(*command, scenario, as_json);
    if (entry.run == run_allreduce) {
      command->add_flag("--spine-fails", scenario.spine_fails, "A spine dies after 100 us");
      command->add_flag("--background", scenario.has_background, "Other traffic beside it");
      command->add_flag("--flow-level", scenario.flow_level, "Fluids in place of packets");
    }
    commands.emplace_back(command, &entry);
  }
  app.footer(
      "Exit codes: 0 done and every invariant held, 1 one did not or the traffic failed, "
      "2 wrong usage.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSimOk : kSimUsage;
  }
  for (const auto& [command, entry] : commands) {
    if (command->parsed()) return run_scenario(*entry, scenario, as_json);
  }
  return run_swarm_command(swarm);
}

}  // namespace
}  // namespace braid::tools

int main(int argc, char** argv) { return braid::tools::run(argc, argv); }
