#include "roce/responder.h"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <cstring>

#include "base/planted_fault.h"
#include "roce/engine.h"
#include "roce/scatter.h"

namespace braid::roce {

void Responder::handle_request(const Packet& packet) noexcept {
  if (!state_.comm_established) {
    state_.comm_established = true;
    if (qp_.state == IBV_QPS_RTR) engine_.events_.on_qp_event(qp_, IBV_EVENT_COMM_EST);
  }
  const std::int32_t distance = packet.headers.psn - state_.expected_psn;
  if (planted(PlantedFault::kSkipDedup) && distance < 0) {
    const ResponderState::Message message = state_.message;
    const Psn expected = state_.expected_psn;
    state_.message = ResponderState::Message::kNone;
    const OpcodeTraits& traits = traits_of(static_cast<std::uint8_t>(packet.headers.opcode));
    if (traits.atomic || (traits.write && traits.first && traits.last)) execute(packet);
    state_.message = message;
    state_.expected_psn = expected;
  }
  if (distance > 0) {
    handle_ahead();
  } else if (distance < 0) {
    handle_duplicate(packet.headers);
  } else {
    state_.nak_sent = state_.rnr_sent = state_.nak_pending = false;
    execute(packet);
  }
  if (wants_transmit()) engine_.activate(qp_);
}

void Responder::handle_ahead() noexcept {
  if (state_.nak_sent) {
    engine_.count_drop(state_.rnr_sent ? DropReason::kRnrNotReady : DropReason::kOutOfSequence);
    return;
  }
  engine_.count_drop(DropReason::kOutOfSequence);
  ++engine_.counters_.sequence_naks_sent;
  set_nak(nak_syndrome(NakCode::kSequence), state_.expected_psn);
}

void Responder::set_nak(std::uint8_t syndrome, Psn psn) noexcept {
  state_.nak_sent = true;
  state_.nak_pending = true;
  state_.nak_syndrome = syndrome;
  state_.nak_psn = psn;
}

void Responder::fail(NakCode code, ibv_event_type event) noexcept {
  set_nak(nak_syndrome(code), state_.expected_psn);
  engine_.enter_error(qp_);
  engine_.events_.on_qp_event(qp_, event);
}

bool Responder::is_in_order(const OpcodeTraits& traits) const noexcept {
  const auto wanted = traits.send    ? ResponderState::Message::kSend
                      : traits.write ? ResponderState::Message::kWrite
                                     : ResponderState::Message::kNone;
  return state_.message == (traits.first ? ResponderState::Message::kNone : wanted);
}

bool Responder::has_valid_size(const Packet& packet, const OpcodeTraits& traits) const noexcept {
  const std::size_t bytes = packet.payload.size();
  if (!traits.last) return bytes == qp_.mtu_bytes;
  if (!traits.first && bytes == 0) return false;
  return bytes <= qp_.mtu_bytes;
}

void Responder::execute(const Packet& packet) noexcept {
  const OpcodeTraits& traits = traits_of(static_cast<std::uint8_t>(packet.headers.opcode));
  // The device does not advertise remote invalidation, so a request for it is invalid.
  if (traits.ieth || !is_in_order(traits)) {
    fail(NakCode::kInvalidRequest, IBV_EVENT_QP_REQ_ERR);
  } else if (traits.atomic) {
    execute_atomic(packet.headers);
  } else if (packet.headers.opcode == Opcode::kReadRequest) {
    execute_read(packet.headers);
  } else if (!has_valid_size(packet, traits)) {
    fail(NakCode::kInvalidRequest, IBV_EVENT_QP_REQ_ERR);
  } else if (traits.send) {
    execute_send(packet);
  } else {
    execute_write(packet);
  }
}

void Responder::finish_packet(const Packet& packet, bool last) noexcept {
  ++state_.expected_psn;
  if (last) {
    ++state_.msn;
    state_.message = ResponderState::Message::kNone;
  }
  if (packet.headers.ack_request) state_.ack_pending = true;
}

void Responder::receiver_not_ready() noexcept {
  ++engine_.counters_.rnr_naks_sent;
  set_nak(rnr_syndrome(state_.min_rnr_timer), state_.expected_psn);
  state_.rnr_sent = true;
}

void Responder::take_receive() noexcept {
  ReceiveQueue& queue = qp_.receive_queue();
  const PostedReceive receive = queue.take();
  state_.has_receive = true;
  state_.receive_wr_id = receive.wr_id;
  state_.receive_sge_count = static_cast<std::uint32_t>(receive.sges.size());
  state_.receive_bytes = 0;
  std::copy(receive.sges.begin(), receive.sges.end(), state_.receive_sges.get());
  if (queue.limit_reached()) {
    engine_.events_.on_srq_event(queue, IBV_EVENT_SRQ_LIMIT_REACHED);
  }
}

void Responder::complete_receive(const Headers& headers, ibv_wc_opcode opcode, std::uint32_t bytes,
                                 ibv_wc_status status) noexcept {
  ibv_wc completion{};
  completion.wr_id = state_.receive_wr_id;
  completion.status = status;
  completion.opcode = opcode;
  completion.qp_num = qp_.qpn;
  completion.src_qp = qp_.remote_qpn;
  completion.byte_len = bytes;
  if (traits_of(static_cast<std::uint8_t>(headers.opcode)).imm) {
    completion.wc_flags = IBV_WC_WITH_IMM;
    completion.imm_data = headers.imm_network;
  }
  state_.has_receive = false;
  engine_.complete(qp_, *qp_.init.recv_cq, completion, headers.solicited);
}

void Responder::execute_send(const Packet& packet) noexcept {
  const OpcodeTraits& traits = traits_of(static_cast<std::uint8_t>(packet.headers.opcode));
  if (traits.first) {
    if (qp_.receive_queue().empty()) {
      receiver_not_ready();
      return;
    }
    take_receive();
    state_.message = ResponderState::Message::kSend;
  }
  const std::span<const ibv_sge> sges(state_.receive_sges.get(), state_.receive_sge_count);
  const auto count = static_cast<std::uint32_t>(packet.payload.size());
  // Whatever the receive could hold: a peer must not make the count of bytes wrap.
  const std::uint64_t most = std::min<std::uint64_t>(total_bytes(sges), kMaxMessageBytes);
  if (state_.receive_bytes + std::uint64_t{count} > most) {
    complete_receive(packet.headers, IBV_WC_RECV, 0, IBV_WC_LOC_LEN_ERR);
    fail(NakCode::kInvalidRequest, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  if (!scatter(engine_.memory_, qp_.receive_queue().pd(), sges, state_.receive_bytes,
               packet.payload)) {
    complete_receive(packet.headers, IBV_WC_RECV, 0, IBV_WC_LOC_PROT_ERR);
    fail(NakCode::kRemoteOperation, IBV_EVENT_QP_FATAL);
    return;
  }
  state_.receive_bytes += count;
  finish_packet(packet, traits.last);
  if (traits.last) {
    complete_receive(packet.headers, IBV_WC_RECV, state_.receive_bytes, IBV_WC_SUCCESS);
  }
}

bool Responder::begin_write(const Packet& packet) noexcept {
  const Headers& headers = packet.headers;
  if ((qp_.access & IBV_ACCESS_REMOTE_WRITE) == 0) {
    fail(NakCode::kInvalidRequest, IBV_EVENT_QP_ACCESS_ERR);
    return false;
  }
  if (headers.dma_length > kMaxMessageBytes) {
    fail(NakCode::kInvalidRequest, IBV_EVENT_QP_REQ_ERR);
    return false;
  }
  // A write without bytes needs no key (rxe agrees).
  if (headers.dma_length != 0 &&
      engine_.memory_.resolve(headers.rkey, qp_.init.pd, IBV_ACCESS_REMOTE_WRITE,
                              headers.remote_address, headers.dma_length) == nullptr) {
    fail(NakCode::kRemoteAccess, IBV_EVENT_QP_ACCESS_ERR);
    return false;
  }
  state_.write_address = headers.remote_address;
  state_.write_rkey = headers.rkey;
  state_.write_total_bytes = state_.write_left_bytes = headers.dma_length;
  return true;
}

void Responder::execute_write(const Packet& packet) noexcept {
  const OpcodeTraits& traits = traits_of(static_cast<std::uint8_t>(packet.headers.opcode));
  // Before the receive is looked at: a request that is refused must not first wait for a receive,
  // and end as the wrong error when none comes. begin_write() can run again.
  if (traits.first && !begin_write(packet)) return;
  const auto count = static_cast<std::uint32_t>(packet.payload.size());
  if (traits.last ? count != state_.write_left_bytes : count >= state_.write_left_bytes) {
    fail(NakCode::kInvalidRequest, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  std::uint8_t* to = nullptr;
  if (count != 0) {
    // Resolved for every packet, so that deregistration takes effect in the middle of a message.
    to = engine_.memory_.resolve(state_.write_rkey, qp_.init.pd, IBV_ACCESS_REMOTE_WRITE,
                                 state_.write_address, count);
    if (to == nullptr) {
      fail(NakCode::kRemoteAccess, IBV_EVENT_QP_ACCESS_ERR);
      return;
    }
  }
  // Before anything is written or counted: after a receiver-not-ready NAK the packet comes again.
  if (traits.imm && qp_.receive_queue().empty()) {
    receiver_not_ready();
    return;
  }
  if (count != 0 && engine_.options_.store_writes) std::memcpy(to, packet.payload.data(), count);
  state_.message = ResponderState::Message::kWrite;
  state_.write_address += count;
  state_.write_left_bytes -= count;
  finish_packet(packet, traits.last);
  if (traits.imm) {
    take_receive();
    complete_receive(packet.headers, IBV_WC_RECV_RDMA_WITH_IMM, state_.write_total_bytes,
                     IBV_WC_SUCCESS);
  }
}

void Responder::execute_read(const Headers& headers) noexcept {
  if ((qp_.access & IBV_ACCESS_REMOTE_READ) == 0 || state_.max_dest_rd_atomic == 0) {
    fail(NakCode::kInvalidRequest, IBV_EVENT_QP_ACCESS_ERR);
    return;
  }
  if (headers.dma_length > kMaxMessageBytes) {
    fail(NakCode::kInvalidRequest, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  if (headers.dma_length != 0 &&
      engine_.memory_.resolve(headers.rkey, qp_.init.pd, IBV_ACCESS_REMOTE_READ,
                              headers.remote_address, headers.dma_length) == nullptr) {
    fail(NakCode::kRemoteAccess, IBV_EVENT_QP_ACCESS_ERR);
    return;
  }
  ResponseJob job;
  job.first_psn = headers.psn;
  job.rkey = headers.rkey;
  job.length_bytes = headers.dma_length;
  job.remote_address = headers.remote_address;
  job.packet_count = std::max(1U, (headers.dma_length + (qp_.mtu_bytes - 1)) >> qp_.mtu_shift);
  job.msn = state_.msn + 1;
  if (!enqueue(job)) {
    // The peer has more requests outstanding than max_dest_rd_atomic allows.
    fail(NakCode::kInvalidRequest, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  remember({headers.psn, headers.psn + (job.packet_count - 1), false, headers.remote_address,
            headers.rkey, headers.dma_length, 0});
  ++state_.msn;
  state_.expected_psn += job.packet_count;
  state_.ack_pending = false;  // the response acknowledges everything before it
}

void Responder::execute_atomic(const Headers& headers) noexcept {
  const bool misaligned = headers.remote_address % sizeof(std::uint64_t) != 0;
  if ((qp_.access & IBV_ACCESS_REMOTE_ATOMIC) == 0 || state_.max_dest_rd_atomic == 0 ||
      misaligned) {
    fail(NakCode::kInvalidRequest, misaligned ? IBV_EVENT_QP_REQ_ERR : IBV_EVENT_QP_ACCESS_ERR);
    return;
  }
  std::uint8_t* at = engine_.memory_.resolve(headers.rkey, qp_.init.pd, IBV_ACCESS_REMOTE_ATOMIC,
                                             headers.remote_address, sizeof(std::uint64_t));
  // The address may be aligned and the memory behind it not, when the region has its own iova.
  if (at == nullptr || reinterpret_cast<std::uintptr_t>(at) % sizeof(std::uint64_t) != 0) {
    fail(NakCode::kRemoteAccess, IBV_EVENT_QP_ACCESS_ERR);
    return;
  }
  if (state_.jobs.full()) {
    fail(NakCode::kInvalidRequest, IBV_EVENT_QP_REQ_ERR);
    return;
  }
  std::atomic_ref<std::uint64_t> word(*static_cast<std::uint64_t*>(static_cast<void*>(at)));
  std::uint64_t original = headers.compare;
  if (headers.opcode == Opcode::kFetchAdd) {
    original = word.fetch_add(headers.swap_or_add);
  } else {
    // Leaves the value found in `original` whether or not it swapped.
    word.compare_exchange_strong(original, headers.swap_or_add);
  }
  ResponseJob job;
  job.first_psn = headers.psn;
  job.atomic = true;
  job.packet_count = 1;
  job.original = original;
  job.msn = state_.msn + 1;
  const bool queued = enqueue(job);
  assert(queued);
  static_cast<void>(queued);
  remember({headers.psn, headers.psn, true, headers.remote_address, headers.rkey,
            sizeof(std::uint64_t), original});
  ++state_.msn;
  ++state_.expected_psn;
  state_.ack_pending = false;
}

}  // namespace braid::roce
