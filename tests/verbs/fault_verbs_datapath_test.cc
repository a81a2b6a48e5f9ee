#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "verbs/fault_bed.h"

namespace braid::verbs {
namespace {

using FaultVerbsPost = FaultBed;
using FaultVerbsPoll = FaultBed;

TEST_F(FaultVerbsPost, FaultInTheMiddleOfAChain_EarlierStandLaterDoNot) {
  start({});
  api->script().add({.point = FaultPoint::kPostSend, .first = 3, .error = ENOMEM});
  EXPECT_EQ(send(qps[0], {1, 2, 3, 4}, ENOMEM), 3U);
  EXPECT_EQ(fake.sent(), Ids({1, 2}));
  EXPECT_EQ(send(qps[0], {3, 4}), 0U);  // what a caller does next
  EXPECT_EQ(ids(poll()), Ids({1, 2, 3, 4}));
}

TEST_F(FaultVerbsPost, FaultAtTheHead_NothingPosted) {
  start({});
  api->script().add({.point = FaultPoint::kPostSend, .error = EINVAL});
  EXPECT_EQ(send(qps[0], {1, 2}, EINVAL), 1U);
  EXPECT_TRUE(fake.sent().empty());
}

TEST_F(FaultVerbsPost, DeviceRefusesEarlier_TheDevicesErrorWins) {
  start({});
  api->script().add({.point = FaultPoint::kPostSend, .first = 2, .error = ENOMEM});
  ASSERT_TRUE(to_reset(*api, qps[0]).ok());
  EXPECT_EQ(send(qps[0], {1, 2}, EINVAL), 1U);
}

TEST_F(FaultVerbsPost, ReceiveChain_BadWrNamed) {
  start({});
  api->script().add({.point = FaultPoint::kPostReceive, .first = 2, .error = ENOMEM});
  EXPECT_EQ(receive(qps[0], {1, 2, 3}, ENOMEM), 2U);
  ibv_qp* inner = FaultVerbs::inner_of(qps[0]);
  EXPECT_TRUE(fake.complete_receive(inner, IBV_WC_RECV, 5, 0));
  EXPECT_FALSE(fake.complete_receive(inner, IBV_WC_RECV, 5, 0));
  EXPECT_EQ(ids(poll()), Ids({1}));
}

TEST_F(FaultVerbsPost, OneQpOnly_OthersUntouched) {
  start({}, 2);
  api->script().add({.point = FaultPoint::kPostSend, .qp_ordinal = 2, .first = 2, .error = ENOMEM});
  send(qps[0], {1, 2, 3});
  EXPECT_EQ(send(qps[1], {11, 12}, ENOMEM), 12U);
}

TEST_F(FaultVerbsPost, QpToErrorMidChain_RestFlushes) {
  start({});
  receive(qps[0], {100});
  api->script().add(
      {.point = FaultPoint::kPostSend, .action = FaultAction::kQpToError, .first = 2});
  EXPECT_EQ(send(qps[0], {1, 2, 3}), 0U);
  const std::vector<ibv_wc> completions = poll();
  ASSERT_EQ(ids(completions), Ids({1, 2, 100, 3}));
  EXPECT_EQ(completions[1].status, IBV_WC_SUCCESS);
  EXPECT_EQ(completions[2].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(completions[3].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(api->refused_count(), 0U);
}

TEST_F(FaultVerbsPoll, Swallow_NeverComesAndOthersDo) {
  start({});
  api->script().add(
      {.point = FaultPoint::kCompletion, .action = FaultAction::kSwallow, .first = 2});
  send(qps[0], {1, 2, 3});
  EXPECT_EQ(ids(poll()), Ids({1, 3}));
  EXPECT_TRUE(poll().empty());
}

TEST_F(FaultVerbsPoll, SwallowThenDestroy_NothingLeftBehind) {
  start({}, 2);
  api->script().add({.point = FaultPoint::kCompletion, .action = FaultAction::kSwallow});
  send(qps[0], {1});
  EXPECT_TRUE(poll().empty());
  ASSERT_EQ(api->destroy_qp(qps[0]), 0);
  qps.erase(qps.begin());
  send(qps[0], {2});
  EXPECT_EQ(ids(poll()), Ids({2}));
}

TEST_F(FaultVerbsPoll, Delay_ComesAfterThatManyPolls) {
  start({});
  api->script().add(
      {.point = FaultPoint::kCompletion, .action = FaultAction::kDelay, .delay_polls = 2});
  send(qps[0], {1});
  EXPECT_TRUE(poll().empty());
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(ids(poll()), Ids({1}));
}

TEST_F(FaultVerbsPoll, DelayKeepingQpOrder_LaterOfSameQpWaitOthersPass) {
  start({}, 2);
  api->script().add({.point = FaultPoint::kCompletion,
                     .action = FaultAction::kDelay,
                     .qp_ordinal = 1,
                     .delay_polls = 1});
  send(qps[0], {1, 2});
  send(qps[1], {11});
  EXPECT_EQ(ids(poll()), Ids({11}));
  EXPECT_EQ(api->held_count(cq), 2U);
  EXPECT_EQ(ids(poll()), Ids({1, 2}));
}

TEST_F(FaultVerbsPoll, Reorder_ContentPreserved) {
  start({}, 2);
  api->script().add({.point = FaultPoint::kCompletion,
                     .action = FaultAction::kReorder,
                     .delay_polls = 1000,
                     .distance = 2});
  ibv_wc wc{};
  wc.wr_id = 1;
  wc.status = IBV_WC_SUCCESS;
  wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
  wc.byte_len = 123;
  wc.imm_data = 0x01020304;
  wc.wc_flags = IBV_WC_WITH_IMM;
  wc.qp_num = qps[0]->qp_num;
  fake.push_completion(FaultVerbs::inner_of(qps[0])->recv_cq, wc);
  send(qps[1], {11, 12, 13});
  const std::vector<ibv_wc> completions = poll();
  ASSERT_EQ(ids(completions), Ids({11, 12, 1, 13}));
  EXPECT_EQ(completions[2].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(completions[2].byte_len, 123U);
  EXPECT_EQ(completions[2].imm_data, 0x01020304U);
  EXPECT_EQ(completions[2].wc_flags, static_cast<unsigned>(IBV_WC_WITH_IMM));
  EXPECT_EQ(completions[2].qp_num, qps[0]->qp_num);
}

TEST_F(FaultVerbsPoll, ReorderWithinAQp_OnlyWhenAskedFor) {
  start({});
  api->script().add({.point = FaultPoint::kCompletion,
                     .action = FaultAction::kReorder,
                     .delay_polls = 1000,
                     .distance = 1,
                     .keep_qp_order = false});
  send(qps[0], {1, 2});
  EXPECT_EQ(ids(poll()), Ids({2, 1}));
}

TEST_F(FaultVerbsPoll, ReorderWithNothingAfterIt_PollsReleaseIt) {
  start({});
  api->script().add({.point = FaultPoint::kCompletion,
                     .action = FaultAction::kReorder,
                     .delay_polls = 2,
                     .distance = 5});
  send(qps[0], {1});
  EXPECT_TRUE(poll().empty());
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(ids(poll()), Ids({1}));
}

TEST_F(FaultVerbsPoll, HeldThenDestroyed_CompletionsGoWithTheQp) {
  start({}, 2);
  api->script().add({.point = FaultPoint::kCompletion,
                     .action = FaultAction::kDelay,
                     .qp_ordinal = 1,
                     .delay_polls = 1});
  send(qps[0], {1, 2});
  EXPECT_TRUE(poll().empty());
  ASSERT_EQ(api->destroy_qp(qps[0]), 0);
  qps.erase(qps.begin());
  EXPECT_EQ(api->held_count(cq), 0U);
  EXPECT_TRUE(poll().empty());
}

TEST_F(FaultVerbsPoll, FullHold_TakesNoMoreUntilReleased) {
  FaultPlan plan;
  plan.held_completions = 2;
  plan.faults = {{.point = FaultPoint::kCompletion,
                  .action = FaultAction::kDelay,
                  .count = 2,
                  .delay_polls = 3}};
  start(plan);
  send(qps[0], {1, 2, 3, 4});
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(api->held_count(cq), 2U);
  EXPECT_TRUE(poll().empty());
  EXPECT_TRUE(poll().empty());
  EXPECT_EQ(ids(poll()), Ids({1, 2, 3, 4}));  // nothing lost, order kept
}

TEST_F(FaultVerbsPoll, ReleaseHeld_ComesAtTheNextPoll) {
  start({});
  api->script().add(
      {.point = FaultPoint::kCompletion, .action = FaultAction::kDelay, .delay_polls = 1'000'000});
  send(qps[0], {1, 2});
  EXPECT_TRUE(poll().empty());
  api->release_held(cq);
  EXPECT_EQ(ids(poll()), Ids({1, 2}));
}

TEST_F(FaultVerbsPoll, PollOneByOne_NothingLostOrDoubled) {
  start({}, 2);
  api->script().add({.point = FaultPoint::kCompletion,
                     .action = FaultAction::kReorder,
                     .count = Fault::kForEver,
                     .probability_ppm = 400'000,
                     .delay_polls = 3,
                     .distance = 2});
  for (std::uint64_t i = 1; i <= 20; ++i) send(qps[i % 2], {i});
  std::vector<std::uint64_t> seen;
  std::uint64_t last_of_qp[2] = {0, 0};
  for (int polls = 0; polls < 200 && seen.size() < 20; ++polls) {
    for (const ibv_wc& wc : poll(1)) {
      EXPECT_GT(wc.wr_id, last_of_qp[wc.wr_id % 2]) << "order within a QP";
      last_of_qp[wc.wr_id % 2] = wc.wr_id;
      seen.push_back(wc.wr_id);
    }
  }
  ASSERT_EQ(seen.size(), 20U);
  EXPECT_FALSE(std::is_sorted(seen.begin(), seen.end())) << "no reordering happened";
  std::sort(seen.begin(), seen.end());
  for (std::uint64_t i = 1; i <= 20; ++i) EXPECT_EQ(seen[i - 1], i);
}

TEST_F(FaultVerbsPoll, SetStatus_UndefinedFieldsAreGarbage) {
  start({});
  api->script().add({.point = FaultPoint::kCompletion,
                     .action = FaultAction::kSetStatus,
                     .status = IBV_WC_RETRY_EXC_ERR});
  send(qps[0], {1});
  const std::vector<ibv_wc> completions = poll();
  ASSERT_EQ(ids(completions), Ids({1}));
  EXPECT_EQ(completions[0].status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(completions[0].qp_num, qps[0]->qp_num);
  EXPECT_NE(completions[0].opcode, IBV_WC_RDMA_WRITE);
  EXPECT_NE(completions[0].byte_len, 0U);
}

TEST_F(FaultVerbsPoll, QpToErrorAtCompletion_PostedReceivesFlush) {
  start({});
  receive(qps[0], {100, 101});
  api->script().add(
      {.point = FaultPoint::kCompletion, .action = FaultAction::kQpToError, .first = 2});
  send(qps[0], {1, 2, 3});
  const std::vector<ibv_wc> completions = poll();
  EXPECT_EQ(ids(completions), Ids({1, 2, 3, 100, 101}));
  EXPECT_EQ(completions[1].status, IBV_WC_SUCCESS);
  EXPECT_EQ(completions[4].status, IBV_WC_WR_FLUSH_ERR);
}

}  // namespace
}  // namespace braid::verbs
