#include <algorithm>
#include <numeric>

#include "verbs/conformance/conformance_fixture.h"

// Scatter and gather lists, inline data.
namespace braid::verbs::conformance {
namespace {

/// Lengths that cut packets at odd places, with empty ones at both ends and in the middle.
const std::vector<std::size_t> kPieces = {0, 1, 4095, 3,    0, 513, 1025, 7,
                                          0, 2, 8191, 4097, 1, 31,  64,   0};

std::size_t total_of(const std::vector<std::size_t>& pieces) {
  return std::accumulate(pieces.begin(), pieces.end(), std::size_t{0});
}

/// Positions of the pieces in a region: in reverse order with gaps, so that a device that merely
/// runs on from piece to piece is found out.
std::vector<std::size_t> scattered_offsets(const std::vector<std::size_t>& pieces) {
  constexpr std::size_t kGap = 5;
  std::vector<std::size_t> offsets(pieces.size());
  std::size_t at = kGap;
  for (std::size_t i = pieces.size(); i-- > 0;) {
    offsets[i] = at;
    at += pieces[i] + kGap;
  }
  return offsets;
}

std::size_t room_for(const std::vector<std::size_t>& pieces) {
  return total_of(pieces) + 5 * (pieces.size() + 1);
}

Bytes gather(const Memory& memory, const std::vector<std::size_t>& pieces) {
  const std::vector<std::size_t> offsets = scattered_offsets(pieces);
  Bytes result;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const Bytes piece = memory.get(offsets[i], pieces[i]);
    result.insert(result.end(), piece.begin(), piece.end());
  }
  return result;
}

void add_pieces(SendWr& wr, const Memory& memory, const std::vector<std::size_t>& pieces) {
  const std::vector<std::size_t> offsets = scattered_offsets(pieces);
  for (std::size_t i = 0; i < pieces.size(); ++i) wr.from(memory, offsets[i], pieces[i]);
}

TEST_P(GatherScatter, SixteenOddEntries_WriteGathersInListOrder) {
  connect();
  const std::size_t total = total_of(kPieces);
  const auto source = a_->memory(room_for(kPieces));
  const auto target = b_->memory(total);
  source->set(0, pattern(source->size(), 1));
  SendWr wr(IBV_WR_RDMA_WRITE);
  add_pieces(wr, *source, kPieces);
  wr.to(*target);
  ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
  EXPECT_EQ(target->get(0, total), gather(*source, kPieces));
}

TEST_P(GatherScatter, SixteenOddEntries_ReadScattersInListOrder) {
  connect();
  const std::size_t total = total_of(kPieces);
  const auto target = a_->memory(room_for(kPieces));
  const auto source = b_->memory(total);
  source->set(0, pattern(total, 2));
  target->fill(0);
  SendWr wr(IBV_WR_RDMA_READ);
  add_pieces(wr, *target, kPieces);
  wr.to(*source);
  ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
  EXPECT_EQ(gather(*target, kPieces), source->get(0, total));
  const Bytes all = target->get(0, target->size());
  EXPECT_EQ(std::accumulate(all.begin(), all.end(), std::uint64_t{0}), [&] {
    const Bytes sent = source->get(0, total);
    return std::accumulate(sent.begin(), sent.end(), std::uint64_t{0});
  }()) << "the gaps were written";
}

TEST_P(GatherScatter, SixteenOddEntries_ReceiveScattersInListOrder) {
  connect();
  const std::size_t total = total_of(kPieces);
  const auto source = a_->memory(total);
  const auto target = b_->memory(room_for(kPieces));
  source->set(0, pattern(total, 3));
  const std::vector<std::size_t> offsets = scattered_offsets(kPieces);
  std::vector<ibv_sge> sges;
  for (std::size_t i = 0; i < kPieces.size(); ++i) {
    sges.push_back(
        {target->address(offsets[i]), static_cast<std::uint32_t>(kPieces[i]), target->lkey()});
  }
  ibv_recv_wr receive{};
  receive.sg_list = sges.data();
  receive.num_sge = static_cast<int>(sges.size());
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(b_->qp, &receive, &bad), 0);
  SendWr wr(IBV_WR_SEND);
  wr.from(*source, 0, total);
  ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
  ASSERT_TRUE(wait_receives(*b_, 1));
  EXPECT_EQ(b_->receives.front().byte_len, total);
  EXPECT_EQ(gather(*target, kPieces), source->get(0, total));
}

TEST_P(GatherScatter, ListsAreReadAtPost_CallerMayReuseThem) {
  connect();
  const auto source = a_->memory(128);
  const auto target = b_->memory(64);
  source->set(0, pattern(128, 4));
  ibv_sge sge{source->address(), 64, source->lkey()};
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.wr.rdma = {target->address(), target->rkey()};
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(a_->qp, &wr, &bad), 0);
  sge = {};
  wr = {};
  ASSERT_TRUE(wait_sends(*a_, 1));
  EXPECT_EQ(target->get(0, 64), source->get(0, 64));
}

TEST_P(GatherScatter, Inline_BufferReusableAtOnceAndNeedsNoKey) {
  connect();
  ASSERT_GE(a_->cap.max_inline_data, 64U);
  const auto target = b_->memory(64);
  Bytes content = pattern(64, 5);
  const Bytes original = content;
  SendWr wr(IBV_WR_RDMA_WRITE);
  wr.sge(reinterpret_cast<std::uint64_t>(content.data()), 24, 0)
      .sge(reinterpret_cast<std::uint64_t>(content.data() + 24), 40, 0)
      .to(*target)
      .flags(IBV_SEND_SIGNALED | IBV_SEND_INLINE);
  ASSERT_EQ(wr.post(a_->qp), 0);
  std::fill(content.begin(), content.end(), std::uint8_t{0});
  ASSERT_TRUE(wait_sends(*a_, 1));
  EXPECT_EQ(a_->sends.front().status, IBV_WC_SUCCESS);
  EXPECT_EQ(target->get(0, 64), original);
}

TEST_P(GatherScatter, InlineSend_AtTheLimitPasses_OnePastItIsRefused) {
  connect();
  const std::size_t limit = a_->cap.max_inline_data;
  Bytes content = pattern(limit + 1, 6);
  const auto target = b_->memory(limit + 1);
  ASSERT_EQ(post_receive(*b_, 1, target.get(), 0, limit + 1), 0);
  const auto base = reinterpret_cast<std::uint64_t>(content.data());
  SendWr at_limit(IBV_WR_SEND);
  at_limit.sge(base, static_cast<std::uint32_t>(limit), 0);
  at_limit.flags(IBV_SEND_SIGNALED | IBV_SEND_INLINE);
  ASSERT_EQ(run(at_limit), IBV_WC_SUCCESS);
  ASSERT_TRUE(wait_receives(*b_, 1));
  content.resize(limit);
  EXPECT_EQ(target->get(0, limit), content);

  content.resize(limit + 1);
  SendWr beyond(IBV_WR_SEND);
  beyond.sge(reinterpret_cast<std::uint64_t>(content.data()), static_cast<std::uint32_t>(limit + 1),
             0);
  beyond.flags(IBV_SEND_SIGNALED | IBV_SEND_INLINE);
  const int error = beyond.post(a_->qp);
  EXPECT_TRUE(error == EINVAL || error == ENOMEM) << error;
}

TEST_P(GatherScatter, ListAtTheLimitPasses_OnePastItIsRefused) {
  connect();
  const auto source = a_->memory(256);
  const auto target = b_->memory(256);
  SendWr at_limit(IBV_WR_RDMA_WRITE);
  SendWr beyond(IBV_WR_RDMA_WRITE);
  for (std::uint32_t i = 0; i <= a_->cap.max_send_sge; ++i) {
    if (i < a_->cap.max_send_sge) at_limit.from(*source, i, 1);
    beyond.from(*source, i, 1);
  }
  EXPECT_EQ(run(at_limit.to(*target)), IBV_WC_SUCCESS);
  const int error = beyond.to(*target).post(a_->qp);
  EXPECT_TRUE(error == EINVAL || error == ENOMEM) << error;

  std::vector<ibv_sge> sges(a_->cap.max_recv_sge + 1, {source->address(), 1, source->lkey()});
  ibv_recv_wr receive{};
  receive.sg_list = sges.data();
  receive.num_sge = static_cast<int>(sges.size());
  ibv_recv_wr* bad = nullptr;
  EXPECT_NE(ibv_post_recv(a_->qp, &receive, &bad), 0);
  EXPECT_EQ(bad, &receive);
}

}  // namespace
}  // namespace braid::verbs::conformance
