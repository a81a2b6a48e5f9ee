// Whole channels over the simulated fabric.
#include <cstring>

#include "sim/sim_bed.h"

namespace braid::sim {
namespace {

using testing::kGbit;

class SimChannel : public testing::SimBed {
 protected:
  /// One put of `bytes` over four paths 1 : 1 : 1 : 1/4; returns the digest of the run.
  std::uint64_t put_once(std::uint64_t seed, const LinkFaults& faults = {}) {
    std::vector<LinkOptions> paths(4);
    paths[3].rate_bits_per_s = 25 * kGbit;
    LinkOptions nic;
    nic.rate_bits_per_s = 400 * kGbit;
    FabricOptions options;
    options.seed = seed;
    const Topology topology = make_direct(paths, nic);
    build(topology, options);
    if (HasFatalFailure()) return 0;
    for (std::uint32_t i = 0; i < 4; ++i) {
      fabric->set_faults(LinkId(i), true, faults);
      fabric->set_faults(LinkId(i), false, faults);
    }
    allocate(kBytes);
    ChannelOptions channel_options = testing::lanes_on_paths(4);
    channel_options.segment_bytes = 64U << 10U;
    channel_options.ack_timeout_exponent = 8;
    join(channel_options);
    if (HasFatalFailure()) return 0;
    Channel& from = *ends[0]->channel;
    EXPECT_TRUE(from.put(memories[0]->range(0, kBytes), from.remote_memories()[0].range(0, kBytes),
                         {.notify = {7}, .user_data = 99}));
    ends[0]->on_wake(fabric->now());
    EXPECT_TRUE(run([&] {
      return !ends[0]->completions.empty() && !ends[1]->notifications.empty();
    })) << from.error().text
        << ends[1]->channel->error().text;
    return fabric->audit_hash();
  }
  static constexpr std::uint64_t kBytes = 4U << 20U;
};

// Requirement: 12, 13
TEST_F(SimChannel, PutOverFourUnequalPaths_CompletesOnceWithBytesEqual) {
  put_once(1);
  ASSERT_EQ(ends[0]->completions.size(), 1U);
  EXPECT_TRUE(ends[0]->completions[0].status.ok());
  EXPECT_EQ(ends[0]->completions[0].user_data, 99U);
  EXPECT_EQ(ends[1]->notifications, std::vector<std::uint32_t>{7});
  EXPECT_EQ(std::memcmp(memories[0]->data(), memories[1]->data(), kBytes), 0);
  // Each lane had its own path.
  for (std::uint32_t i = 0; i < 4; ++i) {
    EXPECT_GT(fabric->link_counters(LinkId(i), true).bytes, kBytes / 16) << "path " << i;
  }
}

TEST_F(SimChannel, SameSeed_SameDigest) {
  const std::uint64_t first = put_once(5, {.drop_ppm = 2000, .reorder_ppm = 2000});
  TearDown();
  const std::uint64_t second = put_once(5, {.drop_ppm = 2000, .reorder_ppm = 2000});
  EXPECT_EQ(first, second);
}

TEST_F(SimChannel, OtherSeed_OtherDigest) {
  const std::uint64_t first = put_once(5, {.drop_ppm = 2000});
  TearDown();
  EXPECT_NE(first, put_once(6, {.drop_ppm = 2000}));
}

// Requirement: 12
TEST_F(SimChannel, EveryRandomFaultAtOnce_BytesEqual) {
  put_once(3, {.drop_ppm = 3000,
               .duplicate_ppm = 3000,
               .corrupt_ppm = 3000,
               .reorder_ppm = 3000,
               .spike_ppm = 1000});
  ASSERT_EQ(ends[0]->completions.size(), 1U);
  EXPECT_TRUE(ends[0]->completions[0].status.ok());
  EXPECT_EQ(std::memcmp(memories[0]->data(), memories[1]->data(), kBytes), 0);
}

TEST_F(SimChannel, PathRates_DecideTheTime) {
  // 325 Gb/s in all: nothing can be faster, and losing the slow path's share for good is a bug.
  put_once(1);
  const auto ns = ends[1]->notified_at.time_since_epoch().count();
  EXPECT_GT(ns, static_cast<std::int64_t>(kBytes * 8 * 1'000 / 325'000));
}

TEST_F(SimChannel, BlackHoleOnAPath_TheOtherPathCarriesAll) {
  std::vector<LinkOptions> paths(2);
  build(make_direct(paths, {}));
  allocate(1U << 20U);
  ChannelOptions options = testing::lanes_on_paths(2);
  options.ack_timeout_exponent = 6;
  join(options);
  ASSERT_TRUE(fabric->schedule({.at = fabric->now(), .kind = FaultKind::kBlackHole}).ok());
  Channel& from = *ends[0]->channel;
  ASSERT_TRUE(
      from.put(memories[0]->range(0, 1U << 20U), from.remote_memories()[0].range(0, 1U << 20U)));
  ends[0]->on_wake(fabric->now());
  ASSERT_TRUE(run([&] { return !ends[0]->completions.empty(); }));
  run([] { return false; }, std::chrono::milliseconds(50));
  ASSERT_EQ(ends[0]->completions.size(), 1U);
  EXPECT_TRUE(ends[0]->completions[0].status.ok());
  EXPECT_EQ(std::memcmp(memories[0]->data(), memories[1]->data(), 1U << 20U), 0);
  EXPECT_GT(from.stats().lane_failures, 0U);
}

TEST(SimDevice, NodeThatIsNoPort_IsRefused) {
  const Topology topology = make_direct({LinkOptions{}}, {});
  auto fabric = Fabric::create(topology, {});
  ASSERT_TRUE(fabric);
  std::string why;
  const auto device = open_device(*fabric, NodeId(2), &why);
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(why.find("node 2"), std::string::npos);
}

TEST(SimDevice, OpenedTwice_IsRefused) {
  const Topology topology = make_direct({LinkOptions{}}, {});
  auto fabric = Fabric::create(topology, {});
  ASSERT_TRUE(fabric);
  const auto first = open_device(*fabric, topology.ports()[0]);
  ASSERT_TRUE(first);
  std::string why;
  EXPECT_FALSE(open_device(*fabric, topology.ports()[0], &why));
  EXPECT_EQ(why, "sim0 is open already");
}

TEST(SimDevice, OptionsThatDisagree_AreRefusedWithBothNumbers) {
  const Topology topology = make_direct({LinkOptions{}}, {});
  auto fabric = Fabric::create(topology, {});
  ASSERT_TRUE(fabric);
  const auto first = open_device(*fabric, topology.ports()[0]);
  const auto second = open_device(*fabric, topology.ports()[1]);
  ASSERT_TRUE(first && second);
  ChannelOptions two, three;
  two.lanes = 2;
  three.lanes = 3;
  std::string why;
  EXPECT_FALSE(connect(*fabric, *first, two, *second, three, {}, &why));
  EXPECT_NE(why.find('2'), std::string::npos) << why;
  EXPECT_NE(why.find('3'), std::string::npos) << why;
}

}  // namespace
}  // namespace braid::sim
