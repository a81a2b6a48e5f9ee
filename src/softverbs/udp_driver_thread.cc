#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "softverbs/udp_driver.h"

namespace braid::softverbs {
namespace {

timespec to_timespec(Duration span) noexcept {
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(span);
  timespec out{};
  out.tv_sec = seconds.count();
  out.tv_nsec = static_cast<long>((span - seconds).count());
  return out;
}

/// The kernel's struct sched_attr, first version: its header and the C library's exclude each
/// other.
struct SchedulingAttributes {
  std::uint32_t size = 0;
  std::uint32_t policy = 0;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime_ns = 0;  // for SCHED_OTHER the length of a turn
  std::uint64_t deadline_ns = 0;
  std::uint64_t period_ns = 0;
};
static_assert(sizeof(SchedulingAttributes) == 48);

/// Asks for short turns. A thread whose turns are short goes first when it wakes (Linux 6.12), so
/// that a program which spins on memory on every core does not keep packets waiting for the rest
/// of its own turn. Older kernels ignore or refuse it; they favour threads that sleep anyhow.
void ask_for_short_turns() noexcept {
  SchedulingAttributes attributes;
  attributes.size = sizeof(attributes);
  if (::syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;  // the application's choice
  attributes.runtime_ns = 100'000;
  (void)::syscall(SYS_sched_setattr, 0, &attributes, 0);
}

/// Makes an event or timer descriptor unreadable again. Both are non-blocking.
void clear_descriptor(int fd) noexcept {
  std::uint64_t count = 0;
  while (::read(fd, &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

}  // namespace

void UdpDriver::run_thread() noexcept {
  (void)::pthread_setname_np(::pthread_self(), "braid-soft");
  // The default slack of 50 us would more than double the shortest lease.
  (void)::prctl(PR_SET_TIMERSLACK, 1);
  ask_for_short_turns();
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    if (leased_) {
      wait_out_lease(lock);
    } else if (run_round(now())) {
      lock.unlock();  // let a poster in between rounds
      lock.lock();
    } else {
      watch(lock);
    }
  }
}

void UdpDriver::watch(std::unique_lock<std::mutex>& lock) noexcept {
  watching_ = true;
  attend_deadline();
  lock.unlock();
  std::array<pollfd, 3> watched{pollfd{wire_->receive_fd(), POLLIN, 0},
                                pollfd{wake_event_.get(), POLLIN, 0},
                                pollfd{timer_.get(), POLLIN, 0}};
  (void)::ppoll(watched.data(), watched.size(), nullptr, nullptr);
  if ((watched[1].revents & POLLIN) != 0) clear_descriptor(wake_event_.get());
  const bool timer_fired = (watched[2].revents & POLLIN) != 0;
  lock.lock();
  watching_ = false;
  if (timer_fired) {
    clear_descriptor(timer_.get());
    timer_due_ = kNever;
  }
}

void UdpDriver::wait_out_lease(std::unique_lock<std::mutex>& lock) noexcept {
  const timespec timeout = to_timespec(lease_);
  lock.unlock();
  pollfd woken{wake_event_.get(), POLLIN, 0};
  if (::ppoll(&woken, 1, &timeout, nullptr) > 0) clear_descriptor(wake_event_.get());
  lock.lock();
  if (!leased_ || stopping_) return;
  const TimePoint looked = now();
  if (looked - last_drive_.load() < std::clamp(lease_ / 2, kMinLease, kPollerGone)) {
    if (++good_looks_ >= kLooksToLengthen) {
      good_looks_ = 0;
      lease_ = std::min(lease_ * 2, kMaxLease);
      drives_for_lease_ = std::max(drives_for_lease_.load() / 2, kMinDrivesForLease);
    }
    return;
  }
  leased_ = false;
  drives_in_a_row_ = 0;
  good_looks_ = 0;
  if (run_round(looked)) {
    // Something had to wait for this look.
    lease_ = std::max(lease_ / 2, kMinLease);
    drives_for_lease_ = std::min(drives_for_lease_.load() * 4, kMaxDrivesForLease);
  }
}

void UdpDriver::wake_thread() noexcept {
  const std::uint64_t one = 1;
  while (::write(wake_event_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

/// Sees to it that a thread which sleeps until a packet comes also wakes for the work at hand.
void UdpDriver::attend_deadline() noexcept {
  if (!watching_) return;
  if (engine_->wants_transmit()) {
    wake_thread();
    return;
  }
  const TimePoint due = next_deadline();
  if (due >= timer_due_) return;  // set early enough; a look too many does no harm
  timer_due_ = due;
  itimerspec setting{};
  // Zero would disarm it.
  setting.it_value = to_timespec(std::max(due.time_since_epoch(), Duration(1)));
  (void)::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &setting, nullptr);
}

}  // namespace braid::softverbs
