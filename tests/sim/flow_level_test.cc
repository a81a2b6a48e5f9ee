#include "sim/flow_level.h"

#include <gtest/gtest.h>

namespace braid::sim {
namespace {

constexpr std::uint64_t kGbit = 1'000'000'000;
constexpr std::uint64_t kBytes = 125'000'000;  // 1 Gbit

Topology four_paths() {
  std::vector<LinkOptions> paths(4);
  paths[3].rate_bits_per_s = 25 * kGbit;
  LinkOptions nic;
  nic.rate_bits_per_s = 400 * kGbit;
  return make_direct(paths, nic);
}
const std::vector<std::uint16_t> kPorts{50'400, 50'401, 50'402, 50'403};

void expect_near(std::int64_t actual_ns, double expected_ns) {
  // Ends less than a ten-thousandth apart are taken together.
  EXPECT_NEAR(static_cast<double>(actual_ns), expected_ns, expected_ns * 0.0011);
}

TEST(FlowLevel, PooledOverUnequalPaths_TakesTheSumOfTheRates) {
  const Topology topology = four_paths();
  FlowLevel level(topology, 1);
  const std::uint32_t group = level.add(topology.ports()[0], topology.ports()[1], kPorts, kBytes,
                                        FlowLevel::Split::kPooled);
  level.run();
  expect_near(level.end_ns(group), 1e9 / 325);
}

TEST(FlowLevel, EvenOverUnequalPaths_WaitsForTheSlowest) {
  const Topology topology = four_paths();
  FlowLevel level(topology, 1);
  const std::uint32_t group =
      level.add(topology.ports()[0], topology.ports()[1], kPorts, kBytes, FlowLevel::Split::kEven);
  level.run();
  expect_near(level.end_ns(group), 1e9 / 4 / 25);
}

TEST(FlowLevel, TwoGroupsOnALink_ShareItAndTheLongerThenHasItAlone) {
  const Topology topology = make_direct({LinkOptions{}}, LinkOptions{});
  FlowLevel level(topology, 1);
  const auto add = [&](std::uint64_t bytes) {
    return level.add(topology.ports()[0], topology.ports()[1], {50'400}, bytes,
                     FlowLevel::Split::kPooled);
  };
  const std::uint32_t small = add(kBytes);
  const std::uint32_t large = add(3 * kBytes);
  level.run();
  expect_near(level.end_ns(small), 2e9 / 100);
  expect_near(level.end_ns(large), 4e9 / 100);
}

TEST(FlowLevel, FlowHeldBackElsewhere_LeavesItsShareToTheOthers) {
  // a and b share b's cable at 100; a is held to 10 by its own.
  Topology topology;
  const NodeId a = topology.add_port(0), b = topology.add_port(1), c = topology.add_port(2);
  const NodeId hub = topology.add_switch();
  LinkOptions slow;
  slow.rate_bits_per_s = 10 * kGbit;
  topology.connect(a, hub, slow);
  topology.connect(b, hub);
  topology.connect(c, hub);
  FlowLevel level(topology, 1);
  const std::uint32_t from_a = level.add(a, c, {50'000}, kBytes, FlowLevel::Split::kPooled);
  const std::uint32_t from_b = level.add(b, c, {50'000}, kBytes, FlowLevel::Split::kPooled);
  level.run();
  expect_near(level.end_ns(from_a), 1e9 / 10);
  expect_near(level.end_ns(from_b), 1e9 / 90);
}

TEST(FlowLevel, NoWayLeft_NeverEnds) {
  const Topology topology = make_direct({LinkOptions{}}, LinkOptions{});
  FlowLevel level(topology, 1);
  level.remove_link(LinkId(0));
  const std::uint32_t group = level.add(topology.ports()[0], topology.ports()[1], {50'400}, kBytes,
                                        FlowLevel::Split::kPooled);
  level.run();
  EXPECT_EQ(level.end_ns(group), INT64_MAX);
}

}  // namespace
}  // namespace braid::sim
