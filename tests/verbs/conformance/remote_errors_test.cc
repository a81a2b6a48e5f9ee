#include "verbs/conformance/conformance_fixture.h"

// Errors that the responder finds in a request. Both QPs end in ERR.
namespace braid::verbs::conformance {
namespace {

/// Asserts what follows on the responder: error state, and its posted receives flushed.
void expect_responder_down(Conformance&, Endpoint& responder, std::size_t flushed_count) {
  ASSERT_EQ(responder.receives.size(), flushed_count);
  for (const ibv_wc& wc : responder.receives) EXPECT_EQ(wc.status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(responder.state(), IBV_QPS_ERR);
}

TEST_P(RemoteErrors, WriteToUnknownRkey_AccessErrorAndBothDown) {
  connect();
  const auto source = a_->memory(64);
  const auto target = b_->memory(64);
  target->fill(0x77);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(post_receive(*b_, i), 0);
  ASSERT_EQ(post_receive(*a_, 9), 0);
  SendWr wr(IBV_WR_RDMA_WRITE, 1);
  SendWr later(IBV_WR_RDMA_WRITE, 2);
  wr.from(*source, 0, 64).to_address(target->address(), target->rkey() ^ 0x5A5A);
  later.from(*source, 0, 64).to(*target);
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a_->qp, wr.link(later.link(nullptr)), &bad), 0);
  ASSERT_TRUE(wait_sends(*a_, 2));
  EXPECT_EQ(a_->sends[0].wr_id, 1U);
  EXPECT_EQ(a_->sends[0].status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(a_->sends[1].wr_id, 2U);
  EXPECT_EQ(a_->sends[1].status, IBV_WC_WR_FLUSH_ERR);
  ASSERT_TRUE(wait_receives(*a_, 1));
  EXPECT_EQ(a_->receives[0].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a_->state(), IBV_QPS_ERR);
  ASSERT_TRUE(wait_receives(*b_, 3));
  expect_responder_down(*this, *b_, 3);
  EXPECT_EQ(target->get(0, 64), Bytes(64, 0x77));
}

TEST_P(RemoteErrors, WriteWithImmToUnknownRkey_NoReceiveSucceeds) {
  connect();
  const auto source = a_->memory(64);
  ASSERT_EQ(post_receive(*b_, 1), 0);
  SendWr wr(IBV_WR_RDMA_WRITE_WITH_IMM);
  EXPECT_EQ(run(wr.from(*source, 0, 64).to_address(0x1000, 0xBAD)), IBV_WC_REM_ACCESS_ERR);
  ASSERT_TRUE(wait_receives(*b_, 1));
  EXPECT_NE(b_->receives[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(b_->receives[0].wr_id, 1U);
}

TEST_P(RemoteErrors, WritePastTheRegion_AccessErrorAndUntouched) {
  connect();
  const auto source = a_->memory(65);
  const auto target = b_->memory(64);
  target->fill(0x78);
  source->fill(0x11);
  SendWr wr(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(wr.from(*source, 0, 65).to(*target)), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(target->get(0, 64), Bytes(64, 0x78));
}

TEST_P(RemoteErrors, LargeWritePastTheRegion_NotAByteWritten) {
  // The length is in the first packet, so the responder knows before it writes anything.
  connect();
  const auto source = a_->memory(100'001);
  const auto target = b_->memory(100'000);
  target->fill(0x79);
  source->fill(0x11);
  SendWr wr(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(wr.from(*source, 0, 100'001).to(*target)), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(target->get(0, 100'000), Bytes(100'000, 0x79));
}

TEST_P(RemoteErrors, WriteBeforeTheRegionOrWrapping_AccessError) {
  for (const bool wraps : {false, true}) {
    SCOPED_TRACE(wraps);
    TearDown();
    SetUp();
    connect();
    const auto source = a_->memory(64);
    const auto target = b_->memory(64);
    const std::uint64_t address = wraps ? ~std::uint64_t{0} - 3 : target->address() - 1;
    SendWr wr(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(run(wr.from(*source, 0, 16).to_address(address, target->rkey())),
              IBV_WC_REM_ACCESS_ERR);
  }
}

TEST_P(RemoteErrors, WriteToRegionWithoutRemoteWrite_AccessError) {
  connect();
  const auto source = a_->memory(64);
  const auto target = b_->memory(64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  target->fill(0x7A);
  SendWr wr(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(wr.from(*source, 0, 64).to(*target)), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(target->get(0, 64), Bytes(64, 0x7A));
}

TEST_P(RemoteErrors, ReadFromRegionWithoutRemoteRead_AccessError) {
  connect();
  const auto target = a_->memory(64);
  const auto source = b_->memory(64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  target->fill(0x7B);
  SendWr wr(IBV_WR_RDMA_READ);
  EXPECT_EQ(run(wr.from(*target, 0, 64).to(*source)), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(target->get(0, 64), Bytes(64, 0x7B));
}

TEST_P(RemoteErrors, ReadPastTheRegion_AccessError) {
  connect();
  const auto target = a_->memory(100'001);
  const auto source = b_->memory(100'000);
  SendWr wr(IBV_WR_RDMA_READ);
  EXPECT_EQ(run(wr.from(*target, 0, 100'001).to(*source)), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(RemoteErrors, RegionOfAnotherPd_AccessError) {
  connect();
  ibv_pd* other = b_->api.alloc_pd(b_->side.context);
  ASSERT_NE(other, nullptr);
  {
    const auto source = a_->memory(64);
    Memory target(b_->api, other, 64);
    target.fill(0x7C);
    SendWr wr(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(run(wr.from(*source, 0, 64).to(target)), IBV_WC_REM_ACCESS_ERR);
    EXPECT_EQ(target.get(0, 64), Bytes(64, 0x7C));
  }
  EXPECT_EQ(b_->api.dealloc_pd(other), 0);
}

TEST_P(RemoteErrors, DeregisteredRegion_AccessErrorAndUntouched) {
  connect();
  const auto source = a_->memory(64);
  const auto target = b_->memory(64);
  SendWr before(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(before.from(*source, 0, 64).to(*target)), IBV_WC_SUCCESS);
  target->fill(0x7D);
  target->deregister();
  SendWr after(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(after.from(*source, 0, 64).to(*target)), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(target->get(0, 64), Bytes(64, 0x7D));
}

TEST_P(RemoteErrors, QpThatForbidsTheOperation_InvalidRequest) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ}) {
    SCOPED_TRACE(opcode);
    TearDown();
    SetUp();
    RcOptions rc = patient();
    rc.access = IBV_ACCESS_LOCAL_WRITE;
    connect({}, rc);
    const auto local = a_->memory(64);
    const auto remote = b_->memory(64);
    remote->fill(0x7E);
    SendWr wr(opcode);
    EXPECT_EQ(run(wr.from(*local, 0, 64).to(*remote)), IBV_WC_REM_INV_REQ_ERR);
    EXPECT_EQ(remote->get(0, 64), Bytes(64, 0x7E));
  }
}

TEST_P(RemoteErrors, ReadWithoutResponderResources_InvalidRequest) {
  make();
  QpEndpoint of_b = b_->describe();
  QpEndpoint of_a = a_->describe();
  RcOptions rc = patient();
  rc.gid_index = a_->side.gid_index;
  ASSERT_TRUE(connect_rc(a_->api, a_->qp, rc, of_a, of_b).ok());  // believes in resources
  of_b.rd_atomic = 0;
  rc.gid_index = b_->side.gid_index;
  ASSERT_TRUE(connect_rc(b_->api, b_->qp, rc, of_b, of_a).ok());
  const auto target = a_->memory(64);
  const auto source = b_->memory(64);
  SendWr wr(IBV_WR_RDMA_READ);
  EXPECT_EQ(run(wr.from(*target, 0, 64).to(*source)), IBV_WC_REM_INV_REQ_ERR);
}

TEST_P(RemoteErrors, EarlierWritesStand_LaterAreNotApplied) {
  connect();
  const auto source = a_->memory(64);
  const auto target = b_->memory(192);
  source->fill(0x42);
  target->fill(0);
  SendWr first(IBV_WR_RDMA_WRITE, 1);
  SendWr faulty(IBV_WR_RDMA_WRITE, 2);
  SendWr later(IBV_WR_RDMA_WRITE, 3);
  first.from(*source, 0, 64).to(*target, 0);
  faulty.from(*source, 0, 64).to_address(target->address(64), target->rkey() ^ 0x5A5A);
  later.from(*source, 0, 64).to(*target, 128);
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a_->qp, first.link(faulty.link(later.link(nullptr))), &bad), 0);
  ASSERT_TRUE(wait_sends(*a_, 3));
  EXPECT_EQ(a_->sends[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(a_->sends[1].status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(a_->sends[2].status, IBV_WC_WR_FLUSH_ERR);
  settle();
  EXPECT_EQ(target->get(0, 64), Bytes(64, 0x42));
  EXPECT_EQ(target->get(64, 128), Bytes(128, 0));
}

TEST_P(RemoteErrors, OtherQpsOfTheDevice_GoOn) {
  connect();
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
  const auto target = b_->memory(64);
  source->fill(0x43);
  SendWr faulty(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(faulty.from(*source, 0, 64).to_address(0, 0xBAD)), IBV_WC_REM_ACCESS_ERR);
  SendWr good(IBV_WR_RDMA_WRITE, 2);
  ASSERT_EQ(good.from(*source, 0, 64).to(*target).post(second_a), 0);
  ASSERT_TRUE(wait_sends(*a_, 2));
  EXPECT_EQ(a_->sends[1].status, IBV_WC_SUCCESS);
  EXPECT_EQ(a_->sends[1].qp_num, second_a->qp_num);
  EXPECT_EQ(target->get(0, 64), Bytes(64, 0x43));
  EXPECT_EQ(a_->api.destroy_qp(second_a), 0);
  EXPECT_EQ(b_->api.destroy_qp(second_b), 0);
}

}  // namespace
}  // namespace braid::verbs::conformance
