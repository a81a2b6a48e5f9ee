#include "roce/engine.h"

#include <bit>
#include <cerrno>
#include <new>

#include "roce/qp.h"
#include "roce/requester.h"
#include "roce/responder.h"

namespace braid::roce {
namespace {

constexpr std::uint32_t kQpnBits = 24;
constexpr std::uint32_t kFirstQpn = 16;  // 0 and 1 are special; rxe refuses anything below 16

std::uint32_t mtu_in_bytes(ibv_mtu mtu) noexcept { return 128U << static_cast<unsigned>(mtu); }

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(const EngineOptions& options,
                                               EngineEvents& events) noexcept {
  const bool valid = std::has_single_bit(options.max_qp) && options.max_qp >= 2 &&
                     options.max_qp <= (1U << 20) && options.max_mr != 0 &&
                     options.window_packets != 0 && options.min_window_packets != 0 &&
                     options.min_window_packets <= options.window_packets &&
                     options.window_packets <= (1U << 20) && options.burst_packets != 0;
  if (!valid) return Status(StatusCode::kInvalidArgument);
  try {
    return std::unique_ptr<Engine>(new Engine(options, events));
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory);
  }
}

Engine::Engine(const EngineOptions& options, EngineEvents& events)
    : options_(options),
      events_(events),
      random_(options.seed),
      memory_(options.max_mr, random_),
      qps_(std::make_unique<std::unique_ptr<Qp>[]>(options.max_qp)),
      timer_heap_(std::make_unique<Qp*[]>(options.max_qp)) {}

Engine::~Engine() = default;

Result<Qp*> Engine::create_qp(const QpInit& init) noexcept {
  if (qp_count_ == options_.max_qp) return Status(StatusCode::kOutOfMemory);
  const std::uint32_t mask = options_.max_qp - 1;
  // The upper bits of the QPN are drawn anew each time, so that packets for a destroyed QP do not
  // reach its successor in the same slot.
  std::uint32_t qpn = 0;
  do {
    const auto generation = static_cast<std::uint32_t>(random_.next());
    qpn = ((generation & ~mask) | (next_slot_ & mask)) & ((1U << kQpnBits) - 1);
    if (qps_[next_slot_ & mask] != nullptr || qpn < kFirstQpn) {
      ++next_slot_;
      qpn = 0;
    }
  } while (qpn == 0);
  try {
    auto qp = std::make_unique<Qp>(qpn, init);
    Qp* raw = qp.get();
    qps_[next_slot_++ & mask] = std::move(qp);
    ++qp_count_;
    return raw;
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory);
  }
}

void Engine::destroy_qp(Qp* qp) noexcept {
  deactivate(*qp);
  disarm_timer(*qp);
  qp->init.send_cq->remove_qp(qp->qpn);
  if (qp->init.recv_cq != qp->init.send_cq) qp->init.recv_cq->remove_qp(qp->qpn);
  --qp_count_;
  qps_[qp->qpn & (options_.max_qp - 1)].reset();
}

int Engine::modify_qp(Qp& qp, const ibv_qp_attr& attr, int mask, const FlowAddress& flow) noexcept {
  Requester requester(*this, qp);
  Responder responder(*this, qp);
  const auto has = [mask](int bit) { return (mask & bit) != 0; };

  // What may fail comes first. Both are sized on the way up only, when nothing is outstanding.
  try {
    if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) responder.reserve(attr.max_dest_rd_atomic);
    if (has(IBV_QP_MAX_QP_RD_ATOMIC)) qp.requester.rd_ends = Ring<Psn>(attr.max_rd_atomic);
  } catch (const std::bad_alloc&) {
    return ENOMEM;
  }
  if (has(IBV_QP_ACCESS_FLAGS)) qp.access = static_cast<int>(attr.qp_access_flags);
  if (has(IBV_QP_AV)) qp.flow = flow;
  if (has(IBV_QP_DEST_QPN)) qp.remote_qpn = attr.dest_qp_num;
  if (has(IBV_QP_PATH_MTU)) {
    qp.mtu_bytes = mtu_in_bytes(attr.path_mtu);
    qp.mtu_shift = static_cast<std::uint32_t>(std::countr_zero(qp.mtu_bytes));
  }
  if (has(IBV_QP_MIN_RNR_TIMER)) qp.responder.min_rnr_timer = attr.min_rnr_timer;
  if (has(IBV_QP_RQ_PSN)) responder.start(Psn(attr.rq_psn));
  if (has(IBV_QP_TIMEOUT)) qp.requester.timeout_code = attr.timeout & 0x1F;
  if (has(IBV_QP_RETRY_CNT)) qp.requester.retry_limit = qp.requester.retries_left = attr.retry_cnt;
  if (has(IBV_QP_RNR_RETRY)) {
    qp.requester.rnr_retry_limit = qp.requester.rnr_retries_left = attr.rnr_retry;
  }
  if (has(IBV_QP_MAX_QP_RD_ATOMIC)) qp.requester.max_rd_atomic = attr.max_rd_atomic;
  if (has(IBV_QP_SQ_PSN)) requester.start(Psn(attr.sq_psn));
  if (has(IBV_QP_EN_SQD_ASYNC_NOTIFY)) {
    qp.requester.drain_event = attr.en_sqd_async_notify != 0;
  }
  if (has(IBV_QP_STATE)) enter_state(qp, attr.qp_state);
  return 0;
}

void Engine::enter_state(Qp& qp, ibv_qp_state state) noexcept {
  switch (state) {
    case IBV_QPS_RESET:
      Requester(*this, qp).reset();
      Responder(*this, qp).reset();
      deactivate(qp);
      qp.init.send_cq->remove_qp(qp.qpn);
      if (qp.init.recv_cq != qp.init.send_cq) qp.init.recv_cq->remove_qp(qp.qpn);
      qp.state = state;
      break;
    case IBV_QPS_ERR: enter_error(qp); break;
    case IBV_QPS_SQD:
      qp.state = state;
      Requester(*this, qp).check_drained();
      break;
    default:
      qp.state = state;
      if (state == IBV_QPS_RTS) activate(qp);
      break;
  }
}

void Engine::enter_error(Qp& qp) noexcept {
  if (qp.state == IBV_QPS_ERR) return;
  qp.state = IBV_QPS_ERR;
  Requester(*this, qp).flush();
  Responder(*this, qp).flush();
  if (qp.responder.nak_pending) activate(qp);
}

void Engine::set_source_port(Qp& qp, std::uint16_t port) noexcept { qp.flow.source_port = port; }

std::unique_ptr<ReceiveQueue> Engine::create_srq(PdId pd, std::uint32_t max_wr,
                                                 std::uint32_t max_sge, void* owner) noexcept {
  try {
    return std::make_unique<ReceiveQueue>(pd, max_wr, max_sge, owner);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

std::uint32_t qpn_of(const Qp& qp) noexcept { return qp.qpn; }
void* owner_of(const Qp& qp) noexcept { return qp.init.owner; }
void* owner_of(const ReceiveQueue& srq) noexcept { return srq.owner(); }
ibv_qp_state state_of(const Qp& qp) noexcept { return qp.state; }
const FlowAddress& flow_of(const Qp& qp) noexcept { return qp.flow; }
std::uint32_t sq_psn_of(const Qp& qp) noexcept { return qp.requester.next_psn.value(); }
std::uint32_t rq_psn_of(const Qp& qp) noexcept { return qp.responder.expected_psn.value(); }
std::uint32_t send_room_of(const Qp& qp) noexcept { return qp.requester.queue.room(); }
void set_srq_limit(ReceiveQueue& srq, std::uint32_t limit) noexcept { srq.set_limit(limit); }
std::uint32_t srq_limit_of(const ReceiveQueue& srq) noexcept { return srq.limit(); }

}  // namespace braid::roce
