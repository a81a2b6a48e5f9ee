#include <braid/sim.h>
#include <gtest/gtest.h>

#include <set>

#include "sim/routes.h"

namespace braid::sim {
namespace {

std::uint32_t index(NodeId node) { return static_cast<std::uint32_t>(node); }

/// Number of different ways from one port to another, following every choice.
std::size_t count_ways(const Routes& routes, std::uint32_t node, std::uint32_t to) {
  if (node == to) return 1;
  std::size_t ways = 0;
  for (const std::uint32_t link : routes.next_hops(node, to)) {
    ways += count_ways(routes, routes.end_of(link), to);
  }
  return ways;
}
std::size_t count_ways(const Topology& topology, std::size_t from, std::size_t to) {
  const Routes routes(topology);
  const std::uint32_t first = routes.end_of(routes.uplink(index(topology.ports()[from])));
  return count_ways(routes, first, index(topology.ports()[to]));
}

TEST(Routes, DirectPaths_AreAllUsable) {
  EXPECT_EQ(count_ways(make_direct(std::vector<LinkOptions>(5), {}), 0, 1), 5U);
}

TEST(Routes, ClosOfTwoLevels_HasOneWayPerSpineBetweenLeafsAndOneWithin) {
  ClosOptions options;
  options.hosts = 16;
  options.hosts_per_leaf = 4;
  options.spines = 3;
  const Topology topology = make_clos(options);
  EXPECT_EQ(count_ways(topology, 0, 3), 1U);
  EXPECT_EQ(count_ways(topology, 0, 4), 3U);
  EXPECT_EQ(count_ways(topology, 15, 0), 3U);
}

TEST(Routes, ClosOfThreeLevels_GoesOverTheCoresOnlyBetweenPods) {
  ClosOptions options;
  options.hosts = 16;
  options.hosts_per_leaf = 4;
  options.spines = 2;
  options.pods = 2;
  options.cores = 3;
  const Topology topology = make_clos(options);
  EXPECT_EQ(count_ways(topology, 0, 4), 2U);            // other leaf, same pod
  EXPECT_EQ(count_ways(topology, 0, 8), 2U * 3U * 2U);  // spine, core, spine
}

TEST(Routes, Rails_MeetOnlyAtTheSpines) {
  ClosOptions options;
  options.hosts = 4;
  options.rails = 2;
  options.hosts_per_leaf = 4;
  options.spines = 2;
  const Topology topology = make_clos(options);
  ASSERT_EQ(topology.ports().size(), 8U);
  EXPECT_EQ(count_ways(topology, 0, 2), 1U);  // rail 0 of hosts 0 and 1: the same leaf
  EXPECT_EQ(count_ways(topology, 0, 3), 2U);  // rail 0 to rail 1: over a spine
}

TEST(Routes, SeveralDcs_AreJoinedByEveryLongLink) {
  MultiDcOptions options;
  options.dc.hosts = 2;
  options.dc.hosts_per_leaf = 2;
  options.dc.spines = 2;
  options.dcs = 3;
  options.long_links = 2;
  const Topology topology = make_multi_dc(options);
  EXPECT_EQ(topology.ports().size(), 6U);
  EXPECT_EQ(count_ways(topology, 0, 2), 2U * 2U * 2U);
  EXPECT_EQ(count_ways(topology, 0, 1), 1U);
}

TEST(Routes, UnreachablePort_HasNoWay) {
  Topology topology;
  const NodeId a = topology.add_port(0);
  const NodeId b = topology.add_port(1);
  const NodeId s = topology.add_switch();
  const NodeId t = topology.add_switch();
  topology.connect(a, s);
  topology.connect(b, t);
  EXPECT_EQ(count_ways(topology, 0, 1), 0U);
}

}  // namespace
}  // namespace braid::sim
