// Every way in which a channel fails: each operation ends once, and the error names both ends.
#include <algorithm>
#include <array>
#include <vector>

#include "channel/channel_bed.h"

namespace braid {
namespace {

class ChannelFailure : public test::ChannelBed {};

// Requirement: 39
// Fault: B18
TEST_F(ChannelFailure, LaneBreaks_EveryOperationEndsOnceAndTheErrorNamesBothEnds) {
  open();
  Memory& source = allocate(1U << 20U);
  Memory& target = allocate(1U << 20U);
  ChannelOptions options;
  options.segment_bytes = 4096;
  options.exports = {target.remote()};
  options.source_ports = {50001, 50002};
  options.heal = false;
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

TEST_F(ChannelFailure, SegmentsThatAFullQueueHeldBack_EndWithTheirOperationAtOnce) {
  ChannelOptions options;
  options.heal = false;
  join(options);
  verbs.refuse_posts(1000);
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(a->notify({1}));
  a->progress(now);
  verbs.break_qp(a->lane_stats(0).qpn, IBV_WC_GENERAL_ERR);
  std::size_t ended = 0;
  Completion completion;
  for (int i = 0; i < 10; ++i) {  // 100 us, far below the time that flushing may take
    turn();
    while (a->poll_completions({&completion, 1}) == 1) {
      EXPECT_EQ(completion.status, Status::from_completion(IBV_WC_GENERAL_ERR));
      ++ended;
    }
  }
  EXPECT_EQ(ended, 40U);
  EXPECT_EQ(a->stats().unknown_completions, 0U);
}

TEST_F(ChannelFailure, WriteBeyondWhatWasExported_FailsBothSides) {
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

// Fault: A22
TEST_F(ChannelFailure, CompletionThatNeverComes_FailsAfterTheSegmentTimeout) {
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

// Fault: A28
TEST_F(ChannelFailure, SilentPeerDies_TheKeepaliveNoticesOnTheReceivingSide) {
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

}  // namespace
}  // namespace braid
