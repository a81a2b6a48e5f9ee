#include <cassert>

#include "roce/engine.h"
#include "roce/icrc.h"
#include "roce/qp.h"
#include "roce/requester.h"
#include "roce/responder.h"

namespace braid::roce {

int Engine::post_send(Qp& qp, const ibv_send_wr* wr, const ibv_send_wr** bad) noexcept {
  const bool flushed = qp.state == IBV_QPS_ERR;
  int error = flushed || qp.state == IBV_QPS_RTS || qp.state == IBV_QPS_SQD ? 0 : EINVAL;
  for (; error == 0 && wr != nullptr; wr = wr->next) {
    error = qp.requester.queue.post(*wr, qp.init.signal_all);
    if (error != 0) break;
  }
  if (error != 0) *bad = wr;
  if (flushed) {
    Requester(*this, qp).flush();
  } else if (!qp.requester.queue.empty()) {
    activate(qp);
  }
  return error;
}

int Engine::post_recv(Qp& qp, const ibv_recv_wr* wr, const ibv_recv_wr** bad) noexcept {
  int error = qp.receives == nullptr || qp.state == IBV_QPS_RESET ? EINVAL : 0;
  for (; error == 0 && wr != nullptr; wr = wr->next) {
    error = qp.receives->post(*wr);
    if (error != 0) break;
  }
  if (error != 0) *bad = wr;
  if (qp.state == IBV_QPS_ERR && qp.receives != nullptr) Responder(*this, qp).flush();
  return error;
}

int Engine::post_srq_recv(ReceiveQueue& srq, const ibv_recv_wr* wr,
                          const ibv_recv_wr** bad) noexcept {
  for (; wr != nullptr; wr = wr->next) {
    const int error = srq.post(*wr);
    if (error == 0) continue;
    *bad = wr;
    return error;
  }
  return 0;
}

void Engine::complete(Qp& qp, CompletionQueue& cq, const ibv_wc& completion,
                      bool solicited) noexcept {
  const bool broken_before = cq.in_error();
  bool event = false;
  if (cq.push(completion, solicited, event)) {
    if (event) events_.on_completion_event(cq);
    return;
  }
  // Overrun: the queue is broken for good, and so is whatever completes into it.
  if (!broken_before) events_.on_cq_event(cq, IBV_EVENT_CQ_ERR);
  if (qp.state != IBV_QPS_ERR) {
    enter_error(qp);
    events_.on_qp_event(qp, IBV_EVENT_QP_FATAL);
  }
}

Qp* Engine::find_qp(std::uint32_t qpn) const noexcept {
  Qp* qp = qps_[qpn & (options_.max_qp - 1)].get();
  return qp != nullptr && qp->qpn == qpn ? qp : nullptr;
}

void Engine::handle_packet(const RxDatagram& datagram, TimePoint now) noexcept {
  ++counters_.rx_packets;
  counters_.rx_bytes += datagram.payload.size();
  Packet packet;
  DropReason reason = parse_packet(datagram.payload, packet);
  if (reason == DropReason::kNone && options_.verify_icrc && !verify_icrc(datagram)) {
    reason = DropReason::kBadIcrc;
  }
  if (reason == DropReason::kNone) reason = dispatch(datagram, packet, now);
  if (reason != DropReason::kNone) count_drop(reason);
}

DropReason Engine::dispatch(const RxDatagram& datagram, const Packet& packet,
                            TimePoint now) noexcept {
  const Headers& headers = packet.headers;
  // Full or limited membership of the default partition; only the low 15 bits are the key.
  if ((headers.pkey & 0x7FFF) != (kDefaultPkey & 0x7FFF)) return DropReason::kBadPkey;
  Qp* qp = find_qp(headers.destination_qpn);
  if (qp == nullptr) return DropReason::kUnknownQp;
  if (datagram.source != qp->flow.destination || datagram.destination != qp->flow.source) {
    return DropReason::kWrongAddress;
  }
  const OpcodeTraits& traits = traits_of(static_cast<std::uint8_t>(headers.opcode));
  if (traits.request) {
    const bool ready = qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS ||
                       qp->state == IBV_QPS_SQD || qp->state == IBV_QPS_SQE;
    if (!ready) return DropReason::kQpNotReady;
    Responder(*this, *qp).handle_request(packet);
    return DropReason::kNone;
  }
  if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) return DropReason::kQpNotReady;
  Requester requester(*this, *qp);
  if (traits.read_response) {
    requester.handle_read_response(packet, now);
  } else if (traits.atomic_ack) {
    requester.handle_atomic_acknowledge(headers, now);
  } else {
    requester.handle_acknowledge(headers, now);
  }
  return DropReason::kNone;
}

void Engine::activate(Qp& qp) noexcept {
  if (qp.active) return;
  qp.active = true;
  qp.active_next = nullptr;
  qp.active_previous = active_tail_;
  (active_tail_ != nullptr ? active_tail_->active_next : active_head_) = &qp;
  active_tail_ = &qp;
}

void Engine::deactivate(Qp& qp) noexcept {
  if (!qp.active) return;
  qp.active = false;
  (qp.active_previous != nullptr ? qp.active_previous->active_next : active_head_) = qp.active_next;
  (qp.active_next != nullptr ? qp.active_next->active_previous : active_tail_) = qp.active_previous;
  qp.active_previous = qp.active_next = nullptr;
}

void Engine::poll_transmit(TxBatch& batch, TimePoint now) noexcept {
  const std::size_t before = batch.size();
  while (active_head_ != nullptr && !batch.full()) {
    Qp& qp = *active_head_;
    deactivate(qp);
    Responder responder(*this, qp);
    // Requests first: the acknowledgement behind them is shorter, so that it can end their
    // segmented send instead of costing one of its own. One packet of the turn is kept for it.
    const std::uint32_t kept = responder.wants_transmit() ? 1 : 0;
    const std::uint32_t budget = options_.burst_packets - kept;
    const std::uint32_t sent = budget != 0 ? Requester(*this, qp).transmit(batch, budget, now) : 0;
    const std::uint32_t left = budget - sent + kept;
    const bool answered = left == 0 || responder.transmit(batch, left) < left;
    // A QP that stopped before its turn was over waits for an acknowledgement, a timer or a post,
    // unless it was the batch that ended its turn.
    if (sent == budget || !answered || batch.full()) activate(qp);
  }
  counters_.tx_packets += batch.size() - before;
}

void Engine::handle_timeout(TimePoint now) noexcept {
  while (timer_count_ != 0 && timer_heap_[0]->armed_deadline <= now) {
    Qp& qp = *timer_heap_[0];
    const TimePoint due = qp.deadline;
    if (due == kNever) {
      disarm_timer(qp);
    } else if (due > now) {
      qp.armed_deadline = due;
      sift_down(0);
    } else {
      disarm_timer(qp);
      Requester(*this, qp).handle_timeout(now);
    }
  }
}

TimePoint Engine::next_deadline() const noexcept {
  return timer_count_ != 0 ? timer_heap_[0]->armed_deadline : kNever;
}

void Engine::arm_timer(Qp& qp, TimePoint deadline) noexcept {
  qp.deadline = deadline;
  if (qp.heap_index == Qp::kNotInHeap) {
    qp.armed_deadline = deadline;
    place(timer_count_++, &qp);
    sift_up(qp.heap_index);
  } else if (deadline < qp.armed_deadline) {
    qp.armed_deadline = deadline;
    sift_up(qp.heap_index);
  }
}

void Engine::disarm_timer(Qp& qp) noexcept {
  const std::uint32_t index = qp.heap_index;
  if (index == Qp::kNotInHeap) return;
  qp.heap_index = Qp::kNotInHeap;
  Qp* last = timer_heap_[--timer_count_];
  if (last == &qp) return;
  place(index, last);
  sift_up(index);
  sift_down(last->heap_index);
}

void Engine::place(std::uint32_t index, Qp* qp) noexcept {
  timer_heap_[index] = qp;
  qp->heap_index = index;
}

void Engine::sift_up(std::uint32_t index) noexcept {
  Qp* qp = timer_heap_[index];
  while (index != 0) {
    const std::uint32_t parent = (index - 1) / 2;
    if (timer_heap_[parent]->armed_deadline <= qp->armed_deadline) break;
    place(index, timer_heap_[parent]);
    index = parent;
  }
  place(index, qp);
}

void Engine::sift_down(std::uint32_t index) noexcept {
  Qp* qp = timer_heap_[index];
  for (;;) {
    std::uint32_t child = 2 * index + 1;
    if (child >= timer_count_) break;
    if (child + 1 < timer_count_ &&
        timer_heap_[child + 1]->armed_deadline < timer_heap_[child]->armed_deadline) {
      ++child;
    }
    if (qp->armed_deadline <= timer_heap_[child]->armed_deadline) break;
    place(index, timer_heap_[child]);
    index = child;
  }
  place(index, qp);
}

}  // namespace braid::roce
