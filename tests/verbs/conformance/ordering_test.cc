#include <arpa/inet.h>

#include <algorithm>

#include "verbs/conformance/conformance_fixture.h"

// Order of completions and of effects; chains; signalling; limits of outstanding READs.
namespace braid::verbs::conformance {
namespace {

TEST_P(Ordering, Unsignaled_OnlySignaledOnesComplete) {
  connect();
  const auto source = a_->memory(4096);
  const auto target = b_->memory(4096);
  source->set(0, pattern(4096, 1));
  for (std::uint64_t i = 0; i < 32; ++i) {
    SendWr wr(IBV_WR_RDMA_WRITE, i);
    wr.from(*source, 128 * i, 128).to(*target, 128 * i);
    ASSERT_EQ(wr.flags(i % 8 == 7 ? IBV_SEND_SIGNALED : 0).post(a_->qp), 0);
  }
  ASSERT_TRUE(wait_sends(*a_, 4));
  settle();
  ASSERT_EQ(a_->sends.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(a_->sends[i].wr_id, 8 * i + 7);
  EXPECT_EQ(target->get(0, 4096), source->get(0, 4096));
}

TEST_P(Ordering, Unsignaled_SlotsAreReclaimedByTheNextSignaled) {
  EndpointOptions options;
  options.send_wr = 16;
  connect(options);
  const auto source = a_->memory(8);
  const auto target = b_->memory(8);
  const std::uint32_t depth = a_->cap.max_send_wr;
  for (std::size_t round = 0; round < 5; ++round) {
    for (std::uint32_t i = 0; i < depth; ++i) {
      SendWr wr(IBV_WR_RDMA_WRITE, round);
      wr.from(*source, 0, 8).to(*target);
      ASSERT_EQ(wr.flags(i + 1 == depth ? IBV_SEND_SIGNALED : 0).post(a_->qp), 0) << round << i;
    }
    ASSERT_TRUE(wait_sends(*a_, round + 1));
  }
}

TEST_P(Ordering, SignalAll_UnflaggedOnesCompleteToo) {
  EndpointOptions options;
  options.signal_all = true;
  connect(options);
  SendWr wr(IBV_WR_RDMA_WRITE, 77);
  ASSERT_EQ(wr.to_address(0, 0).flags(0).post(a_->qp), 0);
  ASSERT_TRUE(wait_sends(*a_, 1));
  EXPECT_EQ(a_->sends.front().wr_id, 77U);
}

TEST_P(Ordering, MixedOpcodes_CompleteInPostOrder) {
  connect();
  const auto local = a_->memory(64U << 10U);
  const auto remote = b_->memory(64U << 10U);
  const ibv_wr_opcode cycle[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
                                 IBV_WR_RDMA_WRITE};
  constexpr std::uint64_t kCount = 100;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    SendWr wr(cycle[i % 4], i);
    const std::size_t bytes = i % 4 == 2 ? 8 : 1 + (i * 977) % 9000;
    ASSERT_EQ(wr.from(*local, 0, bytes).to(*remote).post(a_->qp), 0);
  }
  ASSERT_TRUE(wait_sends(*a_, kCount));
  for (std::uint64_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(a_->sends[i].status, IBV_WC_SUCCESS);
    EXPECT_EQ(a_->sends[i].wr_id, i);
  }
}

TEST_P(Ordering, WritesThenImm_DataIsThereWhenTheImmArrives) {
  connect();
  constexpr std::size_t kBytes = 100'000;
  const auto source = a_->memory(kBytes);
  const auto target = b_->memory(kBytes);
  source->set(0, pattern(kBytes, 3));
  ASSERT_EQ(post_receive(*b_, 1), 0);
  SendWr write(IBV_WR_RDMA_WRITE);
  SendWr notify(IBV_WR_RDMA_WRITE_WITH_IMM);
  ASSERT_EQ(write.from(*source, 0, kBytes).to(*target).flags(0).post(a_->qp), 0);
  ASSERT_EQ(notify.to_address(0, 0).imm(1).post(a_->qp), 0);
  // Looked at when the receive completes, not when the sender has heard of it.
  ASSERT_TRUE(wait_receives(*b_, 1));
  EXPECT_EQ(target->get(0, kBytes), source->get(0, kBytes));
}

TEST_P(Ordering, ReceivesAreTakenInPostOrder) {
  connect();
  for (std::uint64_t i = 0; i < 20; ++i) ASSERT_EQ(post_receive(*b_, i), 0);
  for (std::uint32_t i = 0; i < 20; ++i) {
    SendWr wr(i % 2 == 0 ? IBV_WR_SEND_WITH_IMM : IBV_WR_RDMA_WRITE_WITH_IMM);
    ASSERT_EQ(wr.imm(i).post(a_->qp), 0);
  }
  ASSERT_TRUE(wait_receives(*b_, 20));
  for (std::uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(b_->receives[i].wr_id, i);
    EXPECT_EQ(ntohl(b_->receives[i].imm_data), i);
  }
}

// Requirement: 25
TEST_P(Ordering, FenceAfterRead_WriteCarriesWhatTheReadBrought) {
  connect();
  constexpr std::size_t kBytes = 300'000;
  const auto bounce = a_->memory(kBytes);
  const auto source = b_->memory(kBytes);
  const auto target = b_->memory(kBytes);
  for (std::uint64_t round = 0; round < 4; ++round) {
    source->set(0, pattern(kBytes, round));
    bounce->fill(0xFF);
    SendWr read(IBV_WR_RDMA_READ);
    SendWr write(IBV_WR_RDMA_WRITE);
    read.from(*bounce, 0, kBytes).to(*source).flags(0);
    write.from(*bounce, 0, kBytes).to(*target).flags(IBV_SEND_SIGNALED | IBV_SEND_FENCE);
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(a_->qp, read.link(write.link(nullptr)), &bad), 0);
    ASSERT_TRUE(wait_sends(*a_, round + 1));
    EXPECT_EQ(a_->sends.back().status, IBV_WC_SUCCESS);
    EXPECT_EQ(target->get(0, kBytes), pattern(kBytes, round));
  }
}

TEST_P(Ordering, ReadAfterWrite_SeesTheWrite) {
  connect();
  constexpr std::size_t kBytes = 50'000;
  const auto local = a_->memory(2 * kBytes);
  const auto remote = b_->memory(kBytes);
  local->set(0, pattern(kBytes, 8));
  SendWr write(IBV_WR_RDMA_WRITE);
  SendWr read(IBV_WR_RDMA_READ);
  ASSERT_EQ(write.from(*local, 0, kBytes).to(*remote).flags(0).post(a_->qp), 0);
  ASSERT_EQ(read.from(*local, kBytes, kBytes).to(*remote).post(a_->qp), 0);
  ASSERT_TRUE(wait_sends(*a_, 1));
  EXPECT_EQ(local->get(kBytes, kBytes), pattern(kBytes, 8));
}

TEST_P(Ordering, MoreReadsThanAllowedInFlight_AllComplete) {
  for (const std::uint8_t limit : {std::uint8_t{1}, std::uint8_t{3}, std::uint8_t{16}}) {
    SCOPED_TRACE(int{limit});
    TearDown();
    SetUp();
    RcOptions rc = patient();
    rc.max_rd_atomic = limit;
    connect({}, rc);
    constexpr std::size_t kCount = 60;
    constexpr std::size_t kBytes = 5000;
    const auto local = a_->memory(kCount * kBytes);
    const auto remote = b_->memory(kCount * kBytes);
    remote->set(0, pattern(kCount * kBytes, limit));
    for (std::size_t i = 0; i < kCount; ++i) {
      SendWr wr(IBV_WR_RDMA_READ, i);
      wr.from(*local, i * kBytes, kBytes).to(*remote, i * kBytes);
      ASSERT_EQ(wr.post(a_->qp), 0);
    }
    ASSERT_TRUE(wait_sends(*a_, kCount));
    for (const ibv_wc& wc : a_->sends) EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(local->get(0, kCount * kBytes), remote->get(0, kCount * kBytes));
  }
}

TEST_P(Ordering, Chain_PostsAllInOrder) {
  connect();
  std::vector<std::unique_ptr<SendWr>> wrs;
  ibv_send_wr* first = nullptr;
  for (std::uint64_t i = 10; i-- > 0;) {
    wrs.push_back(std::make_unique<SendWr>(IBV_WR_RDMA_WRITE, i));
    first = wrs.back()->link(first);
  }
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a_->qp, first, &bad), 0);
  ASSERT_TRUE(wait_sends(*a_, 10));
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(a_->sends[i].wr_id, i);
}

TEST_P(Ordering, ChainWithABadOne_EarlierStandLaterAreNotPosted) {
  connect();
  const auto source = a_->memory(64);
  const auto target = b_->memory(64);
  target->fill(0);
  source->fill(0x5A);
  SendWr first(IBV_WR_RDMA_WRITE, 1);
  SendWr second(IBV_WR_RDMA_WRITE, 2);
  SendWr invalid(IBV_WR_RDMA_WRITE, 3);
  SendWr last(IBV_WR_RDMA_WRITE, 4);
  first.from(*source, 0, 16).to(*target, 0);
  second.from(*source, 0, 16).to(*target, 16);
  for (std::uint32_t i = 0; i <= a_->cap.max_send_sge; ++i) invalid.from(*source, 0, 1);
  invalid.to(*target, 32);
  last.from(*source, 0, 16).to(*target, 48);
  ibv_send_wr* bad_one = invalid.link(last.link(nullptr));
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(a_->qp, first.link(second.link(bad_one)), &bad);
  EXPECT_TRUE(error == EINVAL || error == ENOMEM) << error;
  EXPECT_EQ(bad, bad_one);
  ASSERT_TRUE(wait_sends(*a_, 2));
  settle();
  ASSERT_EQ(a_->sends.size(), 2U);
  EXPECT_EQ(a_->sends[0].wr_id, 1U);
  EXPECT_EQ(a_->sends[1].wr_id, 2U);
  EXPECT_EQ(target->get(0, 32), Bytes(32, 0x5A));
  EXPECT_EQ(target->get(32, 32), Bytes(32, 0));
  EXPECT_EQ(a_->state(), IBV_QPS_RTS);  // a refused post does no harm to the QP
}

TEST_P(Ordering, ReceiveChainWithABadOne_EarlierStandLaterAreNotPosted) {
  connect();
  std::vector<ibv_sge> too_many(b_->cap.max_recv_sge + 1);
  ibv_recv_wr wrs[3] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    wrs[i].wr_id = i + 1;
    wrs[i].next = i < 2 ? &wrs[i + 1] : nullptr;
  }
  wrs[1].sg_list = too_many.data();
  wrs[1].num_sge = static_cast<int>(too_many.size());
  ibv_recv_wr* bad = nullptr;
  EXPECT_NE(ibv_post_recv(b_->qp, wrs, &bad), 0);
  EXPECT_EQ(bad, &wrs[1]);
  ASSERT_TRUE(to_error(b_->api, b_->qp).ok());
  ASSERT_TRUE(wait_receives(*b_, 1));
  settle();
  ASSERT_EQ(b_->receives.size(), 1U);
  EXPECT_EQ(b_->receives.front().wr_id, 1U);
}

}  // namespace
}  // namespace braid::verbs::conformance
