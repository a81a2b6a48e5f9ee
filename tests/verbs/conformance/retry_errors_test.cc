#include "verbs/conformance/conformance_fixture.h"

// A peer that does not answer, and a peer that is not ready.
namespace braid::verbs::conformance {
namespace {

TEST_P(RetryErrors, PeerGone_RetryExceededAndTheRestFlushed) {
  connect({}, quick());
  const auto source = a_->memory(64);
  const auto target = b_->memory(64);
  ASSERT_EQ(post_receive(*a_, 9), 0);
  b_->destroy_qp();
  for (std::uint64_t i = 1; i <= 3; ++i) {
    SendWr wr(IBV_WR_RDMA_WRITE, i);
    ASSERT_EQ(wr.from(*source, 0, 64).to(*target).post(a_->qp), 0);
  }
  ASSERT_TRUE(wait_sends(*a_, 3));
  EXPECT_EQ(a_->sends[0].wr_id, 1U);
  EXPECT_EQ(a_->sends[0].status, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(a_->sends[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a_->sends[2].status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_TRUE(wait_receives(*a_, 1));
  EXPECT_EQ(a_->receives[0].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a_->state(), IBV_QPS_ERR);
}

TEST_P(RetryErrors, PeerGone_EveryOpcodeEnds) {
  for (const ibv_wr_opcode opcode :
       {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP}) {
    SCOPED_TRACE(opcode);
    TearDown();
    SetUp();
    connect({}, quick());
    const auto local = a_->memory(8);
    const auto remote = b_->memory(8);
    b_->destroy_qp();
    SendWr wr(opcode);
    wr.from(*local, 0, 8);
    if (opcode != IBV_WR_SEND) wr.to(*remote);
    EXPECT_EQ(run(wr), IBV_WC_RETRY_EXC_ERR);
  }
}

TEST_P(RetryErrors, NoRetries_EndsAfterTheFirstTimeout) {
  RcOptions rc = quick();
  rc.retry_count = 0;
  connect({}, rc);
  b_->destroy_qp();
  SendWr wr(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(wr), IBV_WC_RETRY_EXC_ERR);
}

TEST_P(RetryErrors, PeerInError_RetryExceeded) {
  // A QP in ERR drops requests silently.
  connect({}, quick());
  ASSERT_TRUE(to_error(b_->api, b_->qp).ok());
  SendWr wr(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(wr), IBV_WC_RETRY_EXC_ERR);
}

TEST_P(RetryErrors, PeerComesLate_RetriesCarryItThrough) {
  make();
  RcOptions rc = patient();
  rc.gid_index = a_->side.gid_index;
  rc.timeout = 14;  // 67 ms
  ASSERT_TRUE(connect_rc(a_->api, a_->qp, rc, a_->describe(), b_->describe()).ok());
  const auto source = a_->memory(10'000);
  const auto target = b_->memory(10'000);
  source->set(0, pattern(10'000, 3));
  SendWr wr(IBV_WR_RDMA_WRITE);
  ASSERT_EQ(wr.from(*source, 0, 10'000).to(*target).post(a_->qp), 0);
  settle(std::chrono::milliseconds(5));
  EXPECT_TRUE(a_->sends.empty());
  rc.gid_index = b_->side.gid_index;
  ASSERT_TRUE(connect_rc(b_->api, b_->qp, rc, b_->describe(), a_->describe()).ok());
  ASSERT_TRUE(wait_sends(*a_, 1));
  EXPECT_EQ(a_->sends[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(target->get(0, 10'000), source->get(0, 10'000));
}

TEST_P(RetryErrors, NoReceive_RnrRetryExceeded) {
  for (const std::uint8_t retries : {std::uint8_t{0}, std::uint8_t{1}}) {
    for (const ibv_wr_opcode opcode : {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM}) {
      SCOPED_TRACE(testing::Message() << int{retries} << " retries, opcode " << opcode);
      TearDown();
      SetUp();
      RcOptions rc = patient();
      rc.rnr_retry = retries;
      rc.min_rnr_timer = 1;
      connect({}, rc);
      SendWr wr(opcode);
      EXPECT_EQ(run(wr), IBV_WC_RNR_RETRY_EXC_ERR);
      EXPECT_EQ(a_->state(), IBV_QPS_ERR);
      EXPECT_EQ(b_->state(), IBV_QPS_RTS);  // the responder has done nothing wrong
    }
  }
}

TEST_P(RetryErrors, ReceivePostedInTime_NothingLost) {
  RcOptions rc = patient();
  rc.rnr_retry = 7;  // without end
  rc.min_rnr_timer = 1;
  connect({}, rc);
  const auto source = a_->memory(20'000);
  const auto target = b_->memory(20'000);
  source->set(0, pattern(20'000, 4));
  SendWr wr(IBV_WR_SEND);
  ASSERT_EQ(wr.from(*source, 0, 20'000).post(a_->qp), 0);
  settle(std::chrono::milliseconds(5));
  EXPECT_TRUE(a_->sends.empty());
  ASSERT_EQ(post_receive(*b_, 1, target.get(), 0, 20'000), 0);
  ASSERT_TRUE(wait_sends(*a_, 1));
  EXPECT_EQ(a_->sends[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(target->get(0, 20'000), source->get(0, 20'000));
}

// Requirement: 20
TEST_P(RetryErrors, SixteenReceivesAndOneMessageMore_WaitsAndArrives) {
  // Requirement 20: the seventeenth notification meets RNR and is not lost.
  RcOptions rc = patient();
  rc.rnr_retry = 7;
  rc.min_rnr_timer = 1;
  connect({}, rc);
  for (std::uint64_t i = 0; i < 16; ++i) ASSERT_EQ(post_receive(*b_, i), 0);
  for (std::uint32_t i = 0; i < 17; ++i) {
    SendWr wr(IBV_WR_RDMA_WRITE_WITH_IMM, i);
    ASSERT_EQ(wr.imm(i).post(a_->qp), 0);
  }
  ASSERT_TRUE(wait_receives(*b_, 16));
  settle(std::chrono::milliseconds(5));
  EXPECT_EQ(b_->receives.size(), 16U);
  EXPECT_EQ(a_->sends.size(), 16U);
  ASSERT_EQ(post_receive(*b_, 16), 0);
  ASSERT_TRUE(wait_receives(*b_, 17));
  EXPECT_EQ(b_->receives[16].wr_id, 16U);
  ASSERT_TRUE(wait_sends(*a_, 17));
  EXPECT_EQ(a_->sends[16].status, IBV_WC_SUCCESS);
}

TEST_P(RetryErrors, WriteWithImmWithoutReceive_DataMayComeImmMustNot) {
  RcOptions rc = patient();
  rc.rnr_retry = 1;
  rc.min_rnr_timer = 1;
  connect({}, rc);
  const auto source = a_->memory(64);
  const auto target = b_->memory(64);
  SendWr wr(IBV_WR_RDMA_WRITE_WITH_IMM);
  EXPECT_EQ(run(wr.from(*source, 0, 64).to(*target)), IBV_WC_RNR_RETRY_EXC_ERR);
  ASSERT_EQ(post_receive(*b_, 1), 0);
  settle();
  EXPECT_TRUE(b_->receives.empty());
}

}  // namespace
}  // namespace braid::verbs::conformance
