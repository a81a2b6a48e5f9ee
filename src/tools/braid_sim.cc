// braid_sim: simulated networks in virtual time. `swarm` looks for violated invariants.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cinttypes>
#include <cstdio>

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

int run(int argc, char** argv) {
  CLI::App app(
      "Simulated networks in virtual time: the same channels, devices and RoCEv2 engine as "
      "on a real one.");
  app.require_subcommand(1);
  SwarmOptions swarm;
  CLI::App* swarm_command = app.add_subcommand(
      "swarm", "Random networks, sizes, options, faults and call orders; checks every invariant");
  swarm_command->add_option("--seeds", swarm.seeds, "How many seeds")->capture_default_str();
  swarm_command->add_option("--start", swarm.start, "The first seed")->capture_default_str();
  swarm_command->add_option("--jobs", swarm.jobs, "Threads; 0 = one per processor")
      ->capture_default_str();
  app.footer("Exit codes: 0 every invariant held, 1 one did not, 2 wrong usage.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kSimOk : kSimUsage;
  }
  return run_swarm_command(swarm);
}

}  // namespace
}  // namespace braid::tools

int main(int argc, char** argv) { return braid::tools::run(argc, argv); }
