#include "roce/requester.h"

#include <algorithm>

#include "roce/engine.h"

namespace braid::roce {
namespace {

// Large enough that the next packet asks for an acknowledgement, far from overflow.
constexpr std::uint32_t kAskAtOnce = 1U << 20;

ibv_wc_opcode completion_opcode(const SendWqe& wqe) noexcept {
  switch (wqe.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP: return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_WC_FETCH_ADD;
    default: return IBV_WC_SEND;
  }
}

}  // namespace

void Requester::start(Psn first_psn) noexcept {
  state_.next_psn = state_.oldest_unacked = state_.highest_sent = first_psn;
  state_.recovery_point = first_psn;
  state_.window_packets = engine_.options_.window_packets;
  state_.window_credit = 0;
  state_.unrequested_packets = 0;
}

void Requester::reset() noexcept {
  state_.queue.clear();
  state_.rd_ends.clear();
  state_.rd_issued_count = 0;
  state_.transmit_index = state_.queue.posted();
  state_.transmit_packet = 0;
  state_.gather_packet = state_.gather_index = state_.gather_offset = 0;
  state_.rnr_waiting = state_.read_gap_seen = state_.blocked = state_.drain_event = false;
  qp_.deadline = kNever;
}

void Requester::flush() noexcept {
  while (!state_.queue.empty()) complete_oldest(IBV_WC_WR_FLUSH_ERR);
  reset();
}

void Requester::check_drained() noexcept {
  if (qp_.state != IBV_QPS_SQD || !state_.drain_event) return;
  if (state_.oldest_unacked != state_.highest_sent) return;
  // A message that has begun is finished first, though all of it that the window let out so far
  // may be acknowledged.
  if (!state_.queue.empty() && state_.queue.oldest().sequenced) return;
  state_.drain_event = false;
  engine_.events_.on_qp_event(qp_, IBV_EVENT_SQ_DRAINED);
}

void Requester::complete_oldest(ibv_wc_status status) noexcept {
  const SendWqe& wqe = state_.queue.oldest();
  ibv_wc completion{};
  completion.wr_id = wqe.wr_id;
  completion.status = status;
  completion.opcode = completion_opcode(wqe);
  completion.qp_num = qp_.qpn;
  completion.byte_len = wqe.length_bytes;
  const bool wanted = wqe.signaled || status != IBV_WC_SUCCESS;
  // Off the queue first: a full completion queue puts the QP into ERR, which flushes the rest.
  state_.queue.pop_oldest();
  if (wanted) engine_.complete(qp_, *qp_.init.send_cq, completion, false);
}

void Requester::fail_oldest(ibv_wc_status status) noexcept {
  complete_oldest(status);
  engine_.enter_error(qp_);
}

void Requester::seek(Psn psn) noexcept {
  std::uint32_t index = state_.queue.completed();
  std::uint32_t packet = 0;
  for (; index != state_.queue.posted(); ++index) {
    const SendWqe& wqe = state_.queue.at(index);
    if (!wqe.sequenced) break;
    if (psn <= wqe.last_psn()) {
      packet = static_cast<std::uint32_t>(psn - wqe.first_psn);
      break;
    }
  }
  state_.transmit_index = index;
  state_.transmit_packet = packet;
  state_.gather_packet = RequesterState::kNoGather;  // the cursor belonged to another WQE
  state_.next_psn = psn;
  state_.blocked = false;
  state_.unrequested_packets = kAskAtOnce;
  state_.rd_issued_count = 0;
  while (state_.rd_issued_count < state_.rd_ends.size() &&
         state_.rd_ends.at(state_.rd_issued_count) <= psn) {
    ++state_.rd_issued_count;
  }
}

void Requester::cut_window() noexcept {
  if (state_.oldest_unacked < state_.recovery_point) return;
  state_.window_packets = std::max(engine_.options_.min_window_packets, state_.window_packets / 2);
  state_.recovery_point = state_.highest_sent;
}

void Requester::arm_retransmit_timer(TimePoint now) noexcept {
  if (state_.timeout_code == 0) {
    qp_.deadline = kNever;
    return;
  }
  // IBTA 9.7.6.1.3: 4.096 us * 2^code.
  const Duration timeout(std::int64_t{4096} << state_.timeout_code);
  engine_.arm_timer(qp_, now + std::max(timeout, engine_.options_.min_timeout));
}

void Requester::handle_timeout(TimePoint now) noexcept {
  qp_.deadline = kNever;
  if (state_.rnr_waiting) {
    state_.rnr_waiting = false;
    engine_.activate(qp_);
    return;
  }
  if (state_.oldest_unacked == state_.highest_sent) return;
  ++engine_.counters_.timeouts;
  if (state_.retries_left == 0) {
    fail_oldest(IBV_WC_RETRY_EXC_ERR);
    return;
  }
  --state_.retries_left;
  state_.read_gap_seen = false;
  state_.window_packets = engine_.options_.min_window_packets;
  state_.recovery_point = state_.highest_sent;
  seek(state_.oldest_unacked);
  arm_retransmit_timer(now);
  engine_.activate(qp_);
}

}  // namespace braid::roce
