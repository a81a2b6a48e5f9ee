#include <cerrno>
#include <new>

#include "softverbs/soft_context.h"

namespace braid::softverbs {

ibv_srq* SoftContext::create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) noexcept {
  if (attr->attr.max_wr == 0 || attr->attr.max_wr > SoftLimits::kMaxQpWr ||
      attr->attr.max_sge > SoftLimits::kMaxSge) {
    errno = EINVAL;
    return nullptr;
  }
  std::unique_ptr<SoftSrq> srq(new (std::nothrow) SoftSrq{});
  if (srq != nullptr) {
    srq->queue =
        roce::Engine::create_srq(soft(pd)->id, attr->attr.max_wr, attr->attr.max_sge, srq.get());
  }
  if (srq == nullptr || srq->queue == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  srq->owner = this;
  srq->context = handle();
  srq->srq_context = attr->srq_context;
  srq->pd = pd;
  srq->max_wr = attr->attr.max_wr;
  srq->max_sge = attr->attr.max_sge;
  pthread_mutex_init(&srq->mutex, nullptr);
  pthread_cond_init(&srq->cond, nullptr);
  const std::lock_guard lock(driver_->mutex());
  srq->handle = next_handle_++;
  ++soft(pd)->children;
  ++srq_count_;
  ++object_count_;
  return srq.release();
}

int SoftContext::modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) noexcept {
  if ((mask & IBV_SRQ_MAX_WR) != 0) return EOPNOTSUPP;
  if ((mask & ~IBV_SRQ_LIMIT) != 0) return EINVAL;
  SoftSrq& own = *soft(srq);
  if (attr->srq_limit > own.max_wr) return EINVAL;
  const std::lock_guard lock(driver_->mutex());
  if ((mask & IBV_SRQ_LIMIT) != 0) roce::set_srq_limit(*own.queue, attr->srq_limit);
  return 0;
}

int SoftContext::query_srq(ibv_srq* srq, ibv_srq_attr* attr) noexcept {
  const SoftSrq& own = *soft(srq);
  const std::lock_guard lock(driver_->mutex());
  *attr = ibv_srq_attr{own.max_wr, own.max_sge, roce::srq_limit_of(*own.queue)};
  return 0;
}

int SoftContext::destroy_srq(ibv_srq* srq) noexcept {
  SoftSrq* own = soft(srq);
  std::uint32_t events = 0;
  {
    const std::lock_guard lock(driver_->mutex());
    if (own->users != 0) return EBUSY;
    remove_async_events(srq);
    events = own->events_delivered;
    --soft(srq->pd)->children;
    --srq_count_;
    --object_count_;
  }
  pthread_mutex_lock(&srq->mutex);
  while (srq->events_completed != events) pthread_cond_wait(&srq->cond, &srq->mutex);
  pthread_mutex_unlock(&srq->mutex);
  pthread_mutex_destroy(&srq->mutex);
  pthread_cond_destroy(&srq->cond);
  delete own;
  return 0;
}

}  // namespace braid::softverbs
