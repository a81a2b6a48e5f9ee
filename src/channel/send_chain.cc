#include "channel/send_chain.h"

#include <cassert>
#include <cerrno>
#include <iterator>

namespace braid::channel {

void SendChain::prepare(ibv_wr_opcode opcode) noexcept {
  staged_ = 0;
  for (std::uint32_t i = 0; i < kLength; ++i) {
    requests_[i] = ibv_send_wr{};
    requests_[i].opcode = opcode;
    requests_[i].send_flags = IBV_SEND_SIGNALED;
    requests_[i].sg_list = &sges_[i];
  }
}

ibv_send_wr& SendChain::stage(std::uint64_t local_address, std::uint32_t bytes,
                              std::uint32_t lkey) noexcept {
  assert(!full());
  ibv_send_wr& request = requests_[staged_];
  assert(request.send_flags == IBV_SEND_SIGNALED && request.sg_list == &sges_[staged_]);
  // A length of 0 in an SGE means 2^31 bytes, so an empty request has no SGE at all.
  request.num_sge = bytes == 0 ? 0 : 1;
  sges_[staged_] = {local_address, bytes, lkey};
  ++staged_;
  return request;
}

int SendChain::post(ibv_qp* qp) noexcept {
  if (staged_ == 0) return 0;
  for (std::uint32_t i = 0; i + 1 < staged_; ++i) requests_[i].next = &requests_[i + 1];
  requests_[staged_ - 1].next = nullptr;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp, requests_.data(), &bad);
  if (error == 0) {
    staged_ = 0;
    return 0;
  }
  if (bad == nullptr) return EPROTO;
  // Those before bad are posted; the rest moves to the front and keeps its order.
  const auto posted = static_cast<std::uint32_t>(std::distance(requests_.data(), bad));
  for (std::uint32_t i = posted; i < staged_; ++i) {
    ibv_send_wr& to = requests_[i - posted];
    ibv_sge* sge = to.sg_list;
    *sge = *requests_[i].sg_list;
    to = requests_[i];
    to.sg_list = sge;
  }
  staged_ -= posted;
  return error;
}

}  // namespace braid::channel
