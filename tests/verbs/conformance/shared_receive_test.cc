#include <algorithm>

#include "verbs/conformance/conformance_fixture.h"

// Shared receive queues.
namespace braid::verbs::conformance {
namespace {

EndpointOptions with_srq() {
  EndpointOptions options;
  options.use_srq = true;
  return options;
}

TEST_P(SharedReceive, TwoQps_ShareOneQueue) {
  connect(with_srq());
  ibv_qp* second_a = a_->make_qp();
  ibv_qp* second_b = b_->make_qp();
  RcOptions rc = patient();
  rc.gid_index = a_->side.gid_index;
  ASSERT_TRUE(
      connect_rc(a_->api, second_a, rc, a_->describe(second_a), b_->describe(second_b)).ok());
  rc.gid_index = b_->side.gid_index;
  ASSERT_TRUE(
      connect_rc(b_->api, second_b, rc, b_->describe(second_b), a_->describe(second_a)).ok());

  const auto source = a_->memory(64);
  const auto target = b_->memory(64 * 6);
  source->set(0, pattern(64, 1));
  for (std::uint64_t i = 0; i < 6; ++i) {
    ASSERT_EQ(post_receive(*b_, i, target.get(), 64 * i, 64), 0);
  }
  for (std::uint64_t i = 0; i < 6; ++i) {
    SendWr wr(IBV_WR_SEND, i);
    ASSERT_EQ(wr.from(*source, 0, 64).post(i % 2 == 0 ? a_->qp : second_a), 0);
  }
  ASSERT_TRUE(wait_receives(*b_, 6));
  std::vector<std::uint64_t> ids;
  int of_first = 0;
  for (const ibv_wc& wc : b_->receives) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_TRUE(wc.qp_num == b_->qp->qp_num || wc.qp_num == second_b->qp_num);
    of_first += wc.qp_num == b_->qp->qp_num ? 1 : 0;
    ids.push_back(wc.wr_id);
    EXPECT_EQ(target->get(64 * wc.wr_id, 64), source->get(0, 64));
  }
  EXPECT_EQ(of_first, 3);
  std::sort(ids.begin(), ids.end());
  EXPECT_EQ(ids, (std::vector<std::uint64_t>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(a_->api.destroy_qp(second_a), 0);
  EXPECT_EQ(b_->api.destroy_qp(second_b), 0);
}

TEST_P(SharedReceive, WriteWithImm_TakesOneToo) {
  connect(with_srq());
  ASSERT_EQ(post_receive(*b_, 42), 0);
  SendWr wr(IBV_WR_RDMA_WRITE_WITH_IMM);
  ASSERT_EQ(run(wr.imm(9)), IBV_WC_SUCCESS);
  ASSERT_TRUE(wait_receives(*b_, 1));
  EXPECT_EQ(b_->receives.front().wr_id, 42U);
  EXPECT_EQ(b_->receives.front().opcode, IBV_WC_RECV_RDMA_WITH_IMM);
}

TEST_P(SharedReceive, Empty_ReceiverNotReadyAndThenServed) {
  RcOptions rc = patient();
  rc.rnr_retry = 7;  // without end
  rc.min_rnr_timer = 1;
  connect(with_srq(), rc);
  SendWr wr(IBV_WR_SEND);
  ASSERT_EQ(wr.post(a_->qp), 0);
  settle();
  EXPECT_TRUE(a_->sends.empty());
  ASSERT_EQ(post_receive(*b_, 1), 0);
  ASSERT_TRUE(wait_sends(*a_, 1));
  EXPECT_EQ(a_->sends.front().status, IBV_WC_SUCCESS);
}

TEST_P(SharedReceive, FallsBelowTheLimit_OneEventAndDisarmed) {
  connect(with_srq());
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(post_receive(*b_, i), 0);
  ibv_srq_attr attr{};
  attr.srq_limit = 6;
  ASSERT_EQ(b_->api.modify_srq(b_->srq, &attr, IBV_SRQ_LIMIT), 0);
  ASSERT_EQ(b_->api.query_srq(b_->srq, &attr), 0);
  EXPECT_EQ(attr.srq_limit, 6U);
  EXPECT_GE(attr.max_wr, 128U);

  SendWr first(IBV_WR_SEND);
  SendWr second(IBV_WR_SEND);
  ASSERT_EQ(run(first), IBV_WC_SUCCESS);
  ASSERT_EQ(run(second), IBV_WC_SUCCESS);  // six left: at the limit, not below
  settle();
  ibv_async_event event{};
  while (b_->take_async_event(event)) {
    EXPECT_NE(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED) << "at the limit is not below it";
  }
  SendWr third(IBV_WR_SEND);
  ASSERT_EQ(run(third), IBV_WC_SUCCESS);
  ASSERT_TRUE(wait_async_event(*b_, IBV_EVENT_SRQ_LIMIT_REACHED, event));
  EXPECT_EQ(event.element.srq, b_->srq);
  ASSERT_EQ(b_->api.query_srq(b_->srq, &attr), 0);
  EXPECT_EQ(attr.srq_limit, 0U);
}

TEST_P(SharedReceive, Full_Enomem) {
  EndpointOptions options = with_srq();
  options.recv_wr = 4;
  make(options);
  ibv_srq_attr attr{};
  ASSERT_EQ(a_->api.query_srq(a_->srq, &attr), 0);
  for (std::uint32_t i = 0; i < attr.max_wr; ++i) ASSERT_EQ(post_receive(*a_, i), 0);
  EXPECT_EQ(post_receive(*a_, 99), ENOMEM);
}

TEST_P(SharedReceive, PostRecvOnTheQp_Refused) {
  connect(with_srq());
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  EXPECT_NE(ibv_post_recv(b_->qp, &wr, &bad), 0);
  EXPECT_EQ(bad, &wr);
}

TEST_P(SharedReceive, QpInError_LastWqeReachedAndReceivesStay) {
  connect(with_srq());
  ASSERT_EQ(post_receive(*b_, 1), 0);
  ASSERT_TRUE(to_error(b_->api, b_->qp).ok());
  ibv_async_event event{};
  ASSERT_TRUE(wait_async_event(*b_, IBV_EVENT_QP_LAST_WQE_REACHED, event));
  EXPECT_EQ(event.element.qp, b_->qp);
  settle();
  EXPECT_TRUE(b_->receives.empty());  // they belong to the queue, not to the QP
}

}  // namespace
}  // namespace braid::verbs::conformance
