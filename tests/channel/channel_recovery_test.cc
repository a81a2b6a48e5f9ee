// Queue pairs die and are replaced; no byte is lost, doubled or leaked.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "channel/channel_bed.h"

namespace braid {
namespace {

using test::fill;
using Kind = ChannelEvent::Kind;

constexpr std::uint64_t kBytes = 1U << 20U;

class ChannelRecovery : public test::ChannelBed {
 protected:
  void prepare(ChannelOptions options = {}) {
    open();
    source = &allocate(kBytes);
    target = &allocate(kBytes, MemoryAccess::kRemoteWrite | MemoryAccess::kRemoteRead |
                                   MemoryAccess::kRemoteAtomic);
    fill(*source, 1);
    if (options.segment_bytes == ChannelOptions().segment_bytes) options.segment_bytes = 4096;
    options.exports = {target->remote()};
    join(options);
    remote = a->remote_memories()[0];
  }
  Result<Ticket> put_all() {
    return a->put(source->range(0, kBytes), remote.range(0, kBytes), {.notify = {1}});
  }
  template <typename Condition>
  bool turn_until(Condition condition, int turns = 20'000) {
    for (int i = 0; i < turns; ++i) {
      if (condition()) return true;
      turn();
    }
    return condition();
  }
  [[nodiscard]] bool all_up(const Channel& channel) const {
    for (std::uint32_t lane = 0; lane < channel.lane_count(); ++lane) {
      if (!channel.lane_stats(lane).up) return false;
    }
    return true;
  }
  std::vector<ChannelEvent> events_of(Channel& channel) {
    std::vector<ChannelEvent> out(64);
    out.resize(channel.poll_events(out));
    return out;
  }
  void expect_arrived(Result<Ticket> ticket) {
    ASSERT_TRUE(ticket);
    Completion completion;
    ASSERT_TRUE(turn_until([&] { return a->take(*ticket, completion).ok(); }))
        << a->error().text << b->error().text;
    EXPECT_TRUE(completion.status.ok()) << a->error().text;
    Notification notification;
    ASSERT_TRUE(turn_until([&] { return b->poll_notifications({&notification, 1}) == 1; }));
    EXPECT_EQ(std::memcmp(source->data(), target->data(), kBytes), 0);
    EXPECT_EQ(b->stats().duplicate_segments, 0U) << "a segment was written twice";
  }

  Memory* source = nullptr;
  Memory* target = nullptr;
  RemoteMemory remote;
};

class ChannelRecoveryLanes : public ChannelRecovery,
                             public testing::WithParamInterface<std::uint32_t> {};

// Requirement: 14
// Fault: A22, B29
TEST_P(ChannelRecoveryLanes, LaneBreaksInTheMiddleOfAPut_TheRestGoesOverTheOthersAndItComesBack) {
  ChannelOptions options;
  options.lanes = GetParam();
  options.source_ports = {50001, 50002, 50003};
  prepare(options);
  const Result<Ticket> ticket = put_all();
  a->progress(now);
  const LaneStats before = a->lane_stats(0);
  verbs.break_qp(before.qpn, IBV_WC_RETRY_EXC_ERR);
  expect_arrived(ticket);
  ASSERT_TRUE(turn_until([&] { return all_up(*a) && all_up(*b); }));
  const LaneStats after = a->lane_stats(0);
  EXPECT_EQ(after.generation, 1U);
  EXPECT_NE(after.qpn, before.qpn);
  EXPECT_NE(after.peer_qpn, before.peer_qpn);
  EXPECT_EQ(after.source_port_effective, 50002U) << "the next port, not the one that died";
  EXPECT_GT(after.replayed_segments, 0U);
  EXPECT_EQ(a->stats().lane_failures, 1U);
  EXPECT_EQ(b->stats().lane_recoveries, 1U);
  // The new queue pair carries its share, both ways.
  expect_arrived(put_all());
  EXPECT_GT(a->lane_stats(0).completed_segments, after.completed_segments);
  const std::vector<ChannelEvent> events = events_of(*a);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].kind, Kind::kLaneDown);
  EXPECT_EQ(events[0].status, Status::from_completion(IBV_WC_RETRY_EXC_ERR));
  EXPECT_EQ(events[1].kind, Kind::kLaneReplayed);
  EXPECT_EQ(events[1].segments, after.replayed_segments);
  EXPECT_EQ(events[2].kind, Kind::kLaneUp);
  EXPECT_GT(events[2].duration, Duration(0));
}

TEST_P(ChannelRecoveryLanes, LaneBreaksAtTheReceiver_TheSenderIsToldAndGoesOn) {
  ChannelOptions options;
  options.lanes = GetParam();
  prepare(options);
  const Result<Ticket> ticket = put_all();
  a->progress(now);
  verbs.break_qp(b->lane_stats(0).qpn, IBV_WC_WR_FLUSH_ERR);
  expect_arrived(ticket);
  ASSERT_TRUE(turn_until([&] { return all_up(*a) && all_up(*b); }));
}

TEST_P(ChannelRecoveryLanes, EveryLaneBreaksAtOnce_NothingIsLost) {
  ChannelOptions options;
  options.lanes = GetParam();
  prepare(options);
  const Result<Ticket> ticket = put_all();
  a->progress(now);
  for (std::uint32_t lane = 0; lane < options.lanes; ++lane) {
    verbs.break_qp((lane % 2 == 0 ? a : b)->lane_stats(lane).qpn, IBV_WC_RETRY_EXC_ERR);
  }
  expect_arrived(ticket);
}

INSTANTIATE_TEST_SUITE_P(Lanes, ChannelRecoveryLanes, testing::Values(1U, 2U, 5U, 32U, 128U));

TEST_F(ChannelRecovery, WhatArrivedBeforeTheLaneDied_IsNotSentAgain) {
  ChannelOptions options;
  options.lanes = 2;
  prepare(options);
  const Result<Ticket> ticket = put_all();
  a->progress(now);
  // Everything posted arrives, but the sender's device never says so.
  ASSERT_GT(a->lane_stats(0).posted_segments, 0U);
  verbs.lose_completions(a->lane_stats(0).qpn);
  verbs.deliver_all();
  verbs.break_qp(a->lane_stats(0).qpn, IBV_WC_RETRY_EXC_ERR);
  // Nor does it give anything back: the queue pair is destroyed when its time is up.
  ASSERT_TRUE(turn_until([&] { return a->stats().lane_recoveries == 1; }, 100'000));
  expect_arrived(ticket);
  EXPECT_EQ(a->lane_stats(0).replayed_segments, 0U);
}

TEST_F(ChannelRecovery, PathThatSwallowsEverything_IsGivenUpWhileOthersGoOn) {
  ChannelOptions options;
  options.lanes = 4;
  prepare(options);
  expect_arrived(put_all());
  verbs.hold(a->lane_stats(2).qpn, true);
  ASSERT_TRUE(put_all());
  const TimePoint begin = now;
  while (now - begin < std::chrono::milliseconds(150)) {
    turn();
    (void)a->notify({2});
  }
  EXPECT_TRUE(a->lane_stats(2).up) << "too soon";
  while (now - begin < std::chrono::milliseconds(300) && a->lane_stats(2).generation == 0) {
    turn();
    (void)a->notify({2});
    std::array<Completion, 8> completions{};
    std::array<Notification, 8> notifications{};
    (void)a->poll_completions(completions);
    (void)b->poll_notifications(notifications);
  }
  EXPECT_EQ(a->lane_stats(2).generation, 1U);
  ASSERT_TRUE(turn_until([&] { return a->drained(); }));
  EXPECT_EQ(std::memcmp(source->data(), target->data(), kBytes), 0);
  EXPECT_EQ(a->state(), ChannelState::kOpen) << a->error().text;
}

TEST_F(ChannelRecovery, ControlQueuePairBreaks_TheStreamStandsInUntilItIsReplaced) {
  ChannelOptions options;
  options.receive_depth = 4;
  options.window_segments = 16;
  prepare(options);
  const Result<Ticket> ticket = put_all();
  turn();
  // Every few rounds again, so that it is down most of the time: credits travel all the same.
  for (int i = 0; i < 20; ++i) {
    verbs.break_qp(a->stats().control_qpn, IBV_WC_RETRY_EXC_ERR);
    for (int k = 0; k < 20; ++k) turn();
  }
  expect_arrived(ticket);
  ASSERT_TRUE(turn_until([&] { return !events_of(*a).empty(); }));
  EXPECT_GT(a->stats().lane_recoveries, 0U);
  EXPECT_EQ(a->state(), ChannelState::kOpen);
}

TEST_F(ChannelRecovery, ControlQueuePairBreaksWithoutAStream_FailsTheChannel) {
  with_streams = false;
  prepare();
  verbs.break_qp(a->stats().control_qpn, IBV_WC_RETRY_EXC_ERR);
  turn();
  EXPECT_EQ(a->state(), ChannelState::kFailed);
  EXPECT_EQ(a->error().lane, -1);
}

// Requirement: 2
TEST_F(ChannelRecovery, StreamDies_TrafficAndLaneRecoveryGoOn) {
  prepare();
  turn();
  to_a->closed = to_b->closed = true;
  for (int i = 0; i < 2000; ++i) turn();
  EXPECT_EQ(a->state(), ChannelState::kOpen) << a->error().text;
  const Result<Ticket> ticket = put_all();
  a->progress(now);
  verbs.break_qp(a->lane_stats(0).qpn, IBV_WC_RETRY_EXC_ERR);
  expect_arrived(ticket);
  ASSERT_TRUE(turn_until([&] { return all_up(*a); }));
}

TEST_F(ChannelRecovery, PeerIsGoneForGood_EachOperationEndsOnceAtTheDeadline) {
  ChannelOptions options;
  options.recovery_timeout = std::chrono::seconds(3);
  prepare(options);
  const Result<Ticket> ticket = put_all();
  verbs.unplug(true);
  to_a->stuck = to_b->stuck = true;
  const TimePoint begin = now;
  Completion completion;
  while (a->state() == ChannelState::kOpen && now - begin < std::chrono::seconds(10)) {
    turn();
    now += std::chrono::milliseconds(1);
  }
  EXPECT_EQ(a->state(), ChannelState::kFailed);
  EXPECT_GE(now - begin, std::chrono::seconds(3));
  EXPECT_LE(now - begin, std::chrono::milliseconds(3100));
  for (int i = 0; i < 10; ++i) turn();
  ASSERT_TRUE(a->take(*ticket, completion).ok());
  EXPECT_EQ(completion.status, Status::from_completion(IBV_WC_RETRY_EXC_ERR));
  EXPECT_NE(a->error().text.find("recovery_timeout"), std::string::npos) << a->error().text;
}

TEST_F(ChannelRecovery, WholeNetworkGoneForFiveSeconds_TheTransferGoesOn) {
  prepare();
  const Result<Ticket> ticket = put_all();
  turn();
  verbs.unplug(true);
  to_a->stuck = to_b->stuck = true;
  const TimePoint begin = now;
  while (now - begin < std::chrono::seconds(5)) {
    turn();
    now += std::chrono::milliseconds(1);
  }
  ASSERT_EQ(a->state(), ChannelState::kOpen) << a->error().text;
  verbs.unplug(false);
  to_a->stuck = to_b->stuck = false;
  const TimePoint back = now;
  expect_arrived(ticket);
  EXPECT_LE(now - back, std::chrono::seconds(3)) << "the longest pause and a little";
}

TEST_F(ChannelRecovery, GetsOnADeadLane_GoOverTheOthers) {
  ChannelOptions options;
  options.lanes = 3;
  prepare(options);
  fill(*target, 8);
  const Result<Ticket> ticket = a->get(source->range(0, kBytes), remote.range(0, kBytes));
  a->progress(now);
  verbs.break_qp(a->lane_stats(1).qpn, IBV_WC_RETRY_EXC_ERR);
  Completion completion;
  ASSERT_TRUE(turn_until([&] { return a->take(*ticket, completion).ok(); }));
  EXPECT_TRUE(completion.status.ok());
  EXPECT_EQ(std::memcmp(source->data(), target->data(), kBytes), 0);
  EXPECT_GT(a->stats().replayed_parts, 0U);
}

TEST_F(ChannelRecovery, AtomicOnADeadLane_EndsAsUnknownAndIsNeverExecutedTwice) {
  ChannelOptions options;
  options.lanes = 1;
  prepare(options);
  std::memset(target->data(), 0, 8);
  for (const bool executed : {true, false}) {
    std::uint64_t before = 0;
    std::memcpy(&before, target->data(), 8);
    const Result<Ticket> ticket = a->fetch_add(source->range(0, 8), remote.range(0, 8), 1);
    a->progress(now);
    if (executed) {
      verbs.lose_completions(a->lane_stats(0).qpn);
      verbs.deliver_all();
    }
    verbs.break_qp(a->lane_stats(0).qpn, IBV_WC_RETRY_EXC_ERR);
    Completion completion;
    ASSERT_TRUE(turn_until([&] { return a->take(*ticket, completion).ok(); }, 100'000));
    EXPECT_EQ(completion.status.code(), StatusCode::kUnknownOutcome);
    ASSERT_TRUE(turn_until([&] { return all_up(*a) && all_up(*b); }));
    for (int i = 0; i < 100; ++i) turn();
    std::uint64_t after = 0;
    std::memcpy(&after, target->data(), 8);
    EXPECT_EQ(after - before, executed ? 1U : 0U);
  }
  EXPECT_EQ(a->state(), ChannelState::kOpen);
}

TEST_F(ChannelRecovery, SideThatDoesNotHealLeavesAtTheEnd_TheOtherStillHearsItsFarewell) {
  open();
  ChannelOptions left, right;
  right.heal = false;
  join(left, right);
  turn();
  // The farewell of b stays with its device; that of a arrives.
  verbs.hold(b->stats().control_qpn, true);
  a->close();
  b->close();
  for (int i = 0; i < 20; ++i) turn();
  EXPECT_EQ(a->state(), ChannelState::kOpen);
  // Then a finds the control queue pair dead and wants it replaced, which b does not do.
  verbs.break_qp(a->stats().control_qpn, IBV_WC_RETRY_EXC_ERR);
  EXPECT_TRUE(turn_until(
      [&] { return a->state() != ChannelState::kOpen && b->state() != ChannelState::kOpen; }));
  EXPECT_EQ(a->state(), ChannelState::kClosed) << a->error().text;
  EXPECT_EQ(b->state(), ChannelState::kClosed) << b->error().text;
}

TEST_F(ChannelRecovery, QueuePairsCannotBeMadeForAWhile_IsTriedAgain) {
  prepare();
  const Result<Ticket> ticket = put_all();
  a->progress(now);
  verbs.refuse_qps(5);
  verbs.break_qp(a->lane_stats(0).qpn, IBV_WC_RETRY_EXC_ERR);
  // A pause after each attempt, so that the segments of the lane wait that long.
  ASSERT_TRUE(turn_until([&] { return a->drained(); }, 200'000));
  expect_arrived(ticket);
  ASSERT_TRUE(turn_until([&] { return all_up(*a); }));
}

TEST_F(ChannelRecovery, LostNotificationOrder_HoldsWhateverLaneDies) {
  ChannelOptions options;
  options.lanes = 3;
  options.segment_bytes = 128;
  prepare(options);
  for (std::uint8_t round = 1; round <= 60; ++round) {
    const std::uint64_t at = 1024ULL * round;
    ASSERT_TRUE(a->put(source->range(at, 1000), remote.range(at, 1000), {.notify = {round}}));
    if (round % 7 == 0) {
      a->progress(now);
      verbs.break_qp(a->lane_stats(round % 3).qpn, IBV_WC_RETRY_EXC_ERR);
    }
    turn();
  }
  for (std::uint8_t round = 1; round <= 60; ++round) {
    Notification notification;
    ASSERT_TRUE(turn_until([&] { return b->poll_notifications({&notification, 1}) == 1; }));
    ASSERT_EQ(notification.index.value, round);
    const std::uint64_t at = 1024ULL * round;
    ASSERT_EQ(std::memcmp(source->data() + at, target->data() + at, 1000), 0);
  }
}

}  // namespace
}  // namespace braid
