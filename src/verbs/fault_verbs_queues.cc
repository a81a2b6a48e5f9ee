#include <cerrno>
#include <new>

#include "verbs/fault_verbs.h"

// Completion channels, CQs, SRQs and QPs of the decorator; posting and polling are in
// fault_verbs_datapath.cc.
namespace braid::verbs {
namespace {

// One round of polling takes at most this many completions from the device (fault_verbs_datapath).
constexpr std::size_t kReadySlack = 16;

ibv_context* inner(ibv_context* context) { return static_cast<FaultContext*>(context)->inner; }
FaultCq* outer(ibv_cq* cq) { return static_cast<FaultCq*>(cq); }
ibv_cq* inner(ibv_cq* cq) { return cq != nullptr ? outer(cq)->inner : nullptr; }
ibv_srq* inner(ibv_srq* srq) {
  return srq != nullptr ? static_cast<FaultSrq*>(srq)->inner : nullptr;
}
ibv_qp* inner(ibv_qp* qp) { return static_cast<FaultQp*>(qp)->inner; }
ibv_pd* inner(ibv_pd* pd) { return static_cast<FaultPd*>(pd)->inner; }

FaultQp*& next_of(FaultQp& qp, const ibv_cq* cq) {
  return qp.send_cq == cq ? qp.next_of_send_cq : qp.next_of_recv_cq;
}

void join(FaultCq& cq, FaultQp& qp) {
  const std::lock_guard lock(cq.hold_mutex);
  next_of(qp, &cq) = cq.qps;
  cq.qps = &qp;
}

/// Takes a destroyed QP and its completions out of a CQ: a CQ holds none of a QP that is gone.
void leave(FaultCq& cq, FaultQp& qp) {
  const std::lock_guard lock(cq.hold_mutex);
  FaultQp** link = &cq.qps;
  while (*link != &qp) link = &next_of(**link, &cq);
  *link = next_of(qp, &cq);

  for (std::size_t left = cq.ready.size(); left > 0; --left) {
    const ibv_wc wc = cq.ready.front();
    cq.ready.pop();
    // Cannot be full: one was just taken out.
    if (wc.qp_num != qp.qp_num) static_cast<void>(cq.ready.push(wc));
  }
  std::size_t kept = 0;
  for (std::size_t i = 0; i < cq.held_count; ++i) {
    if (cq.held[i].wc.qp_num != qp.qp_num) cq.held[kept++] = cq.held[i];
  }
  cq.held_count = kept;
}

}  // namespace

ibv_comp_channel* FaultVerbs::create_comp_channel(ibv_context* context) {
  if (fails(VerbsCall::kCreateCompChannel)) return nullptr;
  ibv_comp_channel* made = inner_.create_comp_channel(inner(context));
  if (made == nullptr) return nullptr;
  auto* channel = new (std::nothrow) FaultChannel{};
  if (channel == nullptr) {
    inner_.destroy_comp_channel(made);
    errno = ENOMEM;
    return nullptr;
  }
  channel->context = context;
  channel->fd = made->fd;
  channel->inner = made;
  return channel;
}
int FaultVerbs::destroy_comp_channel(ibv_comp_channel* channel) {
  if (fails(VerbsCall::kDestroyCompChannel)) return errno;
  auto* ours = static_cast<FaultChannel*>(channel);
  const int error = inner_.destroy_comp_channel(ours->inner);
  if (error == 0) delete ours;
  return error;
}

ibv_cq* FaultVerbs::create_cq(ibv_context* context, int cqe, void* cq_context,
                              ibv_comp_channel* channel, int comp_vector) {
  if (fails(VerbsCall::kCreateCq)) return nullptr;
  std::unique_ptr<FaultCq> cq(new (std::nothrow) FaultCq{});
  if (cq != nullptr) cq->held.reset(new (std::nothrow) HeldCompletion[held_capacity_]);
  if (cq == nullptr || cq->held == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  cq->held_capacity = held_capacity_;
  cq->ready = Ring<ibv_wc>(held_capacity_ + kReadySlack);
  ibv_comp_channel* device_channel =
      channel != nullptr ? static_cast<FaultChannel*>(channel)->inner : nullptr;
  cq->inner = inner_.create_cq(inner(context), cqe, cq.get(), device_channel, comp_vector);
  if (cq->inner == nullptr) return nullptr;
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->handle = cq->inner->handle;
  cq->cqe = cq->inner->cqe;
  return cq.release();
}
int FaultVerbs::resize_cq(ibv_cq* cq, int cqe) {
  if (fails(VerbsCall::kResizeCq)) return errno;
  const int error = inner_.resize_cq(inner(cq), cqe);
  if (error == 0) cq->cqe = inner(cq)->cqe;
  return error;
}
int FaultVerbs::destroy_cq(ibv_cq* cq) {
  if (fails(VerbsCall::kDestroyCq)) return errno;
  const int error = inner_.destroy_cq(inner(cq));
  if (error == 0) delete outer(cq);
  return error;
}
int FaultVerbs::get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  if (fails(VerbsCall::kGetCqEvent)) return -1;
  ibv_cq* device_cq = nullptr;
  void* device_context = nullptr;
  const int error =
      inner_.get_cq_event(static_cast<FaultChannel*>(channel)->inner, &device_cq, &device_context);
  if (error != 0) return error;
  auto* ours = static_cast<FaultCq*>(device_context);
  *cq = ours;
  *cq_context = ours->cq_context;
  return 0;
}
void FaultVerbs::ack_cq_events(ibv_cq* cq, unsigned int count) {
  inner_.ack_cq_events(inner(cq), count);
}

ibv_srq* FaultVerbs::create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  if (fails(VerbsCall::kCreateSrq)) return nullptr;
  std::unique_ptr<FaultSrq> srq(new (std::nothrow) FaultSrq{});
  if (srq == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  ibv_srq_init_attr device_attr = *attr;
  device_attr.srq_context = srq.get();
  srq->inner = inner_.create_srq(inner(pd), &device_attr);
  if (srq->inner == nullptr) return nullptr;
  attr->attr = device_attr.attr;
  srq->context = pd->context;
  srq->srq_context = attr->srq_context;
  srq->pd = pd;
  srq->handle = srq->inner->handle;
  return srq.release();
}
int FaultVerbs::modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  if (fails(VerbsCall::kModifySrq)) return errno;
  return inner_.modify_srq(inner(srq), attr, mask);
}
int FaultVerbs::query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  if (fails(VerbsCall::kQuerySrq)) return errno;
  return inner_.query_srq(inner(srq), attr);
}
int FaultVerbs::destroy_srq(ibv_srq* srq) {
  if (fails(VerbsCall::kDestroySrq)) return errno;
  const int error = inner_.destroy_srq(inner(srq));
  if (error == 0) delete static_cast<FaultSrq*>(srq);
  return error;
}

ibv_qp* FaultVerbs::create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (fails(VerbsCall::kCreateQp)) return nullptr;
  std::unique_ptr<FaultQp> qp(new (std::nothrow) FaultQp{});
  if (qp == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  ibv_qp_init_attr device_attr = *attr;
  device_attr.qp_context = qp.get();
  device_attr.send_cq = inner(attr->send_cq);
  device_attr.recv_cq = inner(attr->recv_cq);
  device_attr.srq = inner(attr->srq);
  qp->inner = inner_.create_qp(inner(pd), &device_attr);
  if (qp->inner == nullptr) return nullptr;
  attr->cap = device_attr.cap;
  qp->context = pd->context;
  qp->qp_context = attr->qp_context;
  qp->pd = pd;
  qp->send_cq = attr->send_cq;
  qp->recv_cq = attr->recv_cq;
  qp->srq = attr->srq;
  qp->handle = qp->inner->handle;
  qp->qp_num = qp->inner->qp_num;
  qp->state = qp->inner->state;
  qp->qp_type = qp->inner->qp_type;
  qp->ordinal = ++qp_count_;
  if (qp->send_cq != nullptr) join(*outer(qp->send_cq), *qp);
  if (qp->recv_cq != nullptr && qp->recv_cq != qp->send_cq) join(*outer(qp->recv_cq), *qp);
  return qp.release();
}
int FaultVerbs::modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if (fails(VerbsCall::kModifyQp)) return errno;
  const int error = inner_.modify_qp(inner(qp), attr, mask);
  if (error == 0 && (mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;
  return error;
}
int FaultVerbs::query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
  if (fails(VerbsCall::kQueryQp)) return errno;
  const int error = inner_.query_qp(inner(qp), attr, mask, init);
  if (error != 0) return error;
  if ((mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;
  init->qp_context = qp->qp_context;
  init->send_cq = qp->send_cq;
  init->recv_cq = qp->recv_cq;
  init->srq = qp->srq;
  return 0;
}
int FaultVerbs::destroy_qp(ibv_qp* qp) {
  if (fails(VerbsCall::kDestroyQp)) return errno;
  const int error = inner_.destroy_qp(inner(qp));
  if (error != 0) return error;
  auto* ours = static_cast<FaultQp*>(qp);
  if (qp->send_cq != nullptr) leave(*outer(qp->send_cq), *ours);
  if (qp->recv_cq != nullptr && qp->recv_cq != qp->send_cq) leave(*outer(qp->recv_cq), *ours);
  delete ours;
  return 0;
}

int FaultVerbs::modify_qp_udp_sport(ibv_qp* qp, std::uint16_t port) {
  if (fails(VerbsCall::kModifyQpUdpSport)) return errno;
  return inner_.modify_qp_udp_sport(inner(qp), port);
}
int FaultVerbs::query_qp_udp_sport(ibv_qp* qp, std::uint16_t* port) {
  if (fails(VerbsCall::kQueryQpUdpSport)) return errno;
  return inner_.query_qp_udp_sport(inner(qp), port);
}

}  // namespace braid::verbs
