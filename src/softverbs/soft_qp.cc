#include <cerrno>
#include <new>

#include "softverbs/soft_context.h"

namespace braid::softverbs {
namespace {

std::unique_ptr<SoftQpStaging> make_staging(const ibv_qp_cap& cap) {
  auto staging = std::make_unique<SoftQpStaging>();
  staging->capacity = cap.max_send_wr;
  staging->max_sge = cap.max_send_sge;
  staging->max_inline_bytes = cap.max_inline_data;
  staging->wrs = std::make_unique<ibv_send_wr[]>(cap.max_send_wr);
  staging->sges =
      std::make_unique<ibv_sge[]>(std::size_t{cap.max_send_wr} * (cap.max_send_sge + 1));
  staging->inline_data =
      std::make_unique<std::uint8_t[]>(std::size_t{cap.max_send_wr} * cap.max_inline_data);
  return staging;
}

roce::QpInit make_engine_init(const ibv_qp_init_attr_ex& attr, SoftQp* owner) noexcept {
  roce::QpInit init;
  init.pd = soft(attr.pd)->id;
  init.send_cq = soft(attr.send_cq)->queue.get();
  init.recv_cq = soft(attr.recv_cq)->queue.get();
  init.srq = attr.srq != nullptr ? soft(attr.srq)->queue.get() : nullptr;
  init.max_send_wr = attr.cap.max_send_wr;
  init.max_recv_wr = attr.cap.max_recv_wr;
  init.max_send_sge = attr.cap.max_send_sge;
  init.max_recv_sge = attr.cap.max_recv_sge;
  init.max_inline_bytes = attr.cap.max_inline_data;
  init.signal_all = attr.sq_sig_all != 0;
  init.owner = owner;
  return init;
}

}  // namespace

bool SoftContext::has_valid_caps(const ibv_qp_init_attr_ex& attr) const noexcept {
  const ibv_qp_cap& cap = attr.cap;
  return cap.max_send_wr <= SoftLimits::kMaxQpWr && cap.max_recv_wr <= SoftLimits::kMaxQpWr &&
         cap.max_send_sge <= SoftLimits::kMaxSge && cap.max_recv_sge <= SoftLimits::kMaxSge &&
         cap.max_inline_data <= SoftLimits::kMaxInlineBytes;
}

ibv_qp* SoftContext::create_qp(ibv_qp_init_attr_ex* attr) noexcept {
  constexpr std::uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  constexpr std::uint64_t kSendOps =
      IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
      IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
      IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
  const bool extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  if (attr->qp_type != IBV_QPT_RC || (attr->comp_mask & ~kKnown) != 0 ||
      (extended && (attr->send_ops_flags & ~kSendOps) != 0)) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd == nullptr ||
      attr->send_cq == nullptr || attr->recv_cq == nullptr || !has_valid_caps(*attr)) {
    errno = EINVAL;
    return nullptr;
  }
  std::unique_ptr<SoftQp> qp;
  try {
    qp = std::make_unique<SoftQp>();
    if (extended) qp->staging = make_staging(attr->cap);
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return nullptr;
  }
  SoftSrq* srq = attr->srq != nullptr ? soft(attr->srq) : nullptr;
  const roce::QpInit init = make_engine_init(*attr, qp.get());

  const std::lock_guard lock(driver_->mutex());
  const auto created = driver_->engine().create_qp(init);
  if (!created) {
    errno = ENOMEM;
    return nullptr;
  }
  qp->owner = this;
  qp->engine_qp = *created;
  ibv_qp& base = qp->qp_base;
  base.context = handle();
  base.qp_context = attr->qp_context;
  base.pd = attr->pd;
  base.send_cq = attr->send_cq;
  base.recv_cq = attr->recv_cq;
  base.srq = attr->srq;
  base.handle = next_handle_++;
  base.qp_num = roce::qpn_of(**created);
  base.state = IBV_QPS_RESET;
  base.qp_type = IBV_QPT_RC;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  qp->init = ibv_qp_init_attr{attr->qp_context, attr->send_cq, attr->recv_cq,   attr->srq,
                              attr->cap,        attr->qp_type, attr->sq_sig_all};
  if (extended) {
    qp->extension_mask = SoftQp::kExtended;
    install_wr_functions(*qp, attr->send_ops_flags);
  }
  ++soft(attr->pd)->children;
  ++soft(attr->send_cq)->users;
  ++soft(attr->recv_cq)->users;
  if (srq != nullptr) ++srq->users;
  ++object_count_;
  return &qp.release()->qp_base;
}

int SoftContext::query_qp(ibv_qp* qp, ibv_qp_attr* attr, int /*mask*/,
                          ibv_qp_init_attr* init) noexcept {
  const SoftQp& own = *soft(qp);
  const std::lock_guard lock(driver_->mutex());
  *attr = own.attr;
  // The engine moves a QP to ERR by itself, so it is the one to ask.
  attr->qp_state = attr->cur_qp_state = qp->state = roce::state_of(*own.engine_qp);
  attr->path_mig_state = IBV_MIG_MIGRATED;
  attr->cap = own.init.cap;
  attr->sq_psn = roce::sq_psn_of(*own.engine_qp);
  attr->rq_psn = roce::rq_psn_of(*own.engine_qp);
  *init = own.init;
  return 0;
}

int SoftContext::destroy_qp(ibv_qp* qp) noexcept {
  SoftQp* own = soft(qp);
  std::uint32_t events = 0;
  {
    const std::lock_guard lock(driver_->mutex());
    driver_->flush();
    close_flow_port(*own);
    driver_->engine().destroy_qp(own->engine_qp);
    remove_async_events(qp);
    events = own->events_delivered;
    --soft(qp->pd)->children;
    --soft(qp->send_cq)->users;
    --soft(qp->recv_cq)->users;
    if (qp->srq != nullptr) --soft(qp->srq)->users;
    --object_count_;
  }
  pthread_mutex_lock(&qp->mutex);
  while (qp->events_completed != events) pthread_cond_wait(&qp->cond, &qp->mutex);
  pthread_mutex_unlock(&qp->mutex);
  pthread_mutex_destroy(&qp->mutex);
  pthread_cond_destroy(&qp->cond);
  delete own;
  return 0;
}

}  // namespace braid::softverbs
