#include <algorithm>
#include <array>
#include <cerrno>

#include "verbs/fault_verbs.h"

namespace braid::verbs {
namespace {

constexpr std::size_t kPollBatch = 16;

FaultCq* outer(ibv_cq* cq) { return static_cast<FaultCq*>(cq); }
FaultQp* outer(ibv_qp* qp) { return static_cast<FaultQp*>(qp); }
FaultVerbs* api_of(ibv_context* context) { return static_cast<FaultContext*>(context)->api; }

/// Posts a chain in the pieces that the faults cut it into.
///
/// `strike(fault)` counts one WR; `post(wr, bad)` posts to the device; `turn()` turns the QP.
template <typename Wr, typename Strike, typename Post, typename Turn>
int post_with_faults(Wr* wr, Wr** bad, Strike strike, Post post, Turn turn) {
  Wr* piece = wr;  // first WR that is not posted yet
  Wr* previous = nullptr;
  for (Wr* at = wr; at != nullptr; previous = at, at = at->next) {
    Fault fault;
    if (!strike(fault)) continue;
    if (fault.action == FaultAction::kFail) {
      if (piece != at) {
        previous->next = nullptr;
        const int error = post(piece, bad);
        previous->next = at;
        if (error != 0) return error;
      }
      *bad = at;
      return fault.error;
    }
    if (fault.action == FaultAction::kQpToError) {
      Wr* rest = at->next;
      at->next = nullptr;
      const int error = post(piece, bad);
      at->next = rest;
      if (error != 0) return error;
      turn();
      piece = rest;
    }
  }
  return piece != nullptr ? post(piece, bad) : 0;
}

FaultQp* find_qp(const FaultCq& cq, std::uint32_t qpn) {
  FaultQp* qp = cq.qps;
  while (qp != nullptr && qp->qp_num != qpn) {
    qp = qp->send_cq == &cq ? qp->next_of_send_cq : qp->next_of_recv_cq;
  }
  return qp;
}

/// True when a completion of this QP must wait behind held[limit - 1] or an earlier one.
bool waits_in_order(const FaultCq& cq, std::uint32_t qpn, std::size_t limit) {
  for (std::size_t i = 0; i < limit; ++i) {
    if (cq.held[i].wc.qp_num == qpn && cq.held[i].keep_qp_order) return true;
  }
  return false;
}

/// Counts one completion handed on, for those that wait for a number of them.
void count_distance(FaultCq& cq) {
  for (std::size_t i = 0; i < cq.held_count; ++i) {
    HeldCompletion& held = cq.held[i];
    if (held.distance_left != 0 && --held.distance_left == 0) held.polls_left = 0;
  }
}

void make_ready(FaultCq& cq, const ibv_wc& wc) {
  // Never full: it holds every held completion plus one batch, and a batch is taken only when it
  // is empty.
  static_cast<void>(cq.ready.push(wc));
  count_distance(cq);
}

/// Moves what is due from held to ready. One that becomes ready can make others due.
void release_due(FaultCq& cq) {
  std::size_t i = 0;
  while (i < cq.held_count) {
    const HeldCompletion held = cq.held[i];
    if (held.polls_left != 0 || waits_in_order(cq, held.wc.qp_num, i)) {
      ++i;
      continue;
    }
    std::move(&cq.held[i + 1], &cq.held[cq.held_count], &cq.held[i]);
    --cq.held_count;
    make_ready(cq, held.wc);
    i = 0;
  }
}

void hold(FaultCq& cq, const ibv_wc& wc, std::uint32_t polls, std::uint32_t distance,
          bool keep_qp_order) {
  HeldCompletion& held = cq.held[cq.held_count++];
  held.wc = wc;
  held.polls_left = polls;
  held.distance_left = distance;
  held.keep_qp_order = keep_qp_order;
}

void set_status(ibv_wc& wc, ibv_wc_status status) {
  wc.status = status;
  if (status == IBV_WC_SUCCESS) return;
  wc.opcode = static_cast<ibv_wc_opcode>(0x7F);
  wc.byte_len = 0xDEADBEEF;
  wc.imm_data = 0xDEADBEEF;
  wc.wc_flags = 0xFF;
  wc.src_qp = 0xDEADBE;
}

}  // namespace

void FaultVerbs::turn_to_error(FaultQp& qp) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  if (inner_.modify_qp(qp.inner, &attr, IBV_QP_STATE) != 0) ++refused_;
}

int FaultVerbs::op_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  FaultVerbs& api = *api_of(qp->context);
  FaultQp& ours = *outer(qp);
  return post_with_faults(
      wr, bad,
      [&](Fault& fault) { return api.script_.strike(FaultPoint::kPostSend, ours.ordinal, fault); },
      [&](ibv_send_wr* piece, ibv_send_wr** bad_piece) {
        return ibv_post_send(ours.inner, piece, bad_piece);
      },
      [&] { api.turn_to_error(ours); });
}

int FaultVerbs::op_post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  FaultVerbs& api = *api_of(qp->context);
  FaultQp& ours = *outer(qp);
  return post_with_faults(
      wr, bad,
      [&](Fault& fault) {
        return api.script_.strike(FaultPoint::kPostReceive, ours.ordinal, fault);
      },
      [&](ibv_recv_wr* piece, ibv_recv_wr** bad_piece) {
        return ibv_post_recv(ours.inner, piece, bad_piece);
      },
      [&] { api.turn_to_error(ours); });
}

int FaultVerbs::op_post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  FaultVerbs& api = *api_of(srq->context);
  ibv_srq* device_srq = static_cast<FaultSrq*>(srq)->inner;
  return post_with_faults(
      wr, bad, [&](Fault& fault) { return api.script_.strike(FaultPoint::kPostReceive, 0, fault); },
      [&](ibv_recv_wr* piece, ibv_recv_wr** bad_piece) {
        return ibv_post_srq_recv(device_srq, piece, bad_piece);
      },
      [] {});  // no QP to turn
}

void FaultVerbs::accept_completion(FaultCq& cq, ibv_wc wc) {
  FaultQp* qp = find_qp(cq, wc.qp_num);
  Fault fault;
  if (script_.strike(FaultPoint::kCompletion, qp != nullptr ? qp->ordinal : 0, fault)) {
    switch (fault.action) {
      case FaultAction::kSwallow: return;
      case FaultAction::kDelay: hold(cq, wc, fault.delay_polls, 0, fault.keep_qp_order); return;
      case FaultAction::kReorder:
        hold(cq, wc, fault.delay_polls, fault.distance, fault.keep_qp_order);
        return;
      case FaultAction::kSetStatus: set_status(wc, fault.status); break;
      case FaultAction::kQpToError:
        if (qp != nullptr) turn_to_error(*qp);
        break;
      case FaultAction::kFail: break;  // a completion cannot fail to be taken
    }
  }
  if (waits_in_order(cq, wc.qp_num, cq.held_count)) {
    hold(cq, wc, 0, 0, true);
    return;
  }
  make_ready(cq, wc);
  release_due(cq);
}

int FaultVerbs::op_poll_cq(ibv_cq* cq, int count, ibv_wc* out) {
  FaultVerbs& api = *api_of(cq->context);
  FaultCq& ours = *outer(cq);
  const std::lock_guard lock(ours.hold_mutex);
  for (std::size_t i = 0; i < ours.held_count; ++i) {
    if (ours.held[i].polls_left != 0) --ours.held[i].polls_left;
  }
  release_due(ours);

  int taken = 0;
  while (taken < count) {
    if (!ours.ready.empty()) {
      out[taken++] = ours.ready.front();
      ours.ready.pop();
      continue;
    }
    const std::size_t room = std::min(kPollBatch, ours.held_capacity - ours.held_count);
    const int wanted = std::min(count - taken, static_cast<int>(room));
    if (wanted == 0) break;
    std::array<ibv_wc, kPollBatch> batch;
    const int got = ibv_poll_cq(ours.inner, wanted, batch.data());
    if (got < 0 && taken == 0) return got;
    if (got <= 0) break;
    for (int i = 0; i < got; ++i) {
      api.accept_completion(ours, batch[static_cast<std::size_t>(i)]);
    }
  }
  return taken;
}

int FaultVerbs::op_req_notify_cq(ibv_cq* cq, int solicited_only) {
  FaultVerbs& api = *api_of(cq->context);
  if (api.fails(VerbsCall::kReqNotifyCq)) return errno;
  return ibv_req_notify_cq(outer(cq)->inner, solicited_only);
}

std::size_t FaultVerbs::held_count(ibv_cq* cq) const {
  const std::lock_guard lock(outer(cq)->hold_mutex);
  return outer(cq)->held_count;
}

void FaultVerbs::release_held(ibv_cq* cq) {
  FaultCq& ours = *outer(cq);
  const std::lock_guard lock(ours.hold_mutex);
  for (std::size_t i = 0; i < ours.held_count; ++i) ours.held[i].polls_left = 0;
  release_due(ours);
}

}  // namespace braid::verbs
