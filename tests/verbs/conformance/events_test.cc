#include "verbs/conformance/conformance_fixture.h"

// Completion channels and asynchronous events.
namespace braid::verbs::conformance {
namespace {

EndpointOptions with_channel() {
  EndpointOptions options;
  options.use_channel = true;
  return options;
}

TEST_P(Events, Armed_OneEventForTheNextCompletion) {
  connect(with_channel());
  ASSERT_EQ(ibv_req_notify_cq(a_->send_cq, 0), 0);
  ibv_cq* cq = nullptr;
  EXPECT_FALSE(Endpoint::take_cq_event(a_->api, a_->send_channel, cq));
  SendWr wr(IBV_WR_RDMA_WRITE);
  ASSERT_EQ(wr.post(a_->qp), 0);
  ASSERT_TRUE(wait_for([&] { return Endpoint::take_cq_event(a_->api, a_->send_channel, cq); }));
  EXPECT_EQ(cq, a_->send_cq);
  EXPECT_EQ(cq->cq_context, a_.get());
  a_->drain();
  EXPECT_EQ(a_->sends.size(), 1U);

  SendWr unarmed(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(unarmed), IBV_WC_SUCCESS);
  settle();
  EXPECT_FALSE(Endpoint::take_cq_event(a_->api, a_->send_channel, cq)) << "armed only once";
}

TEST_P(Events, NotArmed_NoEvent) {
  connect(with_channel());
  SendWr wr(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(wr), IBV_WC_SUCCESS);
  settle();
  ibv_cq* cq = nullptr;
  EXPECT_FALSE(Endpoint::take_cq_event(a_->api, a_->send_channel, cq));
}

TEST_P(Events, SolicitedOnly_WaitsForASolicitedMessage) {
  connect(with_channel());
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(post_receive(*b_, i), 0);
  ASSERT_EQ(ibv_req_notify_cq(b_->recv_cq, 1), 0);
  SendWr plain(IBV_WR_SEND);
  ASSERT_EQ(run(plain), IBV_WC_SUCCESS);
  SendWr plain_write(IBV_WR_RDMA_WRITE_WITH_IMM);
  ASSERT_EQ(run(plain_write), IBV_WC_SUCCESS);
  settle();
  ibv_cq* cq = nullptr;
  EXPECT_FALSE(Endpoint::take_cq_event(b_->api, b_->recv_channel, cq));
  SendWr solicited(IBV_WR_SEND);
  ASSERT_EQ(run(solicited.flags(IBV_SEND_SIGNALED | IBV_SEND_SOLICITED)), IBV_WC_SUCCESS);
  ASSERT_TRUE(wait_for([&] { return Endpoint::take_cq_event(b_->api, b_->recv_channel, cq); }));
  EXPECT_EQ(cq, b_->recv_cq);

  ASSERT_EQ(ibv_req_notify_cq(b_->recv_cq, 1), 0);
  SendWr write(IBV_WR_RDMA_WRITE_WITH_IMM);
  ASSERT_EQ(run(write.flags(IBV_SEND_SIGNALED | IBV_SEND_SOLICITED)), IBV_WC_SUCCESS);
  ASSERT_TRUE(wait_for([&] { return Endpoint::take_cq_event(b_->api, b_->recv_channel, cq); }));
}

TEST_P(Events, SolicitedOnly_AnErrorCountsAsSolicited) {
  connect(with_channel());
  ASSERT_EQ(post_receive(*b_, 1), 0);
  ASSERT_EQ(ibv_req_notify_cq(b_->recv_cq, 1), 0);
  ASSERT_TRUE(to_error(b_->api, b_->qp).ok());
  ibv_cq* cq = nullptr;
  EXPECT_TRUE(wait_for([&] { return Endpoint::take_cq_event(b_->api, b_->recv_channel, cq); }));
}

TEST_P(Events, Rearmed_AnEventForEachArming) {
  connect(with_channel());
  ibv_cq* cq = nullptr;
  for (std::size_t i = 0; i < 5; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(a_->send_cq, 0), 0);
    SendWr wr(IBV_WR_RDMA_WRITE);
    ASSERT_EQ(wr.post(a_->qp), 0);
    ASSERT_TRUE(wait_for([&] { return Endpoint::take_cq_event(a_->api, a_->send_channel, cq); }));
    a_->drain();
    ASSERT_EQ(a_->sends.size(), i + 1);
  }
}

TEST_P(Events, FirstPacket_CommunicationEstablishedInRtr) {
  // Only a QP that is still in RTR says so.
  make();
  RcOptions rc = patient();
  rc.gid_index = b_->side.gid_index;
  ASSERT_TRUE(to_init(b_->api, b_->qp, rc).ok());
  ASSERT_TRUE(to_rtr(b_->api, b_->qp, rc, b_->describe(), a_->describe()).ok());
  rc.gid_index = a_->side.gid_index;
  ASSERT_TRUE(connect_rc(a_->api, a_->qp, rc, a_->describe(), b_->describe()).ok());
  SendWr wr(IBV_WR_RDMA_WRITE);
  ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
  ibv_async_event event{};
  ASSERT_TRUE(wait_async_event(*b_, IBV_EVENT_COMM_EST, event));
  EXPECT_EQ(event.element.qp, b_->qp);
}

TEST_P(Events, RemoteAccessError_ResponderToldByEvent) {
  connect();
  const auto source = a_->memory(64);
  SendWr wr(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(wr.from(*source, 0, 64).to_address(0x1000, 0xBAD)), IBV_WC_REM_ACCESS_ERR);
  ibv_async_event event{};
  ASSERT_TRUE(wait_async_event(*b_, IBV_EVENT_QP_ACCESS_ERR, event));
  EXPECT_EQ(event.element.qp, b_->qp);
}

TEST_P(Events, InvalidRequest_ResponderToldByEvent) {
  connect();
  const auto result = a_->memory(8);
  const auto target = b_->memory(32);
  SendWr wr(IBV_WR_ATOMIC_FETCH_AND_ADD);
  wr.from(*result, 0, 8).to_address(target->address() | 1, target->rkey());
  EXPECT_EQ(run(wr), IBV_WC_REM_INV_REQ_ERR);
  ibv_async_event event{};
  ASSERT_TRUE(wait_async_event(*b_, IBV_EVENT_QP_REQ_ERR, event));
  EXPECT_EQ(event.element.qp, b_->qp);
}

TEST_P(Events, SendQueueDrained_ToldByEvent) {
  connect();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  ASSERT_EQ(a_->api.modify_qp(a_->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
  ibv_async_event event{};
  ASSERT_TRUE(wait_async_event(*a_, IBV_EVENT_SQ_DRAINED, event));
  EXPECT_EQ(event.element.qp, a_->qp);
}

}  // namespace
}  // namespace braid::verbs::conformance
