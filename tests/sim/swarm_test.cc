#include <gtest/gtest.h>

#include <set>

#include "tools/sim_swarm.h"

namespace braid::tools {
namespace {

TEST(SwarmCase, SameSeed_SameCaseAndDigest) {
  for (std::uint64_t seed = 500; seed < 540; ++seed) {
    const CaseOutcome first = run_case(make_case(seed));
    const CaseOutcome second = run_case(make_case(seed));
    EXPECT_EQ(first.violation, "") << "seed " << seed;
    EXPECT_EQ(first.audit_hash, second.audit_hash) << "seed " << seed;
    EXPECT_EQ(first.events, second.events) << "seed " << seed;
  }
}

TEST(SwarmCase, ManySeeds_CoverEveryKindOfCase) {
  std::size_t lossless = 0, wrapping = 0, failing = 0, shared_ports = 0;
  std::set<std::size_t> sizes;
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    const SwarmCase what = make_case(seed);
    sizes.insert(what.topology.links().size());
    failing += what.may_fail ? 1U : 0U;
    lossless += what.topology.links()[0].options.pause_bytes != 0 ? 1U : 0U;
    shared_ports += what.channels.size() > what.topology.ports().size() / 2 ? 1U : 0U;
    for (const CaseChannel& channel : what.channels)
      wrapping += channel.first_sequence != 0 ? 1U : 0U;
  }
  EXPECT_GT(sizes.size(), 10U);
  EXPECT_GT(lossless, 20U);
  EXPECT_GT(wrapping, 100U);
  EXPECT_GT(failing, 30U);
  EXPECT_GT(shared_ports, 30U);
}

TEST(Swarm, ThreadsInAnyNumber_SameDigest) {
  SwarmOptions options;
  options.seeds = 30;
  options.jobs = 1;
  const SwarmOutcome one = run_swarm(options, [](const CaseOutcome&) { ADD_FAILURE(); });
  options.jobs = 3;
  const SwarmOutcome three = run_swarm(options, [](const CaseOutcome&) { ADD_FAILURE(); });
  EXPECT_EQ(one.cases, 30U);
  EXPECT_EQ(one.combined_hash, three.combined_hash);
  EXPECT_EQ(one.operations, three.operations);
  EXPECT_GT(one.operations, 30U);
}

}  // namespace
}  // namespace braid::tools
