#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "roce/wire_format.h"

namespace braid::roce {

/// One posted send work request.
struct SendWqe {
  std::uint64_t wr_id = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  std::uint32_t rkey = 0;
  std::uint32_t imm_network = 0;
  std::uint32_t length_bytes = 0;
  std::uint32_t packet_count = 0;  // PSNs it takes; valid once sequenced
  Psn first_psn;                   // valid once sequenced
  std::uint16_t sge_count = 0;
  std::uint8_t opcode = 0;  // ibv_wr_opcode
  bool sequenced = false;   // it has PSNs: its first packet has been built
  bool signaled = false;
  bool solicited = false;
  bool fence = false;
  bool inline_data = false;
  ibv_wc_status status = IBV_WC_SUCCESS;  // why it will fail when its turn to complete comes

  [[nodiscard]] Psn last_psn() const noexcept { return first_psn + (packet_count - 1); }
  [[nodiscard]] bool is_read() const noexcept { return opcode == IBV_WR_RDMA_READ; }
  [[nodiscard]] bool is_atomic() const noexcept {
    return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
  }
  /// Answered with data rather than with a plain acknowledgement.
  [[nodiscard]] bool awaits_response() const noexcept { return is_read() || is_atomic(); }
};

/// Send queue: a ring of WQEs, each with room for its gather list or its inline data.
///
/// Three free-running cursors: completed <= transmit <= posted.
/// Thread: none; the device's mutex serialises. Cost: O(1), allocates in the constructor only.
class SendQueue {
 public:
  SendQueue(std::uint32_t max_wr, std::uint32_t max_sge, std::uint32_t max_inline_bytes);

  /// Checks and stores one WR. Returns 0, EINVAL or ENOMEM as Engine::post_send documents.
  [[nodiscard]] int post(const ibv_send_wr& wr, bool signal_all) noexcept;

  [[nodiscard]] std::uint32_t posted() const noexcept { return posted_; }
  [[nodiscard]] std::uint32_t completed() const noexcept { return completed_; }
  [[nodiscard]] std::uint32_t room() const noexcept { return max_wr_ - (posted_ - completed_); }
  [[nodiscard]] bool empty() const noexcept { return posted_ == completed_; }
  [[nodiscard]] SendWqe& at(std::uint32_t index) noexcept { return wqes_[index & mask_]; }
  [[nodiscard]] SendWqe& oldest() noexcept { return at(completed_); }
  void pop_oldest() noexcept { ++completed_; }
  void clear() noexcept { completed_ = posted_; }

  [[nodiscard]] std::span<const ibv_sge> sges(std::uint32_t index) const noexcept {
    return {static_cast<const ibv_sge*>(static_cast<const void*>(data(index))),
            wqes_[index & mask_].sge_count};
  }
  [[nodiscard]] const std::uint8_t* inline_data(std::uint32_t index) const noexcept {
    return data(index);
  }

 private:
  [[nodiscard]] const std::uint8_t* data(std::uint32_t index) const noexcept {
    return data_.get() + static_cast<std::size_t>(index & mask_) * stride_bytes_;
  }
  [[nodiscard]] int store_payload(const ibv_send_wr& wr, SendWqe& wqe, std::uint8_t* out) noexcept;

  std::uint32_t max_wr_;
  std::uint32_t max_sge_;
  std::uint32_t max_inline_bytes_;
  std::uint32_t mask_;
  std::size_t stride_bytes_;
  std::uint32_t posted_ = 0;
  std::uint32_t completed_ = 0;
  std::unique_ptr<SendWqe[]> wqes_;
  std::unique_ptr<std::uint8_t[]> data_;  // aligned for ibv_sge by operator new
};

}  // namespace braid::roce
