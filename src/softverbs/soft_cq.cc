#include <cerrno>
#include <new>

#include "softverbs/soft_context.h"

namespace braid::softverbs {

ibv_cq_ex* SoftContext::create_cq(int cqe, void* cq_context, ibv_comp_channel* channel,
                                  int comp_vector, std::uint64_t wc_flags) noexcept {
  if (cqe < 1 || cqe > SoftLimits::kMaxCqe || comp_vector < 0 ||
      comp_vector >= handle()->num_comp_vectors) {
    errno = EINVAL;
    return nullptr;
  }
  if ((wc_flags & ~std::uint64_t{IBV_WC_STANDARD_FLAGS}) != 0) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  std::unique_ptr<SoftCq> cq;
  try {
    cq = std::make_unique<SoftCq>();
    cq->queue = std::make_unique<roce::CompletionQueue>(static_cast<std::size_t>(cqe), cq.get());
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return nullptr;
  }
  cq->owner = this;
  cq->context = handle();
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->cqe = static_cast<int>(cq->queue->capacity());
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  install_poll_functions(*cq);
  const std::lock_guard lock(driver_->mutex());
  cq->handle = next_handle_++;
  if (channel != nullptr) ++channel->refcnt;
  ++cq_count_;
  ++object_count_;
  return cq.release();
}

int SoftContext::resize_cq(ibv_cq* cq, int cqe) noexcept {
  if (cqe < 1 || cqe > SoftLimits::kMaxCqe) return EINVAL;
  const std::lock_guard lock(driver_->mutex());
  if (const int error = soft(cq)->queue->resize(static_cast<std::size_t>(cqe)); error != 0) {
    return error;
  }
  cq->cqe = static_cast<int>(soft(cq)->queue->capacity());
  return 0;
}

int SoftContext::destroy_cq(ibv_cq* cq) noexcept {
  SoftCq* own = soft(cq);
  std::uint32_t comp_events = 0;
  std::uint32_t async_events = 0;
  {
    const std::lock_guard lock(driver_->mutex());
    if (own->users != 0) return EBUSY;
    drop_completion_event(*own);
    remove_async_events(cq);
    if (own->channel != nullptr) --own->channel->refcnt;
    comp_events = own->comp_events_delivered;
    async_events = own->async_events_delivered;
    --cq_count_;
    --object_count_;
  }
  // As libibverbs: the application may still hold events that name this queue.
  pthread_mutex_lock(&cq->mutex);
  while (cq->comp_events_completed != comp_events || cq->async_events_completed != async_events) {
    pthread_cond_wait(&cq->cond, &cq->mutex);
  }
  pthread_mutex_unlock(&cq->mutex);
  pthread_mutex_destroy(&cq->mutex);
  pthread_cond_destroy(&cq->cond);
  delete own;
  return 0;
}

}  // namespace braid::softverbs
