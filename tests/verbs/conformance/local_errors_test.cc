#include "verbs/conformance/conformance_fixture.h"

// Errors that the requester's or the receiver's own work request causes.
namespace braid::verbs::conformance {
namespace {

TEST_P(LocalErrors, WriteWithUnknownLkey_LocalProtectionError) {
  connect();
  const auto source = a_->memory(64);
  const auto target = b_->memory(64);
  target->fill(0x33);
  SendWr wr(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(wr.sge(source->address(), 64, source->lkey() ^ 0x5A5A).to(*target)),
            IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(target->get(0, 64), Bytes(64, 0x33));
  EXPECT_EQ(a_->state(), IBV_QPS_ERR);
}

TEST_P(LocalErrors, WritePastTheRegion_LocalProtectionError) {
  connect();
  const auto source = a_->memory(64);
  const auto target = b_->memory(128);
  SendWr at_the_end(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(at_the_end.from(*source, 0, 64).to(*target)), IBV_WC_SUCCESS);
  SendWr beyond(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(beyond.from(*source, 0, 65).to(*target)), IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalErrors, WriteBeforeTheRegion_LocalProtectionError) {
  connect();
  const auto source = a_->memory(64);
  const auto target = b_->memory(64);
  SendWr wr(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(wr.sge(source->address() - 1, 8, source->lkey()).to(*target)), IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalErrors, AddressRangeThatWraps_LocalProtectionError) {
  connect();
  const auto source = a_->memory(64);
  const auto target = b_->memory(64);
  SendWr wr(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(wr.sge(~std::uint64_t{0} - 3, 64, source->lkey()).to(*target)),
            IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalErrors, SendFromDeregisteredRegion_LocalProtectionError) {
  connect();
  const auto source = a_->memory(64);
  const auto target = b_->memory(64);
  ASSERT_EQ(post_receive(*b_, 1, target.get(), 0, 64), 0);
  source->deregister();
  SendWr wr(IBV_WR_SEND);
  EXPECT_EQ(run(wr.from(*source, 0, 64)), IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalErrors, RegionOfAnotherPd_LocalProtectionError) {
  connect();
  ibv_pd* other = a_->api.alloc_pd(a_->side.context);
  ASSERT_NE(other, nullptr);
  {
    Memory source(a_->api, other, 64);
    const auto target = b_->memory(64);
    SendWr wr(IBV_WR_RDMA_WRITE);
    EXPECT_EQ(run(wr.from(source, 0, 64).to(*target)), IBV_WC_LOC_PROT_ERR);
  }
  EXPECT_EQ(a_->api.dealloc_pd(other), 0);
}

TEST_P(LocalErrors, BadEntryInTheMiddleOfALargeMessage_LocalProtectionError) {
  // The fault lies many packets in: those before it may have left, it must still be found.
  connect();
  const auto source = a_->memory(1U << 20U);
  const auto target = b_->memory(2U << 20U);
  SendWr wr(IBV_WR_RDMA_WRITE);
  wr.from(*source, 0, 1U << 20U).sge(source->address(), 64, source->lkey() ^ 0x5A5A);
  EXPECT_EQ(run(wr.to(*target)), IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalErrors, ReadIntoRegionWithoutLocalWrite_LocalProtectionError) {
  connect();
  const auto target = a_->memory(64, 0);
  const auto source = b_->memory(64);
  target->fill(0x44);
  SendWr wr(IBV_WR_RDMA_READ);
  EXPECT_EQ(run(wr.from(*target, 0, 64).to(*source)), IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(target->get(0, 64), Bytes(64, 0x44));
}

TEST_P(LocalErrors, ReadWithUnknownLkey_LocalProtectionError) {
  connect();
  const auto target = a_->memory(64);
  const auto source = b_->memory(64);
  SendWr wr(IBV_WR_RDMA_READ);
  EXPECT_EQ(run(wr.sge(target->address(), 64, target->lkey() ^ 0x5A5A).to(*source)),
            IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalErrors, AtomicResultWithoutLocalWrite_LocalProtectionError) {
  connect();
  const auto result = a_->memory(8, 0);
  const auto target = b_->memory(8);
  SendWr wr(IBV_WR_ATOMIC_FETCH_AND_ADD);
  EXPECT_EQ(run(wr.from(*result, 0, 8).to(*target).compare_add(1)), IBV_WC_LOC_PROT_ERR);
}

TEST_P(LocalErrors, EarlierOnesSucceed_LaterOnesFlush) {
  connect();
  const auto source = a_->memory(64);
  const auto target = b_->memory(64);
  SendWr good(IBV_WR_RDMA_WRITE, 1);
  SendWr faulty(IBV_WR_RDMA_WRITE, 2);
  SendWr later(IBV_WR_RDMA_WRITE, 3);
  SendWr silent(IBV_WR_RDMA_WRITE, 4);
  good.from(*source, 0, 64).to(*target).flags(0);
  faulty.sge(source->address(), 64, source->lkey() ^ 0x5A5A).to(*target).flags(0);
  later.from(*source, 0, 64).to(*target);
  silent.from(*source, 0, 64).to(*target).flags(0);
  ibv_send_wr* bad = nullptr;
  ibv_send_wr* chain = faulty.link(later.link(silent.link(nullptr)));
  ASSERT_EQ(ibv_post_send(a_->qp, good.link(chain), &bad), 0);
  ASSERT_TRUE(wait_sends(*a_, 3));
  settle();
  ASSERT_EQ(a_->sends.size(), 3U);  // the good one is unsignaled and says nothing
  EXPECT_EQ(a_->sends[0].wr_id, 2U);
  EXPECT_EQ(a_->sends[0].status, IBV_WC_LOC_PROT_ERR);  // unsignaled, but errors always show
  EXPECT_EQ(a_->sends[1].wr_id, 3U);
  EXPECT_EQ(a_->sends[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(a_->sends[2].wr_id, 4U);
  EXPECT_EQ(a_->sends[2].status, IBV_WC_WR_FLUSH_ERR);
}

TEST_P(LocalErrors, ReceiveTooSmall_BothSidesAreTold) {
  connect();
  const auto source = a_->memory(65);
  const auto target = b_->memory(128);
  target->fill(0x55);
  ASSERT_EQ(post_receive(*b_, 1, target.get(), 0, 64), 0);
  ASSERT_EQ(post_receive(*b_, 2, target.get(), 0, 64), 0);
  SendWr wr(IBV_WR_SEND);
  EXPECT_EQ(run(wr.from(*source, 0, 65)), IBV_WC_REM_INV_REQ_ERR);
  ASSERT_TRUE(wait_receives(*b_, 2));
  EXPECT_EQ(b_->receives[0].status, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(b_->receives[0].wr_id, 1U);
  EXPECT_EQ(b_->receives[1].status, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(target->get(64, 64), Bytes(64, 0x55));
  EXPECT_EQ(b_->state(), IBV_QPS_ERR);
  EXPECT_EQ(a_->state(), IBV_QPS_ERR);
}

TEST_P(LocalErrors, ReceiveTooSmallForLaterPackets_BothSidesAreTold) {
  connect();
  const auto source = a_->memory(20'000);
  const auto target = b_->memory(20'000);
  ASSERT_EQ(post_receive(*b_, 1, target.get(), 0, 19'999), 0);
  SendWr wr(IBV_WR_SEND);
  EXPECT_EQ(run(wr.from(*source, 0, 20'000)), IBV_WC_REM_INV_REQ_ERR);
  ASSERT_TRUE(wait_receives(*b_, 1));
  EXPECT_EQ(b_->receives[0].status, IBV_WC_LOC_LEN_ERR);
}

TEST_P(LocalErrors, ReceiveWithUnknownLkey_BothSidesAreTold) {
  connect();
  const auto source = a_->memory(64);
  const auto target = b_->memory(64);
  ibv_sge sge{target->address(), 64, target->lkey() ^ 0x5A5A};
  ibv_recv_wr receive{};
  receive.wr_id = 9;
  receive.sg_list = &sge;
  receive.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(b_->qp, &receive, &bad), 0);
  SendWr wr(IBV_WR_SEND);
  EXPECT_EQ(run(wr.from(*source, 0, 64)), IBV_WC_REM_OP_ERR);
  ASSERT_TRUE(wait_receives(*b_, 1));
  EXPECT_EQ(b_->receives[0].status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(b_->receives[0].wr_id, 9U);
  EXPECT_EQ(b_->state(), IBV_QPS_ERR);
}

TEST_P(LocalErrors, ReceiveIntoRegionWithoutLocalWrite_BothSidesAreTold) {
  connect();
  const auto source = a_->memory(64);
  const auto target = b_->memory(64, 0);
  target->fill(0x66);
  ASSERT_EQ(post_receive(*b_, 1, target.get(), 0, 64), 0);
  SendWr wr(IBV_WR_SEND);
  EXPECT_EQ(run(wr.from(*source, 0, 64)), IBV_WC_REM_OP_ERR);
  ASSERT_TRUE(wait_receives(*b_, 1));
  EXPECT_EQ(b_->receives[0].status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(target->get(0, 64), Bytes(64, 0x66));
}

TEST_P(LocalErrors, OpcodeThatRcDoesNotHave_Refused) {
  connect();
  SendWr wr(IBV_WR_TSO);  // of raw packet QPs
  const int error = wr.post(a_->qp);
  EXPECT_TRUE(error == EINVAL || error == EOPNOTSUPP) << error;
  SendWr still_fine(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(still_fine), IBV_WC_SUCCESS);
}

TEST_P(LocalErrors, LongerThanThePortAllows_Refused) {
  connect();
  const std::uint64_t limit = a_->port.max_msg_sz;
  if (limit >= 0xFFFF'FFFFU) GTEST_SKIP() << "the port has no limit below 4 GiB";
  // The region claims more than it has; no byte of it may be touched before the refusal.
  const auto source = a_->memory(64);
  const auto target = b_->memory(64);
  SendWr wr(IBV_WR_RDMA_WRITE);
  wr.sge(source->address(), static_cast<std::uint32_t>(limit + 1), source->lkey()).to(*target);
  const int error = wr.post(a_->qp);
  if (error == 0) {
    ASSERT_TRUE(wait_sends(*a_, 1));
    EXPECT_TRUE(a_->sends[0].status == IBV_WC_LOC_LEN_ERR ||
                a_->sends[0].status == IBV_WC_LOC_QP_OP_ERR)
        << ibv_wc_status_str(a_->sends[0].status);
  } else {
    EXPECT_EQ(error, EINVAL);
  }
}

TEST_P(LocalErrors, ReadOrAtomicWithoutRequesterResources_LocalQpOperationError) {
  for (const ibv_wr_opcode opcode : {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    SCOPED_TRACE(opcode);
    TearDown();
    SetUp();
    RcOptions rc = patient();
    rc.max_rd_atomic = 0;
    connect({}, rc);
    const auto local = a_->memory(8);
    const auto remote = b_->memory(8);
    SendWr wr(opcode);
    EXPECT_EQ(run(wr.from(*local, 0, 8).to(*remote)), IBV_WC_LOC_QP_OP_ERR);
  }
}

}  // namespace
}  // namespace braid::verbs::conformance
