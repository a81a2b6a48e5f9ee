#pragma once

#include <braid/time.h>
#include <infiniband/verbs.h>

#include <cstdint>
#include <memory>

#include "base/ring.h"
#include "roce/address.h"
#include "roce/engine.h"
#include "roce/receive_queue.h"
#include "roce/send_queue.h"
#include "roce/wire_format.h"

namespace braid::roce {

/// Requester and completer half: what this side asked for and has not seen answered.
///
/// Invariants, PSN order: oldest_unacked <= next_psn <= highest_sent. PSNs of WQEs between
/// completed() and transmit_index are contiguous. rd_ends holds the end (one past the last PSN) of
/// each unanswered READ or atomic request, oldest first; the first rd_issued_count of them are on
/// their way, the others are to be repeated with the same ends, because a responder recognises a
/// duplicate READ only within the bounds of the original.
struct RequesterState {
  explicit RequesterState(const QpInit& init)
      : queue(init.max_send_wr, init.max_send_sge, init.max_inline_bytes) {}

  SendQueue queue;
  std::uint32_t transmit_index = 0;   // WQE that the next packet belongs to
  std::uint32_t transmit_packet = 0;  // packet of that WQE, 0-based
  std::uint32_t gather_index = 0;     // SGE and offset that transmit_packet starts at ...
  std::uint32_t gather_offset = 0;
  std::uint32_t gather_packet = 0;  // ... valid for this packet only
  static constexpr std::uint32_t kNoGather = 0xFFFFFFFF;
  Psn next_psn;  // of the next packet to be sent; goes back on retransmission
  Psn oldest_unacked;
  Psn highest_sent;                  // one past the highest PSN that has ever left
  Psn recovery_point;                // the window is cut at most once until this is acknowledged
  std::uint32_t window_packets = 0;  // between min_window_packets and window_packets
  std::uint32_t window_credit = 0;   // acknowledged packets since the window last grew
  std::uint32_t unrequested_packets = 0;  // sent since a packet last asked for an acknowledgement
  Ring<Psn> rd_ends;                      // capacity from max_rd_atomic
  std::size_t rd_issued_count = 0;
  std::uint32_t max_rd_atomic = 0;
  std::uint8_t timeout_code = 0;
  std::uint8_t retry_limit = 0;
  std::uint8_t rnr_retry_limit = 0;
  std::uint8_t retries_left = 0;
  std::uint8_t rnr_retries_left = 0;
  bool rnr_waiting = false;    // nothing is sent until the deadline
  bool read_gap_seen = false;  // a lost response has been asked for again
  bool blocked = false;        // the WQE at transmit_index has failed and waits for its turn
  bool drain_event = false;    // SQD: raise SQ_DRAINED when everything sent is answered
};

/// A READ or atomic that the responder remembers so that it can answer a duplicate.
struct ReadAtomicResource {
  Psn first_psn;
  Psn last_psn;
  bool atomic = false;
  std::uint64_t remote_address = 0;
  std::uint32_t rkey = 0;
  std::uint32_t length_bytes = 0;
  std::uint64_t original = 0;  // result of an atomic
};

/// A response that is being streamed.
struct ResponseJob {
  Psn first_psn;
  Msn msn;
  bool atomic = false;
  std::uint32_t rkey = 0;
  std::uint32_t packet_count = 0;
  std::uint32_t sent_count = 0;
  std::uint32_t length_bytes = 0;
  std::uint64_t remote_address = 0;
  std::uint64_t original = 0;
};

/// Responder half: where the peer's requests stand.
struct ResponderState {
  enum class Message : std::uint8_t { kNone, kSend, kWrite };

  Psn expected_psn;
  Msn msn;
  Message message = Message::kNone;  // in progress
  bool nak_sent = false;             // silent until expected_psn arrives
  bool rnr_sent = false;             // ... and the reason was a missing receive
  bool ack_pending = false;
  bool nak_pending = false;
  std::uint8_t nak_syndrome = 0;
  Psn nak_psn;
  std::uint8_t min_rnr_timer = 0;
  bool comm_established = false;

  // WRITE in progress.
  std::uint64_t write_address = 0;
  std::uint32_t write_rkey = 0;
  std::uint32_t write_total_bytes = 0;
  std::uint32_t write_left_bytes = 0;

  // Receive taken by a SEND in progress.
  bool has_receive = false;
  std::uint64_t receive_wr_id = 0;
  std::uint32_t receive_sge_count = 0;
  std::uint32_t receive_bytes = 0;  // placed so far
  std::unique_ptr<ibv_sge[]> receive_sges;

  std::uint32_t max_dest_rd_atomic = 0;
  std::uint32_t resource_count = 0;  // free-running; the ring holds the newest
  std::unique_ptr<ReadAtomicResource[]> resources;
  Ring<ResponseJob> jobs;  // capacity twice max_dest_rd_atomic: originals and their replays
};

/// A reliable connection QP. The engine owns it; Requester and Responder work on it.
class Qp {
 public:
  Qp(std::uint32_t number, const QpInit& init_attributes)
      : qpn(number),
        init(init_attributes),
        receives(init.srq != nullptr ? nullptr
                                     : std::make_unique<ReceiveQueue>(init.pd, init.max_recv_wr,
                                                                      init.max_recv_sge, nullptr)),
        requester(init) {
    responder.receive_sges = std::make_unique<ibv_sge[]>(receive_queue().max_sge());
  }

  [[nodiscard]] ReceiveQueue& receive_queue() noexcept {
    return init.srq != nullptr ? *init.srq : *receives;
  }

  std::uint32_t qpn;
  QpInit init;
  ibv_qp_state state = IBV_QPS_RESET;
  int access = 0;
  std::uint32_t remote_qpn = 0;
  std::uint32_t mtu_bytes = 1024;
  std::uint32_t mtu_shift = 10;
  FlowAddress flow;

  std::unique_ptr<ReceiveQueue> receives;
  RequesterState requester;
  ResponderState responder;

  // Membership in the engine's list of QPs with something to send.
  bool active = false;
  Qp* active_previous = nullptr;
  Qp* active_next = nullptr;

  // Membership in the engine's timer heap. The heap is ordered by armed_deadline, which may lie
  // before deadline: moving a deadline back, as every acknowledgement does, costs one store.
  static constexpr std::uint32_t kNotInHeap = 0xFFFFFFFF;
  TimePoint deadline = kNever;
  TimePoint armed_deadline = kNever;
  std::uint32_t heap_index = kNotInHeap;
};

}  // namespace braid::roce
