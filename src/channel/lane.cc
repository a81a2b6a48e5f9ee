#include "channel/lane.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cassert>

namespace braid::channel {

void Lane::bind(ibv_qp* qp, std::uint32_t lane, std::uint8_t tag) noexcept {
  qp_ = qp;
  lane_ = lane;
  tag_ = tag;
  sends_ = 0;
  receives_ = 0;
  segments_.prepare(IBV_WR_RDMA_WRITE_WITH_IMM);
  fetches_.prepare(IBV_WR_RDMA_READ);
  for (std::uint32_t i = 0; i < kReceiveChain; ++i) {
    receive_[i] = ibv_recv_wr{};
    // An announcement brings no data of its own, so the receive needs no buffer.
    receive_[i].wr_id = make_wr_id(WorkKind::kReceive, tag, lane, 0);
    receive_[i].next = i + 1 < kReceiveChain ? &receive_[i + 1] : nullptr;
  }
}

void Lane::stage(const SegmentPost& post) noexcept {
  ibv_send_wr& wr = segments_.stage(post.local_address, post.bytes, post.lkey);
  assert(wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM);
  wr.wr_id = make_wr_id(WorkKind::kSegment, tag_, lane_, post.imm.sequence.value());
  wr.imm_data = htonl(encode_imm(post.imm));
  wr.wr.rdma.remote_addr = post.remote_address;
  wr.wr.rdma.rkey = post.rkey;
}

void Lane::stage(const FetchPost& post) noexcept {
  ibv_send_wr& wr = fetches_.stage(post.local_address, post.bytes, post.lkey);
  wr.wr_id = make_wr_id(WorkKind::kFetch, tag_, lane_, post.number);
  if (post.kind == OperationKind::kGet) {
    wr.opcode = IBV_WR_RDMA_READ;
    wr.wr.rdma.remote_addr = post.remote_address;
    wr.wr.rdma.rkey = post.rkey;
    return;
  }
  const bool add = post.kind == OperationKind::kFetchAdd;
  wr.opcode = add ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_ATOMIC_CMP_AND_SWP;
  wr.wr.atomic.remote_addr = post.remote_address;
  wr.wr.atomic.rkey = post.rkey;
  wr.wr.atomic.compare_add = add ? post.operand : post.compare;
  wr.wr.atomic.swap = add ? 0 : post.operand;
}

int Lane::post_receives(std::uint32_t count) noexcept {
  while (count > 0) {
    const std::uint32_t chain = std::min(count, kReceiveChain);
    ibv_recv_wr* bad = nullptr;
    // The chain is linked for good; the end of a shorter one is cut and mended.
    receive_[chain - 1].next = nullptr;
    const int error = ibv_post_recv(qp_, receive_.data(), &bad);
    receive_[chain - 1].next = chain < kReceiveChain ? &receive_[chain] : nullptr;
    if (error != 0) return error;
    receives_ += chain;
    count -= chain;
  }
  return 0;
}

int Lane::post_one(ibv_send_wr& wr) noexcept {
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp_, &wr, &bad);
  if (error == 0) ++sends_;
  return error;
}

int Lane::post_empty_write(WorkKind kind) noexcept {
  ibv_send_wr wr{};
  wr.wr_id = make_wr_id(kind, tag_, lane_, 0);
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  return post_one(wr);
}

int Lane::post_receive(ibv_recv_wr& wr) noexcept {
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(qp_, &wr, &bad);
  if (error == 0) ++receives_;
  return error;
}

}  // namespace braid::channel
