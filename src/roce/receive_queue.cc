#include "roce/receive_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>

namespace braid::roce {

ReceiveQueue::ReceiveQueue(PdId pd, std::uint32_t max_wr, std::uint32_t max_sge, void* owner)
    : pd_(pd),
      max_wr_(max_wr),
      max_sge_(max_sge),
      mask_(std::bit_ceil(std::max(max_wr, 1U)) - 1),
      owner_(owner),
      slots_(std::make_unique<Slot[]>(mask_ + 1U)),
      sges_(std::make_unique<ibv_sge[]>(static_cast<std::size_t>(mask_ + 1U) * max_sge)) {}

int ReceiveQueue::post(const ibv_recv_wr& wr) noexcept {
  if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > max_sge_) return EINVAL;
  if (head_ - tail_ >= max_wr_) return ENOMEM;
  const std::uint32_t index = head_++ & mask_;
  slots_[index] = Slot{wr.wr_id, static_cast<std::uint32_t>(wr.num_sge)};
  std::copy_n(wr.sg_list, wr.num_sge, sges_.get() + static_cast<std::size_t>(index) * max_sge_);
  return 0;
}

PostedReceive ReceiveQueue::take() noexcept {
  const std::uint32_t index = tail_++ & mask_;
  const Slot& slot = slots_[index];
  return {slot.wr_id, {sges_.get() + static_cast<std::size_t>(index) * max_sge_, slot.sge_count}};
}

bool ReceiveQueue::limit_reached() noexcept {
  if (limit_ == 0 || head_ - tail_ >= limit_) return false;
  limit_ = 0;
  return true;
}

}  // namespace braid::roce
