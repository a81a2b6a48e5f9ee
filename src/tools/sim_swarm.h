#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "tools/sim_case.h"

namespace braid::tools {

/// What came of one case.
struct CaseOutcome {
  std::uint64_t seed = 0;
  std::uint64_t audit_hash = 0;
  std::uint64_t events = 0;
  std::uint64_t packets = 0;
  std::uint64_t operations = 0;  // issued by all sides
  std::uint64_t recoveries = 0;  // queue pairs replaced
  bool channel_failed = false;
  std::string violation;  // empty: every invariant held
};

/// Runs one case to its end and checks it. Deterministic; any thread.
[[nodiscard]] CaseOutcome run_case(const SwarmCase& what);

struct SwarmOptions {
  std::uint64_t start = 1;
  std::uint64_t seeds = 100;
  std::uint32_t jobs = 0;  // threads; 0 = one per processor
  /// Every n-th seed is run twice and must give the same digest. 0 = none.
  std::uint64_t repeat_every = 16;
};

struct SwarmOutcome {
  std::uint64_t cases = 0;
  std::uint64_t violations = 0;
  std::uint64_t failed_channels = 0;  // cases in which a channel failed, as it may
  std::uint64_t recoveries = 0;       // queue pairs replaced
  std::uint64_t packets = 0;
  std::uint64_t operations = 0;
  std::uint64_t combined_hash = 0;  // of all digests, whatever the order in which they came
};

/// Runs consecutive seeds on all processors. `on_violation` is called for each failure, one at a
/// time.
SwarmOutcome run_swarm(const SwarmOptions& options,
                       const std::function<void(const CaseOutcome&)>& on_violation);

}  // namespace braid::tools
