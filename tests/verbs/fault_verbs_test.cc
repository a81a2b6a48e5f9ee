#include "verbs/fault_verbs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>

#include "verbs/fault_bed.h"

namespace braid::verbs {
namespace {

using FaultVerbsCalls = FaultBed;

TEST_F(FaultVerbsCalls, NoFaults_ObjectsBelongToTheDecorator) {
  start({});
  ibv_qp* qp = qps[0];
  EXPECT_EQ(qp->context, context);
  EXPECT_EQ(qp->pd, pd);
  EXPECT_EQ(qp->send_cq, cq);
  EXPECT_EQ(qp->qp_context, &cookie);
  EXPECT_EQ(qp->state, IBV_QPS_RTS);
  EXPECT_EQ(qp->qp_num, FaultVerbs::inner_of(qp)->qp_num);
  EXPECT_NE(FaultVerbs::inner_of(qp)->context, context);
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(api->query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(init.send_cq, cq);
  EXPECT_EQ(init.qp_context, &cookie);
  EXPECT_GE(init.cap.max_inline_data, 64U);  // what the device granted comes back
}

TEST_F(FaultVerbsCalls, KthCall_FailsAndOnlyThat) {
  FaultPlan plan;
  plan.faults = {{.call = VerbsCall::kCreateQp, .first = 2, .error = ENOSPC}};
  start(plan);
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq;
  errno = 0;
  EXPECT_EQ(api->create_qp(pd, &attr), nullptr);
  EXPECT_EQ(errno, ENOSPC);
  EXPECT_EQ(attr.send_cq, cq);  // the caller's attributes are not rewritten
  qps.push_back(make_qp());
  EXPECT_EQ(api->script().struck_count(), 1U);
}

TEST_F(FaultVerbsCalls, RangeOfCalls_FailsFromFirstForCount) {
  start({});
  api->script().add({.call = VerbsCall::kModifyQp, .first = 2, .count = 2, .error = EBUSY});
  EXPECT_TRUE(to_error(*api, qps[0]).ok());
  EXPECT_EQ(to_error(*api, qps[0]).detail(), EBUSY);
  EXPECT_EQ(to_error(*api, qps[0]).detail(), EBUSY);
  EXPECT_TRUE(to_error(*api, qps[0]).ok());
}

TEST_F(FaultVerbsCalls, FailedDestroy_LeavesTheObject) {
  start({});
  api->script().add({.call = VerbsCall::kDestroyQp, .error = EBUSY});
  EXPECT_EQ(api->destroy_qp(qps[0]), EBUSY);
  EXPECT_EQ(send(qps[0], {7}), 0U);
  EXPECT_EQ(ids(poll()), Ids({7}));
}

TEST_F(FaultVerbsCalls, ConventionsOfFailure_AreThoseOfEachCall) {
  start({});
  for (const VerbsCall call :
       {VerbsCall::kQueryGid, VerbsCall::kQueryDevice, VerbsCall::kGetCqEvent,
        VerbsCall::kRegMrIova, VerbsCall::kReqNotifyCq}) {
    api->script().add({.call = call, .error = EIO});
  }
  ibv_gid gid;
  errno = 0;
  EXPECT_EQ(api->query_gid(context, 1, 0, &gid), -1);
  EXPECT_EQ(errno, EIO);
  ibv_device_attr device;
  EXPECT_EQ(api->query_device(context, &device), EIO);
  ibv_cq* event_cq = nullptr;
  void* event_context = nullptr;
  EXPECT_EQ(api->get_cq_event(channel, &event_cq, &event_context), -1);
  char byte = 0;
  EXPECT_EQ(api->reg_mr_iova(pd, &byte, 1, 0, 0), nullptr);
  EXPECT_EQ(ibv_req_notify_cq(cq, 0), EIO);
  EXPECT_EQ(ibv_req_notify_cq(cq, 0), 0);
}

TEST_F(FaultVerbsCalls, Probability_SameSeedSameFaults) {
  FaultPlan plan;
  plan.seed = 42;
  plan.faults = {{.call = VerbsCall::kQueryDevice,
                  .count = Fault::kForEver,
                  .probability_ppm = 300'000,
                  .error = EIO}};
  const auto run = [&] {
    FaultScript script(plan);
    std::vector<int> errors;
    for (int i = 0; i < 200; ++i) errors.push_back(script.on_call(VerbsCall::kQueryDevice));
    return errors;
  };
  const std::vector<int> first = run();
  EXPECT_EQ(first, run());
  const auto failed = std::count(first.begin(), first.end(), EIO);
  EXPECT_GT(failed, 30);
  EXPECT_LT(failed, 90);
  plan.seed = 43;
  EXPECT_NE(first, run());
}

TEST_F(FaultVerbsCalls, Region_KeepsTheDevicesKeysAndTheDecoratorsPd) {
  start({});
  char bytes[64];
  ibv_mr* mr = api->reg_mr_iova(pd, bytes, sizeof bytes, 0, IBV_ACCESS_LOCAL_WRITE);
  ASSERT_NE(mr, nullptr);
  EXPECT_EQ(mr->pd, pd);
  EXPECT_EQ(mr->context, context);
  EXPECT_EQ(mr->length, 64U);
  const std::uint32_t key = mr->lkey;
  ASSERT_EQ(api->rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, nullptr, bytes, 32, 0), 0);
  EXPECT_NE(mr->lkey, key);
  EXPECT_EQ(mr->length, 32U);
  EXPECT_EQ(mr->pd, pd);
  EXPECT_EQ(api->dereg_mr(mr), 0);
}

TEST_F(FaultVerbsCalls, CompletionEvent_NamesTheDecoratorsQueueAndContext) {
  start({});
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  send(qps[0], {1});
  ibv_cq* event_cq = nullptr;
  void* event_context = nullptr;
  ASSERT_EQ(api->get_cq_event(channel, &event_cq, &event_context), 0);
  EXPECT_EQ(event_cq, cq);
  EXPECT_EQ(event_context, &cookie);
  api->ack_cq_events(event_cq, 1);
  EXPECT_EQ(fake.unacknowledged(), 0U);
  EXPECT_EQ(api->get_cq_event(channel, &event_cq, &event_context), -1);
}

TEST_F(FaultVerbsCalls, AsyncEvent_NamesTheDecoratorsQpBothWays) {
  start({});
  ibv_async_event raised{};
  raised.event_type = IBV_EVENT_QP_FATAL;
  raised.element.qp = FaultVerbs::inner_of(qps[0]);
  fake.raise_async_event(raised.element.qp->context, raised);
  ibv_async_event port{};
  port.event_type = IBV_EVENT_PORT_ERR;
  port.element.port_num = 1;
  fake.raise_async_event(raised.element.qp->context, port);

  ibv_async_event event{};
  ASSERT_EQ(api->get_async_event(context, &event), 0);
  EXPECT_EQ(event.element.qp, qps[0]);
  api->ack_async_event(&event);
  EXPECT_EQ(event.element.qp, qps[0]);
  ASSERT_EQ(api->get_async_event(context, &event), 0);
  EXPECT_EQ(event.element.port_num, 1);
  api->ack_async_event(&event);
  EXPECT_EQ(fake.unacknowledged(), 0U);
}

TEST_F(FaultVerbsCalls, SharedReceiveQueue_PostsAndFails) {
  start({}, 0);
  ibv_srq_init_attr attr{};
  attr.attr = {16, 1, 0};
  ibv_srq* srq = api->create_srq(pd, &attr);
  ASSERT_NE(srq, nullptr);
  qps.push_back(make_qp(srq));
  api->script().add({.point = FaultPoint::kPostReceive, .first = 2, .error = ENOMEM});
  ibv_recv_wr second{};
  second.wr_id = 2;
  ibv_recv_wr first{};
  first.wr_id = 1;
  first.next = &second;
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_srq_recv(srq, &first, &bad), ENOMEM);
  EXPECT_EQ(bad, &second);
  ibv_qp* inner = FaultVerbs::inner_of(qps[0]);
  EXPECT_TRUE(fake.complete_receive(inner, IBV_WC_RECV, 5, 0));
  EXPECT_FALSE(fake.complete_receive(inner, IBV_WC_RECV, 5, 0));
  EXPECT_EQ(ids(poll()), Ids({1}));
  ASSERT_EQ(api->destroy_qp(qps[0]), 0);
  qps.clear();
  EXPECT_EQ(api->destroy_srq(srq), 0);
}

}  // namespace
}  // namespace braid::verbs
