// The scenarios at small sizes: that they end, repeat exactly, and that no figure is better than
// what the network can carry.
#include <gtest/gtest.h>

#include "tools/sim_scenario.h"

namespace braid::tools {
namespace {

std::vector<Measurement> run(Scenario scenario, const ScenarioOptions& options) {
  std::vector<Measurement> out;
  EXPECT_EQ(scenario(options, [&](const Measurement& one) { out.push_back(one); }), "");
  return out;
}

double value_of(const Measurement& one, const std::string& name) {
  for (const auto& [key, value] : one.more) {
    if (key == name) return value;
  }
  ADD_FAILURE() << name << " was not measured";
  return 0;
}

struct Case {
  const char* name;
  Scenario scenario;
  std::uint32_t hosts;
};
class Scenarios : public ::testing::TestWithParam<Case> {};

TEST_P(Scenarios, SmallSize_EndsNeverBeatsTheOptimumAndRepeats) {
  ScenarioOptions options;
  options.bytes = 2U << 20U;
  options.hosts = GetParam().hosts;
  const auto first = run(GetParam().scenario, options);
  const auto second = run(GetParam().scenario, options);
  ASSERT_FALSE(first.empty());
  ASSERT_EQ(first.size(), second.size());
  for (std::size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].scenario, GetParam().name);
    EXPECT_GE(first[i].ratio_to_optimum, 1.0) << first[i].policy;
    EXPECT_GT(first[i].utilisation, 0.0);
    EXPECT_LE(first[i].utilisation, 1.0);
    EXPECT_EQ(first[i].audit_hash, second[i].audit_hash) << first[i].policy;
    EXPECT_EQ(first[i].time_ns, second[i].time_ns);
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, Scenarios,
    ::testing::Values(Case{"asym", run_asym, 0}, Case{"collide", run_collide, 8},
                      Case{"incast", run_incast, 7}, Case{"linkflap", run_linkflap, 0},
                      Case{"blackhole", run_blackhole, 0}, Case{"crossdc", run_crossdc, 0},
                      Case{"allreduce", run_allreduce, 8}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(ScenarioCollide, LanesThatLeaveSlowPaths_CarryMore) {
  ScenarioOptions options;
  options.bytes = 128U << 20U;
  options.lanes = 4;
  options.policy = "adaptive";
  const auto stay = run(run_collide, options);
  options.policy = "adaptive_repath";
  const auto move = run(run_collide, options);
  ASSERT_EQ(stay.size(), 1U);
  ASSERT_EQ(move.size(), 1U);
  EXPECT_EQ(value_of(stay[0], "moves"), 0);
  EXPECT_GT(value_of(move[0], "moves"), 16);
  EXPECT_GE(move[0].utilisation, stay[0].utilisation + 0.03);
  EXPECT_EQ(value_of(move[0], "dropped_packets"), 0);
}

TEST(ScenarioBlackhole, PathThatSwallows_CostsALaneAndTheRestGoesOn) {
  ScenarioOptions options;
  options.bytes = 128U << 20U;
  for (const Measurement& one : run(run_blackhole, options)) {
    EXPECT_GE(value_of(one, "lane_failures"), 1.0) << one.policy;
    EXPECT_GE(value_of(one, "replayed_bytes"), 1.0) << one.policy;
  }
}

TEST(ScenarioLinkflap, SwitchesThatKnow_CostNoLane) {
  ScenarioOptions options;
  options.bytes = 128U << 20U;
  for (const Measurement& one : run(run_linkflap, options)) {
    EXPECT_EQ(value_of(one, "lane_failures"), 0.0) << one.policy;
  }
}

TEST(ScenarioIncast, LosslessNetwork_DropsNothing) {
  ScenarioOptions options;
  options.hosts = 7;
  const auto all = run(run_incast, options);
  for (const Measurement& one : all) {
    if (value_of(one, "lossless") == 0) continue;
    EXPECT_EQ(value_of(one, "dropped_packets"), 0.0);
    EXPECT_LT(one.ratio_to_optimum, 1.05);
  }
}

TEST(ScenarioAllreduce, FlowsAndPackets_AgreeWhereNothingCollides) {
  // One leaf: no choice of ways. Packets need propagation and acknowledgements beside.
  ScenarioOptions options;
  options.hosts = 4;
  options.bytes = 32U << 20U;
  const auto packets = run(run_allreduce, options);
  options.flow_level = true;
  const auto flows = run(run_allreduce, options);
  ASSERT_EQ(flows.size(), 2U);
  for (const Measurement& one : flows) {
    const double step = value_of(one, "step_ns");
    EXPECT_LT(step, value_of(packets[0], "step_ns"));
    EXPECT_GT(step, value_of(packets[0], "step_ns") * 0.95);
  }
}

TEST(ScenarioAllreduce, FlowLevelWithoutASpine_EndsAndIsNoFaster) {
  ScenarioOptions options;
  options.flow_level = true;
  options.hosts = 64;
  const auto whole = run(run_allreduce, options);
  options.spine_fails = true;
  const auto broken = run(run_allreduce, options);
  ASSERT_EQ(whole.size(), broken.size());
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_GE(broken[i].time_ns, whole[i].time_ns);
}

TEST(ScenarioPolicy, OneThatIsAskedFor_RunsAlone) {
  ScenarioOptions options;
  options.bytes = 1U << 20U;
  options.policy = policies().front().name;
  const auto all = run(run_asym, options);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].policy, options.policy);
}

}  // namespace
}  // namespace braid::tools
