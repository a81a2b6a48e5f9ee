#include <infiniband/verbs.h>

#include <algorithm>
#include <cassert>

#include "roce/engine.h"
#include "roce/packet_builder.h"
#include "roce/requester.h"
#include "roce/scatter.h"

namespace braid::roce {
namespace {

// rxe asks after more than 64 packets; half of that keeps a window of 128 moving smoothly.
constexpr std::uint32_t kPacketsPerAcknowledge = 32;

Opcode data_opcode(const SendWqe& wqe, bool first, bool last) noexcept {
  const bool send = wqe.opcode == IBV_WR_SEND || wqe.opcode == IBV_WR_SEND_WITH_IMM;
  const bool imm = wqe.opcode == IBV_WR_SEND_WITH_IMM || wqe.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  // SEND and WRITE opcodes share one pattern: first, middle, last, last-imm, only, only-imm.
  unsigned code = static_cast<unsigned>(send ? Opcode::kSendFirst : Opcode::kWriteFirst);
  if (last) {
    code += (first ? 4U : 2U) + (imm ? 1U : 0U);
  } else if (!first) {
    code += 1U;
  }
  return static_cast<Opcode>(code);
}

}  // namespace

std::uint32_t Requester::transmit(TxBatch& batch, std::uint32_t budget, TimePoint now) noexcept {
  std::uint32_t sent = 0;
  while (sent < budget && !batch.full() && transmit_one(batch, now)) ++sent;
  return sent;
}

bool Requester::transmit_one(TxBatch& batch, TimePoint now) noexcept {
  if (state_.rnr_waiting || state_.blocked) return false;
  if (state_.transmit_index == state_.queue.posted()) return false;
  if (qp_.state != IBV_QPS_RTS && qp_.state != IBV_QPS_SQD) return false;
  SendWqe& wqe = state_.queue.at(state_.transmit_index);
  if (!wqe.sequenced) {
    if (qp_.state != IBV_QPS_RTS) return false;
    if (wqe.fence && !state_.rd_ends.empty()) return false;
    sequence(wqe);
  }
  const bool retransmission = state_.next_psn < state_.highest_sent;
  const Psn before = state_.next_psn;
  const bool built = wqe.status != IBV_WC_SUCCESS ? false
                     : wqe.is_read()              ? transmit_read(batch, wqe)
                     : wqe.is_atomic()            ? transmit_atomic(batch, wqe)
                                                  : transmit_data(batch, wqe);
  if (!built) {
    if (wqe.status != IBV_WC_SUCCESS) {
      state_.blocked = true;
      // Earlier WRs complete first; acknowledge_until() sees to it otherwise.
      if (state_.transmit_index == state_.queue.completed()) fail_oldest(wqe.status);
    }
    return false;
  }
  if (retransmission) {
    engine_.counters_.retransmitted_packets +=
        static_cast<std::uint64_t>(std::min(state_.next_psn, state_.highest_sent) - before);
  }
  if (state_.next_psn > state_.highest_sent) state_.highest_sent = state_.next_psn;
  if (qp_.deadline == kNever) arm_retransmit_timer(now);
  return true;
}

void Requester::sequence(SendWqe& wqe) noexcept {
  const std::uint32_t mtu = qp_.mtu_bytes;
  wqe.first_psn = state_.next_psn;
  wqe.packet_count =
      wqe.is_atomic() ? 1U : std::max(1U, (wqe.length_bytes + (mtu - 1)) >> qp_.mtu_shift);
  wqe.sequenced = true;
}

void Requester::advance(std::uint32_t packets) noexcept {
  state_.next_psn += packets;
  state_.transmit_packet += packets;
  if (state_.transmit_packet == state_.queue.at(state_.transmit_index).packet_count) {
    ++state_.transmit_index;
    state_.transmit_packet = 0;
    state_.gather_packet = state_.gather_index = state_.gather_offset = 0;
  }
}

bool Requester::wants_acknowledge(bool last) noexcept {
  // The packet that fills the window must ask too, or both sides would wait for the timer.
  const bool wanted = last || ++state_.unrequested_packets >= kPacketsPerAcknowledge ||
                      in_flight() + 1 >= state_.window_packets;
  if (wanted) state_.unrequested_packets = 0;
  return wanted;
}

bool Requester::transmit_data(TxBatch& batch, SendWqe& wqe) noexcept {
  if (in_flight() >= state_.window_packets) return false;
  const std::uint32_t offset = state_.transmit_packet << qp_.mtu_shift;
  const std::uint32_t bytes = std::min(qp_.mtu_bytes, wqe.length_bytes - offset);
  const bool first = state_.transmit_packet == 0;
  const bool last = state_.transmit_packet + 1 == wqe.packet_count;

  Headers headers;
  headers.opcode = data_opcode(wqe, first, last);
  headers.solicited = last && wqe.solicited;
  headers.ack_request = wants_acknowledge(last);
  headers.pad_bytes = pad_for(bytes);
  headers.destination_qpn = qp_.remote_qpn;
  headers.psn = state_.next_psn;
  headers.remote_address = wqe.remote_address;
  headers.rkey = wqe.rkey;
  headers.dma_length = wqe.length_bytes;
  headers.imm_network = wqe.imm_network;

  PacketBuilder builder(batch, qp_.flow, headers);
  if (!gather(builder, wqe, bytes)) {
    builder.abandon();
    wqe.status = IBV_WC_LOC_PROT_ERR;
    return false;
  }
  engine_.counters_.tx_bytes += builder.finish();
  advance(1);
  return true;
}

template <typename Builder>
bool Requester::gather(Builder& builder, const SendWqe& wqe, std::uint32_t bytes) noexcept {
  if (bytes == 0) return true;
  if (wqe.inline_data) {
    const std::uint8_t* data = state_.queue.inline_data(state_.transmit_index);
    builder.add_payload(data + (state_.transmit_packet << qp_.mtu_shift), bytes);
    return true;
  }
  const auto sges = state_.queue.sges(state_.transmit_index);
  if (state_.gather_packet != state_.transmit_packet) seek_gather(sges);
  while (bytes != 0) {
    const ibv_sge& sge = sges[state_.gather_index];
    const std::uint32_t count = std::min(bytes, sge.length - state_.gather_offset);
    if (count != 0) {
      const std::uint8_t* from =
          engine_.memory_.resolve(sge.lkey, qp_.init.pd, 0, sge.addr + state_.gather_offset, count);
      if (from == nullptr) return false;
      builder.add_payload(from, count);
    }
    bytes -= count;
    state_.gather_offset += count;
    if (state_.gather_offset == sge.length) {
      ++state_.gather_index;
      state_.gather_offset = 0;
    }
  }
  state_.gather_packet = state_.transmit_packet + 1;
  return true;
}

void Requester::seek_gather(std::span<const ibv_sge> sges) noexcept {
  std::uint64_t offset = std::uint64_t{state_.transmit_packet} << qp_.mtu_shift;
  std::uint32_t index = 0;
  while (offset >= sges[index].length) offset -= sges[index++].length;
  state_.gather_index = index;
  state_.gather_offset = static_cast<std::uint32_t>(offset);
  state_.gather_packet = state_.transmit_packet;
}

bool Requester::may_request_response(std::uint32_t packets) noexcept {
  if (!repeats_request() && state_.rd_ends.size() >= state_.max_rd_atomic) return false;
  // One request always fits into an empty pipe, however far the window has been cut.
  return in_flight() == 0 || in_flight() + packets <= state_.window_packets;
}

void Requester::note_request() noexcept {
  if (!repeats_request()) {
    const bool pushed = state_.rd_ends.push(state_.next_psn);
    assert(pushed);
    static_cast<void>(pushed);
  }
  ++state_.rd_issued_count;
}

// A READ leaves as several requests of at most half a window each: every one is a READ of its own
// on the wire, so that the responses pace themselves against the receiver's socket buffer.
bool Requester::transmit_read(TxBatch& batch, SendWqe& wqe) noexcept {
  if (state_.max_rd_atomic == 0) {
    wqe.status = IBV_WC_LOC_QP_OP_ERR;
    return false;
  }
  const std::uint32_t chunk =
      state_.max_rd_atomic > 1 ? std::max(1U, state_.window_packets / 2) : state_.window_packets;
  std::uint32_t packets = std::min(chunk, wqe.packet_count - state_.transmit_packet);
  if (repeats_request()) {
    packets =
        static_cast<std::uint32_t>(state_.rd_ends.at(state_.rd_issued_count) - state_.next_psn);
  }
  if (!may_request_response(packets)) return false;
  const auto sges = state_.queue.sges(state_.transmit_index);
  if (!accessible(engine_.memory_, qp_.init.pd, sges, IBV_ACCESS_LOCAL_WRITE)) {
    wqe.status = IBV_WC_LOC_PROT_ERR;
    return false;
  }
  const std::uint64_t offset = std::uint64_t{state_.transmit_packet} << qp_.mtu_shift;
  Headers headers;
  headers.opcode = Opcode::kReadRequest;
  headers.ack_request = true;
  headers.destination_qpn = qp_.remote_qpn;
  headers.psn = state_.next_psn;
  headers.remote_address = wqe.remote_address + offset;
  headers.rkey = wqe.rkey;
  headers.dma_length = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(wqe.length_bytes - offset, std::uint64_t{packets} << qp_.mtu_shift));
  PacketBuilder builder(batch, qp_.flow, headers);
  engine_.counters_.tx_bytes += builder.finish();
  advance(packets);
  note_request();
  return true;
}

bool Requester::transmit_atomic(TxBatch& batch, SendWqe& wqe) noexcept {
  if (state_.max_rd_atomic == 0) {
    wqe.status = IBV_WC_LOC_QP_OP_ERR;
    return false;
  }
  if (!may_request_response(1)) return false;
  const auto sges = state_.queue.sges(state_.transmit_index);
  if (!accessible(engine_.memory_, qp_.init.pd, sges, IBV_ACCESS_LOCAL_WRITE)) {
    wqe.status = IBV_WC_LOC_PROT_ERR;
    return false;
  }
  const bool swap = wqe.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
  Headers headers;
  headers.opcode = swap ? Opcode::kCompareSwap : Opcode::kFetchAdd;
  headers.ack_request = true;
  headers.destination_qpn = qp_.remote_qpn;
  headers.psn = state_.next_psn;
  headers.remote_address = wqe.remote_address;
  headers.rkey = wqe.rkey;
  headers.swap_or_add = swap ? wqe.swap : wqe.compare_add;
  headers.compare = swap ? wqe.compare_add : 0;
  PacketBuilder builder(batch, qp_.flow, headers);
  engine_.counters_.tx_bytes += builder.finish();
  advance(1);
  note_request();
  return true;
}

}  // namespace braid::roce
