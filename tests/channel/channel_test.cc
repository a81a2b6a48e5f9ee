#include <algorithm>
#include <cstring>

#include "channel/channel_bed.h"

namespace braid {
namespace {

using test::ChannelBed;
using test::fill;

class ChannelTest : public ChannelBed {
 protected:
  // Moves one put of the whole region from a to b; checks bytes, completion and notification.
  void transfer(std::uint64_t bytes, ChannelOptions options) {
    if (device == nullptr) open();
    Memory& source = allocate(bytes == 0 ? 1 : bytes);
    Memory& target = allocate(bytes == 0 ? 1 : bytes);
    fill(source, bytes + 1);
    options.exports = {target.remote()};
    join(options);
    ASSERT_EQ(a->remote_memories().size(), 1U);
    const auto ticket = a->put(source.range(0, bytes), a->remote_memories()[0].range(0, bytes),
                               {.notify = {9}, .user_data = 77});
    ASSERT_TRUE(ticket);
    Completion completion;
    Notification notification;
    bool completed = false, notified = false;
    for (int i = 0; i < 100'000 && !(completed && notified); ++i) {
      turn();
      if (a->poll_completions({&completion, 1}) == 1) completed = true;
      if (b->poll_notifications({&notification, 1}) == 1) notified = true;
    }
    ASSERT_TRUE(completed && notified) << a->error().text << b->error().text;
    EXPECT_EQ(completion.ticket, *ticket);
    EXPECT_TRUE(completion.status.ok());
    EXPECT_EQ(completion.user_data, 77U);
    EXPECT_EQ(completion.bytes, bytes);
    EXPECT_EQ(notification.id, 9U);
    EXPECT_EQ(std::memcmp(source.data(), target.data(), bytes), 0);
    EXPECT_TRUE(a->drained());
  }
};

class ChannelSizes : public ChannelTest,
                     public testing::WithParamInterface<std::tuple<std::uint32_t, std::uint64_t>> {
};

// Requirement: 19
// Fault: A17
TEST_P(ChannelSizes, OnePut_ArrivesWholeAndNotifiesOnce) {
  const auto [lanes, bytes] = GetParam();
  ChannelOptions options;
  options.lanes = lanes;
  options.segment_bytes = 4096;
  options.window_segments = 64;
  options.lane_depth = 4;
  options.receive_depth = 6;
  transfer(bytes, options);
  std::uint64_t segments = 0, sum = 0;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    const LaneStats sent = a->lane_stats(lane);
    const LaneStats received = b->lane_stats(lane);
    EXPECT_EQ(sent.completed_segments, received.received_segments);
    EXPECT_EQ(sent.completed_bytes, received.received_bytes);
    EXPECT_EQ(sent.qpn, received.peer_qpn);
    segments += sent.completed_segments;
    sum += sent.completed_bytes;
  }
  EXPECT_EQ(sum, bytes);
  EXPECT_EQ(segments, std::max<std::uint64_t>(1, (bytes + 4095) / 4096));
}

INSTANTIATE_TEST_SUITE_P(LanesAndSizes, ChannelSizes,
                         testing::Combine(testing::Values(1U, 2U, 5U, 32U, 128U),
                                          testing::Values(0ULL, 1ULL, 127ULL, 4095ULL, 4096ULL,
                                                          4097ULL, 1'000'003ULL)));

class ChannelPolicies : public ChannelTest, public testing::WithParamInterface<SchedulerPolicy> {};

TEST_P(ChannelPolicies, PutsOfAnySize_ArriveWholeAndNotifyOnce) {
  for (const std::uint64_t bytes : {0ULL, 1ULL, 127ULL, 4096ULL, 70'000ULL, 1'000'003ULL}) {
    a.reset();
    b.reset();
    memories.clear();
    ChannelOptions options;
    options.lanes = 5;
    options.policy = GetParam();
    options.segment_bytes = 8192;
    options.static_threshold_bytes = 10'000;
    transfer(bytes, options);
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(All, ChannelPolicies,
                         testing::Values(SchedulerPolicy::kStaticSplit,
                                         SchedulerPolicy::kRoundRobin, SchedulerPolicy::kDqplb,
                                         SchedulerPolicy::kAdaptive));

// Requirement: 16, 18
TEST_F(ChannelTest, StaticSplit_GivesEachLaneItsTileAndIdleLanesASegmentWithoutBytes) {
  constexpr std::uint64_t kT = 4096;
  const std::pair<std::uint64_t, std::vector<std::uint64_t>> cases[] = {
      {3, {0, 0, 0, 3}},
      {4, {4, 0, 0, 0}},
      {kT + 1, {2048, 2049, 0, 0}},
      {2 * kT, {kT, kT, 0, 0}},
      {4 * kT - 1, {4095, 4095, 4095, 4098}},
      {4 * kT + 3, {kT, kT, kT, kT + 3}}};
  for (const auto& [bytes, tiles] : cases) {
    a.reset();
    b.reset();
    memories.clear();
    ChannelOptions options;
    options.policy = SchedulerPolicy::kStaticSplit;
    options.static_threshold_bytes = kT;
    options.segment_bytes = 128;  // static split does not cut by it
    transfer(bytes, options);
    if (HasFatalFailure()) return;
    for (std::uint32_t lane = 0; lane < 4; ++lane) {
      EXPECT_EQ(b->lane_stats(lane).received_segments, 1U);
      EXPECT_EQ(b->lane_stats(lane).received_bytes, tiles[lane]) << bytes << ", lane " << lane;
    }
  }
}

// Requirement: 18
// Fault: A14
TEST_F(ChannelTest, StaticSplitBeyondWhatThePortTakesAtOnce_IsCutAndArrivesWhole) {
  verbs.max_msg_bytes = 1024;
  ChannelOptions options;
  options.policy = SchedulerPolicy::kStaticSplit;
  options.static_threshold_bytes = 4096;
  transfer(50'001, options);
  EXPECT_GT(b->lane_stats(0).received_segments, 10U);
}

// Requirement: 59
// Fault: B16
TEST_F(ChannelTest, SequenceWrapsInTheMiddleOfAPut_AtEveryOffset) {
  for (std::uint32_t before = 0; before <= 20; ++before) {
    a.reset();
    b.reset();
    memories.clear();
    first_sequence = channel::Sequence(channel::Sequence::kMask) - before;
    ChannelOptions options;
    options.lanes = 3;
    options.segment_bytes = 128;
    options.window_segments = 8;
    transfer(20 * 128, options);
    if (HasFatalFailure()) return;
  }
}

// Requirement: 19, 22
TEST_F(ChannelTest, PutsOutOfRange_AreRefusedAndNothingIsAccepted) {
  open();
  Memory& source = allocate(4096);
  Memory& target = allocate(4096);
  ChannelOptions options;
  options.exports = {target.remote()};
  join(options);
  const RemoteMemory remote = a->remote_memories()[0];
  EXPECT_TRUE(a->put(source.range(0, 4096), remote.range(0, 4096)));
  EXPECT_EQ(a->put(source.range(1, 4096), remote.range(0, 4096)).error().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(a->put(source.range(0, 4096), remote.range(1, 4096)).error().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(a->put(source.range(UINT64_MAX, 2), remote.range(0, 2)).error().code(),
            StatusCode::kNotFound);
  EXPECT_EQ(a->put(source.range(0, 1), remote.range(0, 2)).error().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(a->put(source.range(0, 1), remote.range(0, 1), {.notify = {128}}).error().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(a->notify({0}).error().code(), StatusCode::kInvalidArgument);
}

// Requirement: 4, 19
TEST_F(ChannelTest, NotifyIds_ComeFromTheReceiversTable) {
  ChannelOptions left, right;
  left.notify_ids = {11, 12, 13};
  right.notify_ids = {0xDEAD0001, 0xDEAD0002, 0xDEAD0003};
  join(left, right);
  EXPECT_TRUE(a->notify({3}));
  EXPECT_EQ(a->notify({4}).error().code(), StatusCode::kInvalidArgument);
  for (int i = 0; i < 4; ++i) turn();
  Notification notification;
  ASSERT_EQ(b->poll_notifications({&notification, 1}), 1U);
  EXPECT_EQ(notification.id, 0xDEAD0003U);
}

TEST_F(ChannelTest, OperationTableFull_IsWouldBlock_UntilCompletionsArePolled) {
  ChannelOptions options;
  options.operation_capacity = 2;
  join(options);
  EXPECT_TRUE(a->notify({1}));
  EXPECT_TRUE(a->notify({1}));
  EXPECT_EQ(a->notify({1}).error().code(), StatusCode::kWouldBlock);
  for (int i = 0; i < 4; ++i) turn();
  EXPECT_EQ(a->notify({1}).error().code(), StatusCode::kWouldBlock);
  Completion completion;
  EXPECT_EQ(a->poll_completions({&completion, 1}), 1U);
  EXPECT_TRUE(a->notify({1}));
}

TEST_F(ChannelTest, ReceiverThatStopsPolling_IsNeverOverrun) {
  ChannelOptions options;
  options.lanes = 3;
  options.receive_depth = 4;
  options.window_segments = 64;
  join(options);
  std::uint64_t accepted = 0;
  Completion completion;
  for (int i = 0; i < 500; ++i) {  // b never progresses; TearDown checks that RNR stayed 0
    if (a->notify({1})) ++accepted;
    now += std::chrono::microseconds(10);
    a->progress(now);
    verbs.deliver_all();
    while (a->poll_completions({&completion, 1}) == 1) continue;
  }
  EXPECT_GT(a->stats().credit_stalls, 0U);
  std::uint64_t notified = 0;
  Notification notification;
  for (int i = 0; i < 2000; ++i) {
    turn();
    while (a->poll_completions({&completion, 1}) == 1) continue;
    while (b->poll_notifications({&notification, 1}) == 1) ++notified;
  }
  EXPECT_EQ(notified, accepted);
}

TEST_F(ChannelTest, OneLaneHeld_OthersGoOnUntilTheWindowAndRecoverAfter) {
  open();
  Memory& source = allocate(1U << 20U);
  Memory& target = allocate(1U << 20U);
  fill(source, 3);
  ChannelOptions options;
  options.segment_bytes = 1024;
  options.window_segments = 32;
  options.exports = {target.remote()};
  join(options);
  verbs.hold(a->lane_stats(2).qpn, true);
  ASSERT_TRUE(a->put(source.range(0, 1U << 20U), a->remote_memories()[0].range(0, 1U << 20U),
                     {.notify = {1}}));
  for (int i = 0; i < 200; ++i) turn();
  EXPECT_EQ(a->lane_stats(2).completed_segments, 0U);
  EXPECT_LT(b->stats().reorder_high_water, 32U);
  EXPECT_GT(a->stats().window_stalls, 0U);
  Notification notification;
  EXPECT_EQ(b->poll_notifications({&notification, 1}), 0U);
  verbs.hold(a->lane_stats(2).qpn, false);
  for (int i = 0; i < 500; ++i) turn();
  EXPECT_EQ(b->poll_notifications({&notification, 1}), 1U);
  EXPECT_EQ(std::memcmp(source.data(), target.data(), 1U << 20U), 0);
}

// Requirement: 23
// Fault: A8
TEST_F(ChannelTest, FullSendQueue_RestIsPostedLaterInOrder) {
  open();
  Memory& source = allocate(1U << 18U);
  Memory& target = allocate(1U << 18U);
  fill(source, 4);
  ChannelOptions options;
  options.lanes = 2;
  options.segment_bytes = 1024;
  options.exports = {target.remote()};
  join(options);
  verbs.refuse_posts(9);
  ASSERT_TRUE(a->put(source.range(0, 1U << 18U), a->remote_memories()[0].range(0, 1U << 18U),
                     {.notify = {1}}));
  for (int i = 0; i < 300; ++i) turn();
  Notification notification;
  EXPECT_EQ(b->poll_notifications({&notification, 1}), 1U);
  EXPECT_EQ(std::memcmp(source.data(), target.data(), 1U << 18U), 0);
  EXPECT_EQ(a->stats().unknown_completions, 0U);
}

TEST_F(ChannelTest, IdleChannel_StaysOpenForHours) {
  join(ChannelOptions{});
  for (int i = 0; i < 10'000; ++i) {
    now += std::chrono::seconds(1);
    turn();
  }
  EXPECT_EQ(a->state(), ChannelState::kOpen);
  EXPECT_EQ(b->state(), ChannelState::kOpen);
  EXPECT_GT(b->stats().keepalives, 1000U);
}

// Fault: A28
TEST_F(ChannelTest, Close_WaitsForWorkUnderWayAndEndsOnBothSides) {
  join(ChannelOptions{});
  for (int i = 0; i < 20; ++i) ASSERT_TRUE(a->notify({1}));
  a->close();
  EXPECT_EQ(a->notify({1}).error().code(), StatusCode::kAborted);
  std::size_t notified = 0;
  Notification notification;
  for (int i = 0; i < 20; ++i) turn();
  EXPECT_TRUE(b->peer_closed());
  while (b->poll_notifications({&notification, 1}) == 1) ++notified;
  EXPECT_EQ(notified, 20U);
  EXPECT_EQ(a->state(), ChannelState::kOpen);  // b may still have something to say
  ASSERT_TRUE(b->notify({5}));
  b->close();
  for (int i = 0; i < 20; ++i) turn();
  EXPECT_EQ(a->poll_notifications({&notification, 1}), 1U);
  EXPECT_EQ(a->state(), ChannelState::kClosed);
  EXPECT_EQ(b->state(), ChannelState::kClosed);
}

// Fault: A10, B11
TEST_F(ChannelTest, CompletionQueueSmallerThanAsked_LowersTheDepths) {
  verbs.max_cqe = 96 + 4 * 5;
  verbs.max_msg_bytes = 5000;
  open();
  ChannelOptions options;
  std::string why;
  ASSERT_TRUE(resolve_options(*device->core(), options, why).ok());
  EXPECT_EQ(options.read_depth, 2U);
  EXPECT_EQ(options.lane_depth, 3U);
  EXPECT_EQ(options.receive_depth, 5U);
  EXPECT_EQ(options.segment_bytes, 4992U);
  join(options);
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(a->notify({1}));
    turn();
  }
  EXPECT_EQ(a->state(), ChannelState::kOpen);
}

TEST_F(ChannelTest, OptionsOutOfRange_AreNamedWithTheirLimits) {
  open();
  auto refused = [&](auto change, const char* name) {
    ChannelOptions options;
    change(options);
    std::string why;
    const bool bad = !resolve_options(*device->core(), options, why).ok();
    EXPECT_EQ(bad, why.find(name) != std::string::npos) << why;
    return bad;
  };
  EXPECT_FALSE(refused([](auto& o) { o.lanes = 128; }, "lanes"));
  EXPECT_TRUE(refused([](auto& o) { o.lanes = 129; }, "lanes"));
  EXPECT_TRUE(refused([](auto& o) { o.lanes = 0; }, "lanes"));
  EXPECT_FALSE(refused([](auto& o) { o.segment_bytes = 1U << 30U; }, "segment_bytes"));
  EXPECT_TRUE(refused([](auto& o) { o.segment_bytes = (1U << 30U) + 1; }, "segment_bytes"));
  EXPECT_TRUE(refused([](auto& o) { o.segment_bytes = 127; }, "segment_bytes"));
  EXPECT_TRUE(refused([](auto& o) { o.window_segments = 100; }, "window_segments"));
  EXPECT_FALSE(refused([](auto& o) { o.window_segments = 1U << 20U; }, "window_segments"));
  EXPECT_TRUE(refused([](auto& o) { o.window_segments = 1U << 21U; }, "window_segments"));
  EXPECT_TRUE(refused([](auto& o) { o.retry_count = 8; }, "retry_count"));
  EXPECT_TRUE(refused([](auto& o) { o.rnr_retry_count = 7; }, "rnr_retry_count"));
  EXPECT_TRUE(refused([](auto& o) { o.path_mtu_bytes = 1500; }, "path_mtu_bytes"));
  EXPECT_FALSE(refused([](auto& o) { o.path_mtu_bytes = 4096; }, "path_mtu_bytes"));
}

// Requirement: 10, 13
// Fault: A27
TEST_F(ChannelTest, SourcePorts_CycleOverTheLanesAndAreReported) {
  ChannelOptions options;
  options.lanes = 5;
  options.source_ports = {50000, 50010};
  join(options);
  for (std::uint32_t lane = 0; lane < 5; ++lane) {
    EXPECT_EQ(a->lane_stats(lane).source_port_requested, lane % 2 == 0 ? 50000 : 50010);
    EXPECT_EQ(a->lane_stats(lane).source_port_effective, lane % 2 == 0 ? 50000 : 50010);
  }
}

// Fault: B23
TEST_F(ChannelTest, PathMtuLimit_TheSmallerSideHolds) {
  ChannelOptions left, right;
  left.path_mtu_bytes = 2048;
  join(left, right);
  EXPECT_EQ(a->options().path_mtu_bytes, 2048U);
  EXPECT_EQ(b->options().path_mtu_bytes, 2048U);
}

}  // namespace
}  // namespace braid
