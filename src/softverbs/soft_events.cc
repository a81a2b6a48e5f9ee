#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "softverbs/soft_context.h"

namespace braid::softverbs {
namespace {

void signal_event(int fd) noexcept {
  const std::uint64_t one = 1;
  while (::write(fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

/// Waits for one event, unless the application has made the descriptor non-blocking.
bool take_event(int fd) noexcept {
  std::uint64_t one = 0;
  for (;;) {
    if (::read(fd, &one, sizeof one) == sizeof one) return true;
    if (errno != EINTR) return false;
  }
}

/// Takes back an event whose object is going away, without ever blocking: another thread may be
/// faster, and then finds the queue empty and waits for the next event.
void revoke_event(int fd) noexcept {
  std::uint64_t one = 0;
  const iovec piece{&one, sizeof one};
  while (::preadv2(fd, &piece, 1, -1, RWF_NOWAIT) < 0 && errno == EINTR) {
  }
}

void acknowledge(pthread_mutex_t& mutex, pthread_cond_t& cond, std::uint32_t& completed,
                 std::uint32_t count) noexcept {
  pthread_mutex_lock(&mutex);
  completed += count;
  pthread_cond_signal(&cond);
  pthread_mutex_unlock(&mutex);
}

const void* object_of(const ibv_async_event& event) noexcept {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR: return event.element.cq;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: return event.element.srq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: return event.element.qp;
    default: return nullptr;
  }
}

}  // namespace

void SoftContext::queue_async_event(const ibv_async_event& event) noexcept {
  if (!async_events_.push(event)) {
    ++async_events_lost_;
    return;
  }
  signal_event(async_event_.get());
}

void SoftContext::remove_async_events(const void* object) noexcept {
  const std::size_t count = async_events_.size();
  for (std::size_t i = 0; i < count; ++i) {
    const ibv_async_event event = async_events_.front();
    async_events_.pop();
    if (object_of(event) == object) {
      revoke_event(async_event_.get());
    } else {
      static_cast<void>(async_events_.push(event));  // there is room: one was just taken
    }
  }
}

void SoftContext::raise_port_event(ibv_event_type type) noexcept {
  const std::lock_guard lock(driver_->mutex());
  if (type == IBV_EVENT_PORT_ERR) port_active_ = false;
  if (type == IBV_EVENT_PORT_ACTIVE) port_active_ = true;
  ibv_async_event event{};
  event.event_type = type;
  event.element.port_num = SoftLimits::kPorts;
  queue_async_event(event);
}

int SoftContext::get_async_event(ibv_async_event* event) noexcept {
  for (;;) {
    if (!take_event(async_event_.get())) return -1;
    const std::lock_guard lock(driver_->mutex());
    if (async_events_.empty()) continue;
    *event = async_events_.front();
    async_events_.pop();
    switch (event->event_type) {
      case IBV_EVENT_CQ_ERR: ++soft(event->element.cq)->async_events_delivered; break;
      case IBV_EVENT_SRQ_LIMIT_REACHED: ++soft(event->element.srq)->events_delivered; break;
      default:
        if (object_of(*event) != nullptr) ++soft(event->element.qp)->events_delivered;
        break;
    }
    return 0;
  }
}

void SoftContext::ack_async_event(ibv_async_event* event) noexcept {
  switch (event->event_type) {
    case IBV_EVENT_CQ_ERR: {
      ibv_cq& cq = *event->element.cq;
      acknowledge(cq.mutex, cq.cond, cq.async_events_completed, 1);
      break;
    }
    case IBV_EVENT_SRQ_LIMIT_REACHED: {
      ibv_srq& srq = *event->element.srq;
      acknowledge(srq.mutex, srq.cond, srq.events_completed, 1);
      break;
    }
    default:
      if (object_of(*event) != nullptr) {
        ibv_qp& qp = *event->element.qp;
        acknowledge(qp.mutex, qp.cond, qp.events_completed, 1);
      }
      break;
  }
}

ibv_comp_channel* SoftContext::create_comp_channel() noexcept {
  auto* channel = new (std::nothrow) SoftChannel{};
  if (channel == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  channel->event = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
  if (!channel->event.valid()) {
    delete channel;
    return nullptr;
  }
  channel->context = handle();
  channel->fd = channel->event.get();
  const std::lock_guard lock(driver_->mutex());
  ++object_count_;
  return channel;
}

int SoftContext::destroy_comp_channel(ibv_comp_channel* channel) noexcept {
  SoftContext& context = of(channel->context);
  {
    const std::lock_guard lock(context.driver_->mutex());
    if (channel->refcnt != 0) return EBUSY;
    --context.object_count_;
  }
  delete soft(channel);
  return 0;
}

int SoftContext::get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) noexcept {
  SoftChannel& own = *soft(channel);
  SoftContext& context = of(channel->context);
  for (;;) {
    if (!take_event(own.event.get())) return -1;
    const std::lock_guard lock(context.driver_->mutex());
    SoftCq* head = own.queue_head;
    if (head == nullptr) continue;
    own.queue_head = head->next_queued;
    if (own.queue_head == nullptr) own.queue_tail = nullptr;
    head->next_queued = nullptr;
    head->event_queued = false;
    ++head->comp_events_delivered;
    *cq = public_cq(*head);
    *cq_context = head->cq_context;
    return 0;
  }
}

void SoftContext::ack_cq_events(ibv_cq* cq, unsigned count) noexcept {
  if (count != 0) acknowledge(cq->mutex, cq->cond, cq->comp_events_completed, count);
}

void SoftContext::on_completion_event(roce::CompletionQueue& queue) noexcept {
  SoftCq& cq = *static_cast<SoftCq*>(queue.owner());
  if (cq.channel == nullptr || cq.event_queued) return;
  SoftChannel& channel = *soft(cq.channel);
  cq.event_queued = true;
  (channel.queue_tail != nullptr ? channel.queue_tail->next_queued : channel.queue_head) = &cq;
  channel.queue_tail = &cq;
  signal_event(channel.event.get());
}

void SoftContext::drop_completion_event(SoftCq& cq) noexcept {
  if (!cq.event_queued) return;
  SoftChannel& channel = *soft(cq.channel);
  SoftCq* previous = nullptr;
  for (SoftCq* at = channel.queue_head; at != &cq; at = at->next_queued) previous = at;
  (previous != nullptr ? previous->next_queued : channel.queue_head) = cq.next_queued;
  if (channel.queue_tail == &cq) channel.queue_tail = previous;
  revoke_event(channel.event.get());
  cq.event_queued = false;
}

void SoftContext::on_qp_event(roce::Qp& qp, ibv_event_type type) noexcept {
  ibv_async_event event{};
  event.event_type = type;
  event.element.qp = &static_cast<SoftQp*>(roce::owner_of(qp))->qp_base;
  queue_async_event(event);
}

void SoftContext::on_cq_event(roce::CompletionQueue& queue, ibv_event_type type) noexcept {
  SoftCq& cq = *static_cast<SoftCq*>(queue.owner());
  ibv_async_event event{};
  event.event_type = type;
  event.element.cq = public_cq(cq);
  queue_async_event(event);
  // Who sleeps on the channel would sleep for ever: nothing completes into this queue any more.
  on_completion_event(queue);
}

void SoftContext::on_srq_event(roce::ReceiveQueue& queue, ibv_event_type type) noexcept {
  ibv_async_event event{};
  event.event_type = type;
  event.element.srq = static_cast<SoftSrq*>(roce::owner_of(queue));
  queue_async_event(event);
}

}  // namespace braid::softverbs
