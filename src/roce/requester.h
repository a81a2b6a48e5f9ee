#pragma once

#include <braid/time.h>
#include <infiniband/verbs.h>

#include <cstdint>

#include "roce/packet.h"
#include "roce/qp.h"

namespace braid::roce {

/// Requester and completer of one QP: builds request packets, takes acknowledgements and
/// responses, retransmits, completes WRs in order.
///
/// A view that is made for one call; all state is in Qp::requester.
class Requester {
 public:
  Requester(Engine& engine, Qp& qp) noexcept : engine_(engine), qp_(qp), state_(qp.requester) {}

  // requester_datapath.cc

  /// Appends up to `budget` packets. Returns how many; fewer than the budget means that only an
  /// acknowledgement, a timer or a post can give it more to send.
  std::uint32_t transmit(TxBatch& batch, std::uint32_t budget, TimePoint now) noexcept;

  // completer.cc

  void handle_acknowledge(const Headers& headers, TimePoint now) noexcept;
  void handle_read_response(const Packet& packet, TimePoint now) noexcept;
  void handle_atomic_acknowledge(const Headers& headers, TimePoint now) noexcept;

  // requester.cc

  /// The QP's timer is due: RNR wait over, or nothing was acknowledged in time.
  void handle_timeout(TimePoint now) noexcept;
  /// Takes max_rd_atomic and window into use; on the way to RTS.
  void start(Psn first_psn) noexcept;
  /// Completes every WR with IBV_WC_WR_FLUSH_ERR.
  void flush() noexcept;
  /// Forgets every WR without completing it.
  void reset() noexcept;
  /// SQD: raises SQ_DRAINED if it is asked for and nothing is outstanding.
  void check_drained() noexcept;

 private:
  [[nodiscard]] bool transmit_one(TxBatch& batch, TimePoint now) noexcept;
  [[nodiscard]] bool transmit_data(TxBatch& batch, SendWqe& wqe) noexcept;
  [[nodiscard]] bool transmit_read(TxBatch& batch, SendWqe& wqe) noexcept;
  [[nodiscard]] bool transmit_atomic(TxBatch& batch, SendWqe& wqe) noexcept;
  [[nodiscard]] bool repeats_request() noexcept {
    return state_.rd_issued_count < state_.rd_ends.size();
  }
  [[nodiscard]] bool may_request_response(std::uint32_t packets) noexcept;
  void note_request() noexcept;
  template <typename Builder>
  [[nodiscard]] bool gather(Builder& builder, const SendWqe& wqe, std::uint32_t bytes) noexcept;
  void seek_gather(std::span<const ibv_sge> sges) noexcept;
  void sequence(SendWqe& wqe) noexcept;
  void advance(std::uint32_t packets) noexcept;
  [[nodiscard]] bool wants_acknowledge(bool last) noexcept;
  void block(SendWqe& wqe, ibv_wc_status status) noexcept;
  [[nodiscard]] std::uint32_t in_flight() const noexcept {
    return static_cast<std::uint32_t>(state_.next_psn - state_.oldest_unacked);
  }

  [[nodiscard]] bool is_outstanding(Psn psn) const noexcept {
    return psn >= state_.oldest_unacked && psn < state_.highest_sent;
  }
  void acknowledge_until(Psn end, TimePoint now) noexcept;
  void handle_nak(const Headers& headers, TimePoint now) noexcept;
  void handle_sequence_nak(Psn expected, TimePoint now) noexcept;
  void handle_rnr_nak(const Headers& headers, TimePoint now) noexcept;
  void retry_lost_response() noexcept;
  void on_progress(Psn previous, TimePoint now) noexcept;
  [[nodiscard]] bool oldest_contains(Psn psn) noexcept;

  void complete_oldest(ibv_wc_status status) noexcept;
  void fail_oldest(ibv_wc_status status) noexcept;
  void seek(Psn psn) noexcept;
  void cut_window() noexcept;
  void arm_retransmit_timer(TimePoint now) noexcept;

  Engine& engine_;
  Qp& qp_;
  RequesterState& state_;
};

}  // namespace braid::roce
