#include "roce/send_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

namespace braid::roce {
namespace {

bool is_supported(ibv_wr_opcode opcode) noexcept {
  switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return true;
    default: return false;
  }
}

}  // namespace

SendQueue::SendQueue(std::uint32_t max_wr, std::uint32_t max_sge, std::uint32_t max_inline_bytes)
    : max_wr_(max_wr),
      max_sge_(max_sge),
      max_inline_bytes_(max_inline_bytes),
      mask_(std::bit_ceil(std::max(max_wr, 1U)) - 1),
      stride_bytes_((std::max<std::size_t>(sizeof(ibv_sge) * max_sge, max_inline_bytes) + 15) / 16 *
                    16),
      wqes_(std::make_unique<SendWqe[]>(mask_ + 1U)),
      data_(std::make_unique<std::uint8_t[]>((mask_ + 1U) * stride_bytes_)) {}

int SendQueue::store_payload(const ibv_send_wr& wr, SendWqe& wqe, std::uint8_t* out) noexcept {
  std::uint64_t total = 0;
  for (int i = 0; i < wr.num_sge; ++i) total += wr.sg_list[i].length;
  if (total > kMaxMessageBytes) return EINVAL;
  wqe.length_bytes = static_cast<std::uint32_t>(total);
  wqe.inline_data = (wr.send_flags & IBV_SEND_INLINE) != 0;
  if (!wqe.inline_data) {
    std::copy_n(wr.sg_list, wr.num_sge, static_cast<ibv_sge*>(static_cast<void*>(out)));
    wqe.sge_count = static_cast<std::uint16_t>(wr.num_sge);
    return 0;
  }
  if (total > max_inline_bytes_ || wqe.awaits_response()) return EINVAL;
  for (int i = 0; i < wr.num_sge; ++i) {
    const ibv_sge& sge = wr.sg_list[i];
    if (sge.length != 0) std::memcpy(out, reinterpret_cast<const void*>(sge.addr), sge.length);
    out += sge.length;
  }
  return 0;
}

int SendQueue::post(const ibv_send_wr& wr, bool signal_all) noexcept {
  if (!is_supported(wr.opcode)) return EINVAL;
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > max_sge_) return EINVAL;
  if (posted_ - completed_ >= max_wr_) return ENOMEM;

  SendWqe& wqe = wqes_[posted_ & mask_];
  wqe = SendWqe{};
  wqe.wr_id = wr.wr_id;
  wqe.opcode = static_cast<std::uint8_t>(wr.opcode);
  wqe.signaled = signal_all || (wr.send_flags & IBV_SEND_SIGNALED) != 0;
  wqe.solicited = (wr.send_flags & IBV_SEND_SOLICITED) != 0;
  wqe.fence = (wr.send_flags & IBV_SEND_FENCE) != 0;
  wqe.imm_network = wr.imm_data;
  if (wqe.is_atomic()) {
    wqe.remote_address = wr.wr.atomic.remote_addr;
    wqe.rkey = wr.wr.atomic.rkey;
    wqe.compare_add = wr.wr.atomic.compare_add;
    wqe.swap = wr.wr.atomic.swap;
  } else {
    wqe.remote_address = wr.wr.rdma.remote_addr;
    wqe.rkey = wr.wr.rdma.rkey;
  }
  const int error = store_payload(
      wr, wqe, data_.get() + static_cast<std::size_t>(posted_ & mask_) * stride_bytes_);
  if (error != 0) return error;
  if (wqe.is_atomic() && wqe.length_bytes != sizeof(std::uint64_t)) return EINVAL;
  ++posted_;
  return 0;
}

}  // namespace braid::roce
