#include "verbs/conformance/conformance_fixture.h"

// States of a QP as far as a connection needs them, and flushing.
namespace braid::verbs::conformance {
namespace {

constexpr int kInitMask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                         IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
constexpr int kRtsMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

ibv_qp_attr attributes(Endpoint& local, Endpoint& remote, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  attr.port_num = local.side.port;
  attr.qp_access_flags = kAllAccess;
  attr.path_mtu = local.port.active_mtu;
  attr.dest_qp_num = remote.qp->qp_num;
  attr.max_dest_rd_atomic = 4;
  attr.max_rd_atomic = 4;
  attr.min_rnr_timer = 1;
  attr.timeout = 14;
  attr.retry_cnt = 6;
  attr.rnr_retry = 6;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = local.side.port;
  attr.ah_attr.grh.dgid = remote.describe().gid;
  attr.ah_attr.grh.sgid_index = local.side.gid_index;
  attr.ah_attr.grh.hop_limit = 64;
  return attr;
}

TEST_P(StateMachine, EveryRequiredAttribute_IsRequired) {
  make();
  const struct {
    ibv_qp_state to;
    int mask;
  } steps[] = {{IBV_QPS_INIT, kInitMask}, {IBV_QPS_RTR, kRtrMask}, {IBV_QPS_RTS, kRtsMask}};
  for (const auto& step : steps) {
    const ibv_qp_state before = a_->state();
    ibv_qp_attr attr = attributes(*a_, *b_, step.to);
    for (int bit = 2; bit <= step.mask; bit <<= 1) {  // bit 0 is IBV_QP_STATE itself
      if ((step.mask & bit) == 0) continue;
      EXPECT_EQ(a_->api.modify_qp(a_->qp, &attr, step.mask & ~bit), EINVAL)
          << "state " << step.to << " without mask bit " << bit;
      EXPECT_EQ(a_->state(), before);
    }
    ASSERT_EQ(a_->api.modify_qp(a_->qp, &attr, step.mask), 0);
    EXPECT_EQ(a_->state(), step.to);
    EXPECT_EQ(a_->qp->state, step.to);
  }
}

TEST_P(StateMachine, AttributeThatDoesNotBelong_Refused) {
  make();
  ibv_qp_attr attr = attributes(*a_, *b_, IBV_QPS_INIT);
  EXPECT_EQ(a_->api.modify_qp(a_->qp, &attr, kInitMask | IBV_QP_SQ_PSN), EINVAL);
  EXPECT_EQ(a_->state(), IBV_QPS_RESET);
}

TEST_P(StateMachine, SkippedState_Refused) {
  make();
  for (const ibv_qp_state state : {IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attr = attributes(*a_, *b_, state);
    EXPECT_EQ(a_->api.modify_qp(a_->qp, &attr, state == IBV_QPS_RTR ? kRtrMask : kRtsMask), EINVAL);
  }
  EXPECT_EQ(a_->state(), IBV_QPS_RESET);
}

TEST_P(StateMachine, AttributesOutOfRange_Refused) {
  make();
  ibv_qp_attr attr = attributes(*a_, *b_, IBV_QPS_INIT);
  attr.port_num = 200;
  EXPECT_EQ(a_->api.modify_qp(a_->qp, &attr, kInitMask), EINVAL);
  attr = attributes(*a_, *b_, IBV_QPS_INIT);
  ASSERT_EQ(a_->api.modify_qp(a_->qp, &attr, kInitMask), 0);
  attr = attributes(*a_, *b_, IBV_QPS_RTR);
  attr.path_mtu = static_cast<ibv_mtu>(7);
  EXPECT_EQ(a_->api.modify_qp(a_->qp, &attr, kRtrMask), EINVAL);
  attr = attributes(*a_, *b_, IBV_QPS_RTR);
  attr.ah_attr.grh.sgid_index = 255;
  EXPECT_EQ(a_->api.modify_qp(a_->qp, &attr, kRtrMask), EINVAL);
  EXPECT_EQ(a_->state(), IBV_QPS_INIT);
}

TEST_P(StateMachine, QueryQp_ReturnsWhatWasSet) {
  make();
  ibv_qp_attr attr = attributes(*a_, *b_, IBV_QPS_INIT);
  ASSERT_EQ(a_->api.modify_qp(a_->qp, &attr, kInitMask), 0);
  attr = attributes(*a_, *b_, IBV_QPS_RTR);
  attr.rq_psn = 0xABCDEF;
  attr.ah_attr.grh.traffic_class = 132;
  attr.ah_attr.grh.flow_label = 0x1234;
  ASSERT_EQ(a_->api.modify_qp(a_->qp, &attr, kRtrMask), 0);
  attr = attributes(*a_, *b_, IBV_QPS_RTS);
  attr.sq_psn = 0xFEDCBA;
  ASSERT_EQ(a_->api.modify_qp(a_->qp, &attr, kRtsMask), 0);

  ibv_qp_attr got{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(a_->api.query_qp(a_->qp, &got, kInitMask | kRtrMask | kRtsMask, &init), 0);
  EXPECT_EQ(got.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(got.port_num, a_->side.port);
  EXPECT_EQ(got.path_mtu, a_->port.active_mtu);
  EXPECT_EQ(got.dest_qp_num, b_->qp->qp_num);
  EXPECT_EQ(got.rq_psn, 0xABCDEFU);
  EXPECT_EQ(got.sq_psn, 0xFEDCBAU);
  EXPECT_EQ(got.timeout, 14);
  EXPECT_EQ(got.retry_cnt, 6);
  EXPECT_EQ(got.rnr_retry, 6);
  EXPECT_EQ(got.min_rnr_timer, 1);
  EXPECT_EQ(got.max_rd_atomic, 4);
  EXPECT_EQ(got.max_dest_rd_atomic, 4);
  EXPECT_EQ(got.ah_attr.is_global, 1);
  EXPECT_EQ(got.ah_attr.grh.traffic_class, 132);
  EXPECT_EQ(got.ah_attr.grh.flow_label, 0x1234U);
}

TEST_P(StateMachine, PostSend_OnlyFromRts) {
  make();
  SendWr wr(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(wr.post(a_->qp), EINVAL);
  ibv_qp_attr attr = attributes(*a_, *b_, IBV_QPS_INIT);
  ASSERT_EQ(a_->api.modify_qp(a_->qp, &attr, kInitMask), 0);
  EXPECT_EQ(wr.post(a_->qp), EINVAL);
  attr = attributes(*a_, *b_, IBV_QPS_RTR);
  ASSERT_EQ(a_->api.modify_qp(a_->qp, &attr, kRtrMask), 0);
  EXPECT_EQ(wr.post(a_->qp), EINVAL);
}

TEST_P(StateMachine, PostRecv_FromInitOnAndServedLater) {
  make();
  EXPECT_EQ(post_receive(*b_, 1), EINVAL);
  ibv_qp_attr attr = attributes(*b_, *a_, IBV_QPS_INIT);
  ASSERT_EQ(b_->api.modify_qp(b_->qp, &attr, kInitMask), 0);
  ASSERT_EQ(post_receive(*b_, 2), 0);
  attr = attributes(*b_, *a_, IBV_QPS_RTR);
  ASSERT_EQ(b_->api.modify_qp(b_->qp, &attr, kRtrMask), 0);
  RcOptions rc = patient();
  rc.port = a_->side.port;
  rc.gid_index = a_->side.gid_index;
  ASSERT_TRUE(connect_rc(a_->api, a_->qp, rc, a_->describe(), b_->describe()).ok());
  SendWr wr(IBV_WR_SEND);
  ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
  ASSERT_TRUE(wait_receives(*b_, 1));
  EXPECT_EQ(b_->receives.front().wr_id, 2U);
}

TEST_P(StateMachine, Error_FlushesEveryPostedWrOfBothQueuesInOrder) {
  connect();
  const auto source = b_->memory(64);
  const auto target = a_->memory(64);
  // The peer has no receive posted and RNR retries go on, so that nothing completes before ERR.
  for (std::uint64_t i = 0; i < 10; ++i) {
    SendWr wr(IBV_WR_SEND, i);
    ASSERT_EQ(wr.flags(i % 2 == 0 ? IBV_SEND_SIGNALED : 0).post(a_->qp), 0);
    ASSERT_EQ(post_receive(*a_, 100 + i), 0);
  }
  ASSERT_TRUE(to_error(a_->api, a_->qp).ok());
  ASSERT_TRUE(wait_sends(*a_, 10));  // the unsignaled ones as well
  ASSERT_TRUE(wait_receives(*a_, 10));
  settle();
  ASSERT_EQ(a_->sends.size(), 10U);
  ASSERT_EQ(a_->receives.size(), 10U);
  for (std::uint64_t i = 0; i < 10; ++i) {
    EXPECT_EQ(a_->sends[i].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(a_->sends[i].wr_id, i);
    EXPECT_EQ(a_->sends[i].qp_num, a_->qp->qp_num);
    EXPECT_EQ(a_->receives[i].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(a_->receives[i].wr_id, 100 + i);
    EXPECT_EQ(a_->receives[i].qp_num, a_->qp->qp_num);
  }
  EXPECT_EQ(a_->state(), IBV_QPS_ERR);
}

TEST_P(StateMachine, PostInError_AcceptedAndFlushed) {
  connect();
  ASSERT_TRUE(to_error(a_->api, a_->qp).ok());
  SendWr wr(IBV_WR_RDMA_WRITE, 5);
  ASSERT_EQ(wr.flags(0).post(a_->qp), 0);
  ASSERT_EQ(post_receive(*a_, 6), 0);
  ASSERT_TRUE(wait_sends(*a_, 1));
  ASSERT_TRUE(wait_receives(*a_, 1));
  EXPECT_EQ(a_->sends.front().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a_->sends.front().wr_id, 5U);
  EXPECT_EQ(a_->receives.front().status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a_->receives.front().wr_id, 6U);
}

TEST_P(StateMachine, Reset_ForgetsWhatWasPosted) {
  connect();
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_EQ(post_receive(*a_, i), 0);
  ASSERT_TRUE(to_reset(a_->api, a_->qp).ok());
  settle();
  EXPECT_TRUE(a_->receives.empty());
  EXPECT_EQ(a_->state(), IBV_QPS_RESET);
}

TEST_P(StateMachine, ErrorResetAndUpAgain_WorksLikeNew) {
  connect();
  const auto source = a_->memory(5000);
  const auto target = b_->memory(5000);
  for (std::uint32_t round = 0; round < 3; ++round) {
    source->set(0, pattern(5000, round));
    SendWr wr(IBV_WR_RDMA_WRITE);
    ASSERT_EQ(run(wr.from(*source, 0, 5000).to(*target)), IBV_WC_SUCCESS);
    EXPECT_EQ(target->get(0, 5000), pattern(5000, round));
    for (Endpoint* endpoint : {a_.get(), b_.get()}) {
      ASSERT_TRUE(to_error(endpoint->api, endpoint->qp).ok());
      ASSERT_TRUE(to_reset(endpoint->api, endpoint->qp).ok());
      endpoint->first_psn = 0x123456 * (round + 1) & 0xFFFFFF;
    }
    bring_up();
  }
}

TEST_P(StateMachine, Drained_HoldsPostsUntilBackInRts) {
  connect();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  ASSERT_EQ(a_->api.modify_qp(a_->qp, &attr, IBV_QP_STATE), 0);
  SendWr wr(IBV_WR_RDMA_WRITE);
  ASSERT_EQ(wr.post(a_->qp), 0);
  settle();
  EXPECT_TRUE(a_->sends.empty());
  attr.qp_state = IBV_QPS_RTS;
  ASSERT_EQ(a_->api.modify_qp(a_->qp, &attr, IBV_QP_STATE), 0);
  ASSERT_TRUE(wait_sends(*a_, 1));
  EXPECT_EQ(a_->sends.front().status, IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace braid::verbs::conformance
