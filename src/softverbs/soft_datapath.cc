// The calls of ibv_context::ops, which verbs.h inlines into applications.

#include <cerrno>

#include "softverbs/soft_context.h"

namespace braid::softverbs {
namespace {

/// Raises the event of an armed queue whose poller leaves completions behind.
///
/// The letter of the verbs says that only a new completion raises it. Adapters also raise it for
/// what is there and not yet polled, and programs rely on that: perftest arms, polls one batch and
/// sleeps, with completions of other QPs left in the queue.
void tell_of_leftovers(SoftCq& cq) noexcept {
  if (cq.channel == nullptr || !cq.queue->armed_for_any() || cq.queue->size() == 0) return;
  const std::lock_guard lock(cq.owner->driver().mutex());
  if (cq.queue->disarm()) cq.owner->on_completion_event(*cq.queue);
}

}  // namespace

int soft_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept {
  SoftQp& own = *soft(qp);
  DeviceDriver& driver = own.owner->driver();
  const ibv_send_wr* first_bad = nullptr;
  const std::lock_guard lock(driver.mutex());
  const int error = driver.engine().post_send(*own.engine_qp, wr, &first_bad);
  if (error != 0 && bad != nullptr) *bad = const_cast<ibv_send_wr*>(first_bad);
  driver.after_post();
  return error;
}

int soft_post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  SoftQp& own = *soft(qp);
  DeviceDriver& driver = own.owner->driver();
  const ibv_recv_wr* first_bad = nullptr;
  const std::lock_guard lock(driver.mutex());
  const int error = driver.engine().post_recv(*own.engine_qp, wr, &first_bad);
  if (error != 0 && bad != nullptr) *bad = const_cast<ibv_recv_wr*>(first_bad);
  return error;
}

int soft_post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept {
  SoftSrq& own = *soft(srq);
  DeviceDriver& driver = own.owner->driver();
  const ibv_recv_wr* first_bad = nullptr;
  const std::lock_guard lock(driver.mutex());
  const int error = driver.engine().post_srq_recv(*own.queue, wr, &first_bad);
  if (error != 0 && bad != nullptr) *bad = const_cast<ibv_recv_wr*>(first_bad);
  return error;
}

int soft_poll_cq(ibv_cq* cq, int count, ibv_wc* out) noexcept {
  if (count <= 0) return 0;
  SoftCq& own = *soft(cq);
  const auto wanted = static_cast<std::size_t>(count);
  std::size_t polled = own.queue->poll(wanted, out);
  if (polled == 0) {
    own.owner->driver().drive();
    polled = own.queue->poll(wanted, out);
  }
  if (polled == wanted) tell_of_leftovers(own);
  if (polled != 0) return static_cast<int>(polled);
  // Only once it has run dry: completions that came before an overrun are good.
  return own.queue->in_error() ? -EIO : 0;
}

int soft_req_notify_cq(ibv_cq* cq, int solicited_only) noexcept {
  SoftCq& own = *soft(cq);
  DeviceDriver& driver = own.owner->driver();
  const std::lock_guard lock(driver.mutex());
  own.queue->arm(solicited_only != 0);
  driver.on_armed();
  return 0;
}

}  // namespace braid::softverbs
