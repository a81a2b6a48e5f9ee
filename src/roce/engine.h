#pragma once

#include <braid/result.h>
#include <braid/time.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/random.h"
#include "roce/address.h"
#include "roce/completion_queue.h"
#include "roce/datagram.h"
#include "roce/memory_table.h"
#include "roce/packet.h"

namespace braid::roce {

class Qp;
class ReceiveQueue;

/// What the engine tells the verbs layer. Called with the device's mutex held, from inside engine
/// calls; implementations queue and return, and never call back into the engine.
class EngineEvents {
 public:
  virtual ~EngineEvents() = default;
  /// An armed completion queue got the completion it was armed for.
  virtual void on_completion_event(CompletionQueue& cq) noexcept = 0;
  /// IBV_EVENT_QP_FATAL, _QP_REQ_ERR, _QP_ACCESS_ERR, _COMM_EST, _SQ_DRAINED, _QP_LAST_WQE_REACHED.
  virtual void on_qp_event(Qp& qp, ibv_event_type type) noexcept = 0;
  /// IBV_EVENT_CQ_ERR: the queue overflowed.
  virtual void on_cq_event(CompletionQueue& cq, ibv_event_type type) noexcept = 0;
  /// IBV_EVENT_SRQ_LIMIT_REACHED.
  virtual void on_srq_event(ReceiveQueue& srq, ibv_event_type type) noexcept = 0;
};

struct EngineOptions {
  std::uint32_t max_qp = 16384;  // power of two; 8 bytes each
  std::uint32_t max_mr = 65536;  // 48 bytes each
  /// Most packets one QP has unacknowledged, reads' responses included. rxe stops at 128. More
  /// covers a longer path, less needs a smaller socket buffer at the receiver.
  std::uint32_t window_packets = 128;
  /// Window that loss may not push below, so that recovery never waits for a timer alone.
  std::uint32_t min_window_packets = 8;
  /// Packets that one QP sends in its turn before the next QP's.
  std::uint32_t burst_packets = 16;
  /// Shortest retransmission timeout, whatever the QP's timeout attribute says: below the latency
  /// of a scheduled thread a timer only repeats what is already on its way.
  Duration min_timeout = std::chrono::milliseconds(4);
  std::uint64_t seed = 1;   // PSN-independent randomness: keys, QPN generations, start values
  bool verify_icrc = true;  // false only where the wire is known to be memory
  /// False leaves memory as it is where a WRITE goes, and changes nothing else: for a simulation
  /// whose packets carry no contents.
  bool store_writes = true;
};

struct QpInit {
  PdId pd{};
  CompletionQueue* send_cq = nullptr;  // outlives the QP
  CompletionQueue* recv_cq = nullptr;  // outlives the QP
  ReceiveQueue* srq = nullptr;         // outlives the QP; null = own receive queue
  std::uint32_t max_send_wr = 1;
  std::uint32_t max_recv_wr = 1;
  std::uint32_t max_send_sge = 1;
  std::uint32_t max_recv_sge = 1;
  std::uint32_t max_inline_bytes = 0;
  bool signal_all = false;
  void* owner = nullptr;
};

/// Counters of one engine. Plain integers: read them under the device's mutex.
struct EngineCounters {
  std::uint64_t tx_packets = 0;
  std::uint64_t tx_bytes = 0;  // UDP payload
  std::uint64_t rx_packets = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t retransmitted_packets = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t sequence_naks_sent = 0;
  std::uint64_t sequence_naks_received = 0;
  std::uint64_t rnr_naks_sent = 0;
  std::uint64_t rnr_naks_received = 0;
  std::uint64_t duplicate_requests = 0;
  std::uint64_t acks_sent = 0;
  std::array<std::uint64_t, static_cast<std::size_t>(DropReason::kCount)> dropped{};
};

/// RoCEv2 RC engine of one device: requester, responder, completer, memory table and timers,
/// wire-compatible with the kernel's rdma_rxe. Sans-IO: it opens no socket and reads no clock.
///
/// Contract:
///  - in: post_*(), handle_packet(), handle_timeout(); all but the posts take `now`;
///  - out: poll_transmit() until it adds nothing, completions in the CompletionQueues, events
///    through EngineEvents, and next_deadline(): call handle_timeout() when it has passed;
///  - `now` never goes backwards; a caller may hand the same value to a whole batch.
/// Thread: none; the device's mutex serialises everything, except CompletionQueue::poll().
/// Cost: after create() and create_qp() nothing allocates.
class Engine {
 public:
  /// Errors: kInvalidArgument for capacities that are zero or not a power of two.
  static Result<std::unique_ptr<Engine>> create(const EngineOptions& options,
                                                EngineEvents& events) noexcept;
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // --- setup -------------------------------------------------------------------------------

  /// Creates a QP in RESET. Errors: kOutOfMemory when max_qp QPs exist or memory is short.
  Result<Qp*> create_qp(const QpInit& init) noexcept;
  /// Frees the QP and removes its completions from its queues.
  void destroy_qp(Qp* qp) noexcept;

  /// Applies attributes that the verbs layer has validated (states, masks, ranges).
  ///
  /// Shape: `mask` and `attr` as in ibv_modify_qp; with IBV_QP_AV, `flow` is the path that the
  /// address handle resolved to. Effects of the target state: RESET forgets everything; ERR
  /// flushes every posted WR with IBV_WC_WR_FLUSH_ERR; RTS starts sending.
  /// Returns 0, or ENOMEM when there is no memory for the READs and atomics to be remembered; the
  /// QP is then as before.
  int modify_qp(Qp& qp, const ibv_qp_attr& attr, int mask, const FlowAddress& flow) noexcept;
  /// Changes the UDP source port of a QP in RTR or RTS, from the next packet on.
  void set_source_port(Qp& qp, std::uint16_t port) noexcept;

  /// A shared receive queue. Null when memory is short.
  static std::unique_ptr<ReceiveQueue> create_srq(PdId pd, std::uint32_t max_wr,
                                                  std::uint32_t max_sge, void* owner) noexcept;

  [[nodiscard]] MemoryTable& memory() noexcept { return memory_; }
  [[nodiscard]] const EngineCounters& counters() const noexcept { return counters_; }

  // --- data path ---------------------------------------------------------------------------

  /// ibv_post_send. Returns 0 or EINVAL (state, opcode, flags, SGE or inline size) or ENOMEM
  /// (queue full); then *bad is the first WR that was not posted and those before it stand.
  int post_send(Qp& qp, const ibv_send_wr* wr, const ibv_send_wr** bad) noexcept;
  /// ibv_post_recv; errors as post_send.
  int post_recv(Qp& qp, const ibv_recv_wr* wr, const ibv_recv_wr** bad) noexcept;
  /// ibv_post_srq_recv; errors as post_send.
  int post_srq_recv(ReceiveQueue& srq, const ibv_recv_wr* wr, const ibv_recv_wr** bad) noexcept;

  /// Takes one received packet. Anything that is not a valid packet for one of the QPs is counted
  /// in counters().dropped and otherwise ignored.
  void handle_packet(const RxDatagram& datagram, TimePoint now) noexcept;

  /// Appends packets to `batch` until it is full or nothing may be sent at this moment.
  void poll_transmit(TxBatch& batch, TimePoint now) noexcept;
  /// True when poll_transmit() would have something to look at.
  [[nodiscard]] bool wants_transmit() const noexcept { return active_head_ != nullptr; }

  /// Fires the timers that are due: retransmission, RNR.
  void handle_timeout(TimePoint now) noexcept;
  /// Earliest moment at which handle_timeout() has something to do, or kNever. May be early (then
  /// handle_timeout() only re-arms), never late.
  [[nodiscard]] TimePoint next_deadline() const noexcept;

 private:
  friend class Requester;
  friend class Responder;

  Engine(const EngineOptions& options, EngineEvents& events);

  [[nodiscard]] Qp* find_qp(std::uint32_t qpn) const noexcept;
  void activate(Qp& qp) noexcept;
  void deactivate(Qp& qp) noexcept;
  void count_drop(DropReason reason) noexcept {
    ++counters_.dropped[static_cast<std::size_t>(reason)];
  }
  void complete(Qp& qp, CompletionQueue& cq, const ibv_wc& completion, bool solicited) noexcept;
  void enter_state(Qp& qp, ibv_qp_state state) noexcept;
  void enter_error(Qp& qp) noexcept;
  [[nodiscard]] DropReason dispatch(const RxDatagram& datagram, const Packet& packet,
                                    TimePoint now) noexcept;

  /// Sets the QP's deadline. The heap is touched only when it is not due early enough already.
  void arm_timer(Qp& qp, TimePoint deadline) noexcept;
  void disarm_timer(Qp& qp) noexcept;
  void sift_up(std::uint32_t index) noexcept;
  void sift_down(std::uint32_t index) noexcept;
  void place(std::uint32_t index, Qp* qp) noexcept;

  EngineOptions options_;
  EngineEvents& events_;
  Random random_;
  MemoryTable memory_;
  EngineCounters counters_;
  std::unique_ptr<std::unique_ptr<Qp>[]> qps_;  // by the low bits of the QPN
  std::uint32_t next_slot_ = 0;
  std::uint32_t qp_count_ = 0;
  Qp* active_head_ = nullptr;  // QPs with something to send, in turn
  Qp* active_tail_ = nullptr;
  std::unique_ptr<Qp*[]> timer_heap_;  // by Qp::armed_deadline, earliest first
  std::uint32_t timer_count_ = 0;
};

// Accessors for the verbs layer, which holds a Qp as an opaque reference.
[[nodiscard]] std::uint32_t qpn_of(const Qp& qp) noexcept;
[[nodiscard]] void* owner_of(const Qp& qp) noexcept;
[[nodiscard]] void* owner_of(const ReceiveQueue& srq) noexcept;
[[nodiscard]] ibv_qp_state state_of(const Qp& qp) noexcept;
[[nodiscard]] const FlowAddress& flow_of(const Qp& qp) noexcept;
/// Current PSNs, for ibv_query_qp: sq_psn is the next to send, rq_psn the next expected.
[[nodiscard]] std::uint32_t sq_psn_of(const Qp& qp) noexcept;
[[nodiscard]] std::uint32_t rq_psn_of(const Qp& qp) noexcept;
/// WRs that post_send() takes before it returns ENOMEM.
[[nodiscard]] std::uint32_t send_room_of(const Qp& qp) noexcept;
/// Arms the limit event of a shared receive queue (ibv_modify_srq); 0 disarms.
void set_srq_limit(ReceiveQueue& srq, std::uint32_t limit) noexcept;
[[nodiscard]] std::uint32_t srq_limit_of(const ReceiveQueue& srq) noexcept;

}  // namespace braid::roce
