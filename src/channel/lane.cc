#include "channel/lane.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cassert>
#include <cerrno>

namespace braid::channel {

void Lane::bind(ibv_qp* qp, std::uint32_t lane) noexcept {
  qp_ = qp;
  lane_ = lane;
  staged_ = 0;
  for (std::uint32_t i = 0; i < kChain; ++i) {
    ibv_send_wr& wr = send_[i];
    wr = ibv_send_wr{};
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.sg_list = &sge_[i];
    receive_[i] = ibv_recv_wr{};
    // An announcement brings no data of its own, so the receive needs no buffer.
    receive_[i].wr_id = make_wr_id(WorkKind::kReceive, lane, 0);
    receive_[i].next = i + 1 < kChain ? &receive_[i + 1] : nullptr;
  }
}

void Lane::stage(const SegmentPost& post) noexcept {
  assert(!chain_full());
  ibv_send_wr& wr = send_[staged_];
  assert(wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM && wr.send_flags == IBV_SEND_SIGNALED);
  wr.wr_id = make_wr_id(WorkKind::kSegment, lane_, post.imm.sequence.value());
  wr.imm_data = htonl(encode_imm(post.imm));
  wr.wr.rdma.remote_addr = post.remote_address;
  wr.wr.rdma.rkey = post.rkey;
  // A length of 0 in an SGE means 2^31 bytes, so an empty segment has no SGE at all.
  wr.num_sge = post.bytes == 0 ? 0 : 1;
  sge_[staged_] = {post.local_address, post.bytes, post.lkey};
  ++staged_;
}

int Lane::post() noexcept {
  if (staged_ == 0) return 0;
  for (std::uint32_t i = 0; i + 1 < staged_; ++i) send_[i].next = &send_[i + 1];
  send_[staged_ - 1].next = nullptr;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_, send_.data(), &bad);
  if (error == 0) {
    staged_ = 0;
    return 0;
  }
  // Those before bad are posted; the rest moves to the front and keeps its order.
  const auto posted =
      bad == nullptr ? 0U : static_cast<std::uint32_t>(std::distance(send_.data(), bad));
  for (std::uint32_t i = posted; i < staged_; ++i) {
    ibv_send_wr& to = send_[i - posted];
    ibv_sge* sge = to.sg_list;
    *sge = *send_[i].sg_list;
    to = send_[i];
    to.sg_list = sge;
  }
  staged_ -= posted;
  return error;
}

int Lane::post_receives(std::uint32_t count) noexcept {
  while (count > 0) {
    const std::uint32_t chain = std::min(count, kChain);
    ibv_recv_wr* bad = nullptr;
    // The chain is linked for good; the end of a shorter one is cut and mended.
    receive_[chain - 1].next = nullptr;
    const int error = ibv_post_recv(qp_, receive_.data(), &bad);
    receive_[chain - 1].next = chain < kChain ? &receive_[chain] : nullptr;
    if (error != 0) return error;
    count -= chain;
  }
  return 0;
}

}  // namespace braid::channel
