#include <algorithm>
#include <cstring>

#include "base/random.h"
#include "channel/channel_bed.h"

namespace braid {
namespace {

using test::ChannelBed;

void fill(Memory& memory, std::uint64_t seed) {
  Random random(seed);
  for (std::uint64_t i = 0; i < memory.bytes(); ++i) {
    memory.data()[i] = static_cast<std::byte>(random.next() & 0xFFU);
  }
}

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

TEST_F(ChannelTest, ManyPutsBothWaysInAnyDeliveryOrder_BytesAndOrderHold) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    a.reset();
    b.reset();
    memories.clear();
    open();
    Random random(seed);
    constexpr std::uint64_t kBytes = 1U << 18U;
    Memory& a_source = allocate(kBytes);
    Memory& a_target = allocate(kBytes);
    Memory& b_source = allocate(kBytes);
    Memory& b_target = allocate(kBytes);
    fill(a_source, seed);
    fill(b_source, seed + 100);
    ChannelOptions left, right;
    left.lanes = right.lanes = static_cast<std::uint32_t>(1 + seed % 6);
    left.segment_bytes = 1024;
    right.segment_bytes = 640;  // each side cuts as it likes
    left.window_segments = 16;
    right.window_segments = 256;
    left.lane_depth = 3;
    left.receive_depth = 5;
    right.receive_depth = 9;
    left.exports = {a_target.remote()};
    right.exports = {b_target.remote()};
    join(left, right);
    struct Direction {
      Channel* from;
      Channel* to;
      Memory* source;
      Memory* target;
      std::uint64_t sent = 0;
      std::vector<std::uint64_t> ends;  // of the puts with notification
      std::size_t notified = 0;
    } ways[2] = {{a.get(), b.get(), &a_source, &b_target, 0, {}, 0},
                 {b.get(), a.get(), &b_source, &a_target, 0, {}, 0}};
    auto done = [&](const Direction& way) {
      return way.sent == kBytes && way.notified == way.ends.size();
    };
    for (int i = 0; i < 1'000'000 && !(done(ways[0]) && done(ways[1])); ++i) {
      Direction& way = ways[random.below(2)];
      now += std::chrono::microseconds(1);
      switch (random.below(5)) {
        case 0: {
          const std::uint64_t bytes = std::min(kBytes - way.sent, random.below(9000));
          if (way.sent == kBytes) break;
          const bool last = way.sent + bytes == kBytes;
          const auto notify =
              static_cast<std::uint8_t>(last ? 1 : random.below(2) * (1 + way.ends.size() % 127));
          if (!way.from->put(way.source->range(way.sent, bytes),
                             way.from->remote_memories()[0].range(way.sent, bytes),
                             {.notify = {notify}})) {
            break;
          }
          way.sent += bytes;
          if (notify != 0) way.ends.push_back(way.sent);
          break;
        }
        case 1: way.from->progress(now); break;
        case 2: way.to->progress(now); break;
        case 3: {
          for (std::uint64_t k = random.below(20); k > 0 && verbs.deliver_one(random); --k)
            continue;
          break;
        }
        default: {
          std::array<Completion, 4> completions{};
          const std::size_t count = way.from->poll_completions(completions);
          for (std::size_t k = 0; k < count; ++k) ASSERT_TRUE(completions[k].status.ok());
          Notification notification;
          if (way.to->poll_notifications({&notification, 1}) == 0) break;
          const std::uint64_t visible = way.ends.at(way.notified++);
          ASSERT_EQ(std::memcmp(way.source->data(), way.target->data(), visible), 0);
        }
      }
    }
    ASSERT_TRUE(done(ways[0]) && done(ways[1])) << "seed " << seed << a->error().text;
    ASSERT_LT(a->stats().reorder_high_water, 16U);
    ASSERT_EQ(a->stats().duplicate_segments + a->stats().unknown_completions, 0U);
  }
}

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

TEST_F(ChannelTest, LaneBreaks_EveryOperationEndsOnceAndTheErrorNamesBothEnds) {
  open();
  Memory& source = allocate(1U << 20U);
  Memory& target = allocate(1U << 20U);
  ChannelOptions options;
  options.segment_bytes = 4096;
  options.exports = {target.remote()};
  options.source_ports = {50001, 50002};
  join(options);
  std::vector<std::uint64_t> tickets;
  for (int i = 0; i < 10; ++i) {
    tickets.push_back(
        a->put(source.range(0, 1U << 20U), a->remote_memories()[0].range(0, 1U << 20U))->value);
  }
  a->progress(now);
  const LaneStats lane = a->lane_stats(1);
  verbs.break_qp(lane.qpn, IBV_WC_RETRY_EXC_ERR);
  std::vector<std::uint64_t> ended;
  std::array<Completion, 3> completions{};
  for (int i = 0; i < 20; ++i) {
    turn();
    const std::size_t count = a->poll_completions(completions);
    for (std::size_t k = 0; k < count; ++k) {
      EXPECT_EQ(completions[k].status, Status::from_completion(IBV_WC_RETRY_EXC_ERR));
      ended.push_back(completions[k].ticket.value);
    }
  }
  std::sort(ended.begin(), ended.end());
  std::sort(tickets.begin(), tickets.end());
  EXPECT_EQ(ended, tickets);
  EXPECT_EQ(a->state(), ChannelState::kFailed);
  const ChannelError& error = a->error();
  EXPECT_EQ(error.lane, 1);
  EXPECT_EQ(error.qpn, lane.qpn);
  EXPECT_EQ(error.peer_qpn, lane.peer_qpn);
  EXPECT_EQ(error.source_port, 50002U);
  for (const std::string& part :
       {std::string("lane 1"), std::to_string(lane.qpn), std::to_string(lane.peer_qpn),
        std::string("loop0"), std::string("10.0.0.1"), std::string("12")}) {
    EXPECT_NE(error.text.find(part), std::string::npos) << part << " not in: " << error.text;
  }
  EXPECT_EQ(a->notify({1}).error(), error.status);
}

TEST_F(ChannelTest, WriteBeyondWhatWasExported_FailsBothSides) {
  open();
  Memory& source = allocate(4096);
  Memory& target = allocate(4096);
  join(ChannelOptions{});
  const RemoteMemory forged(target.remote().address() + 1, 4096, target.remote().rkey());
  ASSERT_TRUE(a->put(source.range(0, 4096), forged.range(0, 4096)));
  for (int i = 0; i < 5; ++i) turn();
  EXPECT_EQ(a->state(), ChannelState::kFailed);
  EXPECT_EQ(a->error().status, Status::from_completion(IBV_WC_REM_ACCESS_ERR));
  EXPECT_EQ(b->state(), ChannelState::kFailed);
}

TEST_F(ChannelTest, CompletionThatNeverComes_FailsAfterTheSegmentTimeout) {
  ChannelOptions options;
  options.keepalive_interval = Duration(0);
  options.segment_timeout = std::chrono::seconds(2);
  join(options);
  for (std::uint32_t lane = 0; lane < 4; ++lane) verbs.hold(a->lane_stats(lane).qpn, true);
  a->progress(now);
  ASSERT_TRUE(a->notify({1}));
  a->progress(now);
  now += std::chrono::seconds(2);
  a->progress(now);
  EXPECT_EQ(a->state(), ChannelState::kOpen);
  now += Duration(1);
  a->progress(now);
  EXPECT_EQ(a->state(), ChannelState::kFailed);
  EXPECT_EQ(a->error().status.code(), StatusCode::kTimeout);
  a->progress(now);
  Completion completion;
  EXPECT_EQ(a->poll_completions({&completion, 1}), 1U);
}

TEST_F(ChannelTest, SilentPeerDies_TheKeepaliveNoticesOnTheReceivingSide) {
  join(ChannelOptions{});
  turn();
  a.reset();  // no farewell: its queue pairs are simply gone
  now += std::chrono::milliseconds(999);
  turn();
  EXPECT_EQ(b->state(), ChannelState::kOpen);
  now += std::chrono::milliseconds(2);
  turn();
  turn();
  EXPECT_EQ(b->state(), ChannelState::kFailed);
  EXPECT_EQ(b->error().lane, -1);
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

TEST_F(ChannelTest, CompletionQueueSmallerThanAsked_LowersTheDepths) {
  verbs.max_cqe = 64 + 4 * 5;
  verbs.max_msg_bytes = 5000;
  open();
  ChannelOptions options;
  std::string why;
  ASSERT_TRUE(resolve_options(*device->core(), options, why).ok());
  EXPECT_EQ(options.lane_depth, 5U);
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
  EXPECT_TRUE(refused([](auto& o) { o.retry_count = 7; }, "retry_count"));
  EXPECT_TRUE(refused([](auto& o) { o.rnr_retry_count = 7; }, "rnr_retry_count"));
  EXPECT_TRUE(refused([](auto& o) { o.path_mtu_bytes = 1500; }, "path_mtu_bytes"));
  EXPECT_FALSE(refused([](auto& o) { o.path_mtu_bytes = 4096; }, "path_mtu_bytes"));
}

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

TEST_F(ChannelTest, PathMtuLimit_TheSmallerSideHolds) {
  ChannelOptions left, right;
  left.path_mtu_bytes = 2048;
  join(left, right);
  EXPECT_EQ(a->options().path_mtu_bytes, 2048U);
  EXPECT_EQ(b->options().path_mtu_bytes, 2048U);
}

}  // namespace
}  // namespace braid
