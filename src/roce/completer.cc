#include <algorithm>

#include "roce/engine.h"
#include "roce/requester.h"
#include "roce/rnr_timer.h"
#include "roce/scatter.h"

namespace braid::roce {
namespace {

constexpr std::uint8_t kInfiniteRnrRetries = 7;

ibv_wc_status status_of(NakCode code) noexcept {
  switch (code) {
    case NakCode::kRemoteAccess: return IBV_WC_REM_ACCESS_ERR;
    case NakCode::kRemoteOperation: return IBV_WC_REM_OP_ERR;
    case NakCode::kInvalidRdRequest: return IBV_WC_REM_INV_RD_REQ_ERR;
    default: return IBV_WC_REM_INV_REQ_ERR;
  }
}

}  // namespace

bool Requester::oldest_contains(Psn psn) noexcept {
  if (state_.queue.empty()) return false;
  const SendWqe& wqe = state_.queue.oldest();
  return wqe.sequenced && psn >= wqe.first_psn && psn <= wqe.last_psn();
}

// Completes what the acknowledgement of every PSN before `end` completes. An unanswered READ or
// atomic in that range means that its response was lost.
void Requester::acknowledge_until(Psn end, TimePoint now) noexcept {
  const Psn previous = state_.oldest_unacked;
  bool response_lost = false;
  while (!state_.queue.empty()) {
    const SendWqe& wqe = state_.queue.oldest();
    if (!wqe.sequenced || wqe.status != IBV_WC_SUCCESS || end <= wqe.first_psn) break;
    if (wqe.awaits_response()) {
      response_lost = end > wqe.last_psn();
      break;
    }
    if (end <= wqe.last_psn()) {
      if (end > state_.oldest_unacked) state_.oldest_unacked = end;
      break;
    }
    state_.oldest_unacked = wqe.last_psn() + 1;
    complete_oldest(IBV_WC_SUCCESS);
  }
  if (qp_.state == IBV_QPS_ERR) return;
  if (state_.oldest_unacked != previous) on_progress(previous, now);
  if (qp_.state != IBV_QPS_ERR && response_lost) retry_lost_response();
}

void Requester::on_progress(Psn previous, TimePoint now) noexcept {
  state_.retries_left = state_.retry_limit;
  state_.rnr_retries_left = state_.rnr_retry_limit;
  state_.read_gap_seen = false;
  while (!state_.rd_ends.empty() && state_.rd_ends.front() <= state_.oldest_unacked) {
    state_.rd_ends.pop();
    if (state_.rd_issued_count != 0) --state_.rd_issued_count;
  }
  // An acknowledgement can overtake a retransmission that it makes needless.
  if (state_.next_psn < state_.oldest_unacked) seek(state_.oldest_unacked);

  state_.window_credit += static_cast<std::uint32_t>(state_.oldest_unacked - previous);
  if (state_.window_credit >= state_.window_packets) {
    state_.window_credit = 0;
    state_.window_packets = std::min(state_.window_packets + 1, engine_.options_.window_packets);
  }
  if (!state_.rnr_waiting) {
    if (state_.oldest_unacked == state_.highest_sent) {
      qp_.deadline = kNever;
    } else {
      arm_retransmit_timer(now);
    }
  }
  if (!state_.queue.empty()) {
    const SendWqe& oldest = state_.queue.oldest();
    if (oldest.status != IBV_WC_SUCCESS) {
      fail_oldest(oldest.status);
      return;
    }
  }
  check_drained();
  engine_.activate(qp_);
}

void Requester::retry_lost_response() noexcept {
  // Once per gap: the responses behind it are still arriving and say nothing new.
  if (state_.read_gap_seen) return;
  state_.read_gap_seen = true;
  cut_window();
  seek(state_.oldest_unacked);
  engine_.activate(qp_);
}

void Requester::handle_acknowledge(const Headers& headers, TimePoint now) noexcept {
  const Psn psn = headers.psn;
  const bool negative = ack_kind(headers.syndrome) != AckKind::kAck;
  // A NAK names the PSN that is expected next, so it may name the oldest outstanding one; a
  // repeated ACK names the one before it.
  if (!is_outstanding(psn)) {
    const bool repeated = !negative && psn + 1 == state_.oldest_unacked;
    engine_.count_drop(repeated ? DropReason::kDuplicateDropped : DropReason::kUnexpectedResponse);
    return;
  }
  switch (ack_kind(headers.syndrome)) {
    case AckKind::kAck: acknowledge_until(psn + 1, now); break;
    case AckKind::kRnr: handle_rnr_nak(headers, now); break;
    case AckKind::kNak: handle_nak(headers, now); break;
    case AckKind::kReserved: engine_.count_drop(DropReason::kUnexpectedResponse); break;
  }
}

void Requester::handle_nak(const Headers& headers, TimePoint now) noexcept {
  const auto code = static_cast<NakCode>(headers.syndrome & 0x1F);
  if (code > NakCode::kInvalidRdRequest) {
    engine_.count_drop(DropReason::kUnexpectedResponse);
    return;
  }
  acknowledge_until(headers.psn, now);
  if (qp_.state == IBV_QPS_ERR) return;
  if (code == NakCode::kSequence) {
    handle_sequence_nak(headers.psn, now);
  } else if (oldest_contains(headers.psn)) {
    fail_oldest(status_of(code));
  }
}

void Requester::handle_sequence_nak(Psn expected, TimePoint now) noexcept {
  ++engine_.counters_.sequence_naks_received;
  if (state_.oldest_unacked != expected) return;
  if (state_.retries_left == 0) {
    fail_oldest(IBV_WC_RETRY_EXC_ERR);
    return;
  }
  --state_.retries_left;
  cut_window();
  seek(expected);
  arm_retransmit_timer(now);
  engine_.activate(qp_);
}

void Requester::handle_rnr_nak(const Headers& headers, TimePoint now) noexcept {
  ++engine_.counters_.rnr_naks_received;
  acknowledge_until(headers.psn, now);
  if (qp_.state == IBV_QPS_ERR || state_.rnr_waiting || !oldest_contains(headers.psn)) return;
  if (state_.rnr_retries_left == 0) {
    fail_oldest(IBV_WC_RNR_RETRY_EXC_ERR);
    return;
  }
  if (state_.rnr_retry_limit != kInfiniteRnrRetries) --state_.rnr_retries_left;
  seek(headers.psn);
  state_.rnr_waiting = true;
  engine_.arm_timer(qp_, now + rnr_timer_duration(headers.syndrome & 0x1F));
}

void Requester::handle_read_response(const Packet& packet, TimePoint now) noexcept {
  const Psn psn = packet.headers.psn;
  if (!is_outstanding(psn)) {
    engine_.count_drop(DropReason::kUnexpectedResponse);
    return;
  }
  acknowledge_until(psn, now);
  if (qp_.state == IBV_QPS_ERR) return;
  if (!oldest_contains(psn) || !state_.queue.oldest().is_read()) {
    engine_.count_drop(DropReason::kUnexpectedResponse);
    return;
  }
  const SendWqe& wqe = state_.queue.oldest();
  if (wqe.status != IBV_WC_SUCCESS) return;
  if (psn != state_.oldest_unacked) {
    if (psn > state_.oldest_unacked) retry_lost_response();
    return;
  }
  const std::uint64_t offset = std::uint64_t{static_cast<std::uint32_t>(psn - wqe.first_psn)}
                               << qp_.mtu_shift;
  const std::uint64_t expected = std::min<std::uint64_t>(qp_.mtu_bytes, wqe.length_bytes - offset);
  if (packet.payload.size() != expected) {
    engine_.count_drop(DropReason::kBadPayloadLength);
    return;
  }
  const auto sges = state_.queue.sges(state_.queue.completed());
  if (!scatter(engine_.memory_, qp_.init.pd, sges, offset, packet.payload)) {
    fail_oldest(IBV_WC_LOC_PROT_ERR);
    return;
  }
  state_.oldest_unacked = psn + 1;
  if (psn == wqe.last_psn()) complete_oldest(IBV_WC_SUCCESS);
  if (qp_.state != IBV_QPS_ERR) on_progress(psn, now);
}

void Requester::handle_atomic_acknowledge(const Headers& headers, TimePoint now) noexcept {
  const Psn psn = headers.psn;
  if (!is_outstanding(psn)) {
    engine_.count_drop(DropReason::kUnexpectedResponse);
    return;
  }
  acknowledge_until(psn, now);
  if (qp_.state == IBV_QPS_ERR) return;
  if (!oldest_contains(psn) || !state_.queue.oldest().is_atomic()) {
    engine_.count_drop(DropReason::kUnexpectedResponse);
    return;
  }
  const auto sges = state_.queue.sges(state_.queue.completed());
  const std::span<const std::uint8_t> original(
      reinterpret_cast<const std::uint8_t*>(&headers.original), sizeof headers.original);
  if (!scatter(engine_.memory_, qp_.init.pd, sges, 0, original)) {
    fail_oldest(IBV_WC_LOC_PROT_ERR);
    return;
  }
  state_.oldest_unacked = psn + 1;
  complete_oldest(IBV_WC_SUCCESS);
  if (qp_.state != IBV_QPS_ERR) on_progress(psn, now);
}

}  // namespace braid::roce
