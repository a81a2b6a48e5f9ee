#include <algorithm>

#include "roce/engine.h"
#include "roce/packet_builder.h"
#include "roce/responder.h"

namespace braid::roce {
namespace {

Opcode response_opcode(bool first, bool last) noexcept {
  if (first) return last ? Opcode::kReadResponseOnly : Opcode::kReadResponseFirst;
  return last ? Opcode::kReadResponseLast : Opcode::kReadResponseMiddle;
}

}  // namespace

// Responses leave in PSN order: an acknowledgement that overtook a READ response would tell the
// peer that the response is lost.
std::uint32_t Responder::transmit(TxBatch& batch, std::uint32_t budget) noexcept {
  std::uint32_t sent = 0;
  while (!state_.jobs.empty()) {
    if (sent == budget || batch.full()) return sent;
    if (!transmit_job(batch)) break;
    ++sent;
  }
  if (sent == budget || batch.full()) return sent;
  if (state_.nak_pending) {
    state_.nak_pending = state_.ack_pending = false;
    transmit_acknowledge(batch, state_.nak_syndrome, state_.nak_psn);
    ++sent;
  } else if (state_.ack_pending) {
    state_.ack_pending = false;
    transmit_acknowledge(batch, kSyndromeAckNoCredit, state_.expected_psn - 1U);
    ++sent;
  }
  return sent;
}

void Responder::transmit_acknowledge(TxBatch& batch, std::uint8_t syndrome, Psn psn) noexcept {
  Headers headers;
  headers.opcode = Opcode::kAcknowledge;
  headers.destination_qpn = qp_.remote_qpn;
  headers.psn = psn;
  headers.syndrome = syndrome;
  headers.msn = state_.msn;
  PacketBuilder builder(batch, qp_.flow, headers);
  engine_.counters_.tx_bytes += builder.finish();
  ++engine_.counters_.acks_sent;
}

bool Responder::transmit_job(TxBatch& batch) noexcept {
  ResponseJob& job = state_.jobs.front();
  const bool first = job.sent_count == 0;
  const bool last = job.sent_count + 1 == job.packet_count;
  Headers headers;
  headers.destination_qpn = qp_.remote_qpn;
  headers.psn = job.first_psn + job.sent_count;
  headers.syndrome = kSyndromeAckNoCredit;
  headers.msn = job.msn;
  if (job.atomic) {
    headers.opcode = Opcode::kAtomicAcknowledge;
    headers.original = job.original;
    PacketBuilder builder(batch, qp_.flow, headers);
    engine_.counters_.tx_bytes += builder.finish();
    state_.jobs.pop();
    return true;
  }
  const std::uint32_t offset = job.sent_count << qp_.mtu_shift;
  const std::uint32_t bytes = std::min(qp_.mtu_bytes, job.length_bytes - offset);
  const std::uint8_t* from = nullptr;
  if (bytes != 0) {
    from = engine_.memory_.resolve(job.rkey, qp_.init.pd, IBV_ACCESS_REMOTE_READ,
                                   job.remote_address + offset, bytes);
    if (from == nullptr) {
      // Deregistered under way: the READ ends here, with the error at this PSN, and nothing that
      // came after it is answered.
      const bool failed_before = qp_.state == IBV_QPS_ERR;
      state_.jobs.clear();
      set_nak(nak_syndrome(NakCode::kRemoteAccess), headers.psn);
      engine_.enter_error(qp_);
      if (!failed_before) engine_.events_.on_qp_event(qp_, IBV_EVENT_QP_ACCESS_ERR);
      return false;
    }
  }
  headers.opcode = response_opcode(first, last);
  headers.pad_bytes = pad_for(bytes);
  PacketBuilder builder(batch, qp_.flow, headers);
  if (bytes != 0) builder.add_payload(from, bytes);
  engine_.counters_.tx_bytes += builder.finish();
  ++job.sent_count;
  if (last) state_.jobs.pop();
  return true;
}

}  // namespace braid::roce
