#include <arpa/inet.h>

#include "verbs/conformance/conformance_fixture.h"

// Every opcode that moves bytes, at the sizes where packets are cut.
namespace braid::verbs::conformance {
namespace {

std::vector<std::size_t> sizes(const Endpoint& endpoint) {
  const std::size_t mtu = mtu_bytes(endpoint.port.active_mtu);
  return {0, 1, mtu - 1, mtu, mtu + 1, 3 * mtu + 5, 1U << 20U};
}

constexpr std::size_t kMargin = 64;  // inside the region, before and after the target

/// Bytes of `memory` outside [kMargin, kMargin + bytes) are still `value`.
void expect_margin(const Memory& memory, std::size_t bytes, std::uint8_t value) {
  const std::size_t after = kMargin + bytes;
  EXPECT_EQ(memory.get(0, kMargin), Bytes(kMargin, value));
  EXPECT_EQ(memory.get(after, memory.size() - after), Bytes(memory.size() - after, value));
}

TEST_P(DataTransfer, Write_EverySize_ExactBytesAndNoOthers) {
  connect();
  for (const std::size_t bytes : sizes(*a_)) {
    SCOPED_TRACE(bytes);
    const auto source = a_->memory(bytes + 1);
    const auto target = b_->memory(bytes + 2 * kMargin);
    const Bytes content = pattern(bytes, bytes + 1);
    source->set(0, content);
    target->fill(0xEE);
    SendWr wr(IBV_WR_RDMA_WRITE, bytes);
    wr.from(*source, 0, bytes).to(*target, kMargin);
    ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
    EXPECT_EQ(a_->sends.back().opcode, IBV_WC_RDMA_WRITE);
    EXPECT_EQ(a_->sends.back().wr_id, bytes);
    EXPECT_EQ(a_->sends.back().qp_num, a_->qp->qp_num);
    EXPECT_EQ(target->get(kMargin, bytes), content);
    expect_margin(*target, bytes, 0xEE);
  }
  settle();
  EXPECT_TRUE(b_->receives.empty());
  EXPECT_TRUE(b_->sends.empty());
}

TEST_P(DataTransfer, WriteWithImm_EverySize_OneReceiveSaysLengthAndImm) {
  connect();
  for (const std::size_t bytes : sizes(*a_)) {
    SCOPED_TRACE(bytes);
    const auto source = a_->memory(bytes + 1);
    const auto target = b_->memory(bytes + 2 * kMargin);
    const Bytes content = pattern(bytes, bytes + 2);
    source->set(0, content);
    target->fill(0xEE);
    b_->receives.clear();
    ASSERT_EQ(post_receive(*b_, 1000 + bytes), 0);
    SendWr wr(IBV_WR_RDMA_WRITE_WITH_IMM, bytes);
    wr.from(*source, 0, bytes).to(*target, kMargin).imm(0x80ABCDEF);
    ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
    EXPECT_EQ(a_->sends.back().opcode, IBV_WC_RDMA_WRITE);
    ASSERT_TRUE(wait_receives(*b_, 1));
    const ibv_wc& wc = b_->receives.front();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    EXPECT_EQ(wc.wr_id, 1000 + bytes);
    EXPECT_EQ(wc.byte_len, bytes);
    EXPECT_NE(wc.wc_flags & IBV_WC_WITH_IMM, 0U);
    EXPECT_EQ(ntohl(wc.imm_data), 0x80ABCDEFU);
    EXPECT_EQ(wc.qp_num, b_->qp->qp_num);
    EXPECT_EQ(target->get(kMargin, bytes), content);
    expect_margin(*target, bytes, 0xEE);
  }
}

TEST_P(DataTransfer, Send_EverySize_FillsTheReceiveFromItsStart) {
  connect();
  for (const std::size_t bytes : sizes(*a_)) {
    SCOPED_TRACE(bytes);
    const auto source = a_->memory(bytes + 1);
    const auto target = b_->memory(bytes + 2 * kMargin);
    const Bytes content = pattern(bytes, bytes + 3);
    source->set(0, content);
    target->fill(0xEE);
    b_->receives.clear();
    // Longer than the message: the rest must stay as it is.
    ASSERT_EQ(post_receive(*b_, 7, target.get(), kMargin, bytes + kMargin), 0);
    SendWr wr(IBV_WR_SEND, 3);
    wr.from(*source, 0, bytes);
    ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
    EXPECT_EQ(a_->sends.back().opcode, IBV_WC_SEND);
    ASSERT_TRUE(wait_receives(*b_, 1));
    const ibv_wc& wc = b_->receives.front();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.wr_id, 7U);
    EXPECT_EQ(wc.byte_len, bytes);
    EXPECT_EQ(wc.wc_flags & IBV_WC_WITH_IMM, 0U);
    EXPECT_EQ(target->get(kMargin, bytes), content);
    expect_margin(*target, bytes, 0xEE);
  }
}

TEST_P(DataTransfer, SendWithImm_EverySize_ImmBesideTheBytes) {
  connect();
  for (const std::size_t bytes : sizes(*a_)) {
    SCOPED_TRACE(bytes);
    const auto source = a_->memory(bytes + 1);
    const auto target = b_->memory(bytes + 1);
    const Bytes content = pattern(bytes, bytes + 4);
    source->set(0, content);
    b_->receives.clear();
    ASSERT_EQ(post_receive(*b_, 8, target.get(), 0, bytes), 0);
    SendWr wr(IBV_WR_SEND_WITH_IMM);
    wr.from(*source, 0, bytes).imm(0x01020304);
    ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
    ASSERT_TRUE(wait_receives(*b_, 1));
    const ibv_wc& wc = b_->receives.front();
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.opcode, IBV_WC_RECV);
    EXPECT_EQ(wc.byte_len, bytes);
    EXPECT_NE(wc.wc_flags & IBV_WC_WITH_IMM, 0U);
    EXPECT_EQ(ntohl(wc.imm_data), 0x01020304U);
    EXPECT_EQ(target->get(0, bytes), content);
  }
}

TEST_P(DataTransfer, Read_EverySize_ExactBytesAndNoOthers) {
  connect();
  for (const std::size_t bytes : sizes(*a_)) {
    SCOPED_TRACE(bytes);
    const auto target = a_->memory(bytes + 2 * kMargin);
    const auto source = b_->memory(bytes + 1);
    const Bytes content = pattern(bytes, bytes + 5);
    source->set(0, content);
    target->fill(0xEE);
    SendWr wr(IBV_WR_RDMA_READ, bytes);
    wr.from(*target, kMargin, bytes).to(*source);
    ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
    EXPECT_EQ(a_->sends.back().opcode, IBV_WC_RDMA_READ);
    EXPECT_EQ(a_->sends.back().byte_len, bytes);
    EXPECT_EQ(target->get(kMargin, bytes), content);
    expect_margin(*target, bytes, 0xEE);
    EXPECT_EQ(source->get(0, bytes), content);
  }
}

// Fault: A17
TEST_P(DataTransfer, ZeroLength_NeedsNeitherKeyNorAddress) {
  connect();
  ASSERT_EQ(post_receive(*b_, 1), 0);
  SendWr write(IBV_WR_RDMA_WRITE);
  write.to_address(0xDEAD'0000, 0xFFFF'FFFF);
  EXPECT_EQ(run(write), IBV_WC_SUCCESS);
  SendWr read(IBV_WR_RDMA_READ);
  read.to_address(0xDEAD'0000, 0xFFFF'FFFF);
  EXPECT_EQ(run(read), IBV_WC_SUCCESS);
  SendWr notify(IBV_WR_RDMA_WRITE_WITH_IMM);
  notify.to_address(0, 0).imm(5);
  EXPECT_EQ(run(notify), IBV_WC_SUCCESS);
  ASSERT_TRUE(wait_receives(*b_, 1));
  EXPECT_EQ(b_->receives.front().byte_len, 0U);
  EXPECT_EQ(ntohl(b_->receives.front().imm_data), 5U);
}

TEST_P(DataTransfer, BothDirectionsAtOnce_NeitherDisturbsTheOther) {
  connect();
  constexpr std::size_t kBytes = 256U << 10U;
  const auto at_a = a_->memory(2 * kBytes);
  const auto at_b = b_->memory(2 * kBytes);
  at_a->set(0, pattern(kBytes, 1));
  at_b->set(0, pattern(kBytes, 2));
  SendWr forth(IBV_WR_RDMA_WRITE);
  SendWr back(IBV_WR_RDMA_WRITE);
  ASSERT_EQ(forth.from(*at_a, 0, kBytes).to(*at_b, kBytes).post(a_->qp), 0);
  ASSERT_EQ(back.from(*at_b, 0, kBytes).to(*at_a, kBytes).post(b_->qp), 0);
  ASSERT_TRUE(wait_for([&] {
    a_->drain();
    b_->drain();
    return !a_->sends.empty() && !b_->sends.empty();
  }));
  EXPECT_EQ(a_->sends.front().status, IBV_WC_SUCCESS);
  EXPECT_EQ(b_->sends.front().status, IBV_WC_SUCCESS);
  EXPECT_EQ(at_b->get(kBytes, kBytes), pattern(kBytes, 1));
  EXPECT_EQ(at_a->get(kBytes, kBytes), pattern(kBytes, 2));
}

TEST_P(DataTransfer, SendWithInvalidate_WhereAdvertised_KeyIsGone) {
  connect();
  if ((a_->device.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) == 0) {
    GTEST_SKIP() << "the device does not advertise IBV_DEVICE_MEM_MGT_EXTENSIONS";
  }
  const auto source = a_->memory(64);
  const auto victim = b_->memory(64);
  ASSERT_EQ(post_receive(*b_, 1, victim.get(), 0, 64), 0);
  ibv_sge sge{source->address(), 16, source->lkey()};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_SEND_WITH_INV;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.invalidate_rkey = victim->rkey();
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a_->qp, &wr, &bad), 0);
  ASSERT_TRUE(wait_receives(*b_, 1));
  EXPECT_NE(b_->receives.front().wc_flags & IBV_WC_WITH_INV, 0U);
  EXPECT_EQ(b_->receives.front().invalidated_rkey, victim->rkey());
}

}  // namespace
}  // namespace braid::verbs::conformance
