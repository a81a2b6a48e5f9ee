#include <braid/blocking.h>
#include <poll.h>

#include <array>
#include <cerrno>
#include <thread>
#include <utility>

#include "blocking/idler.h"

namespace braid::blocking {
namespace {

constexpr int kSocketWaitMs = 20;
constexpr Duration kRetryPause = std::chrono::milliseconds(50);

void wait_readable(int descriptor) noexcept {
  pollfd entry{descriptor, POLLIN, 0};
  (void)::poll(&entry, descriptor >= 0 ? 1U : 0U, kSocketWaitMs);
}

// Steps a connection until it is done or `deadline` has passed.
Result<std::unique_ptr<Channel>> finish(Connection& connection, TimePoint deadline,
                                        std::string* why) noexcept {
  ConnectStage stage = connection.stage();
  for (;;) {
    const Status status = connection.step(now());
    if (status.ok()) return connection.take();
    if (status.code() != StatusCode::kWouldBlock) {
      if (why != nullptr) *why = connection.why();
      return status;
    }
    if (now() >= deadline) {
      if (why != nullptr) *why = "the peer did not finish the handshake in time";
      return Status(StatusCode::kTimeout);
    }
    if (connection.stage() == stage) wait_readable(connection.descriptor());
    stage = connection.stage();
  }
}

bool refused(Status status) noexcept {
  return status.code() == StatusCode::kConnectionFailed &&
         status.origin() == StatusOrigin::kSystem && status.detail() == ECONNREFUSED;
}

TimePoint deadline_after(Duration timeout) noexcept {
  return timeout == Duration(0) ? kNever : now() + timeout;
}

Status end_of(const Channel& channel) noexcept {
  return channel.state() == ChannelState::kFailed ? channel.error().status
                                                  : Status(StatusCode::kAborted);
}

// Progresses until `take` gives a notification.
template <typename Take>
Result<Notification> wait_for(Channel& channel, Duration timeout, Take take) noexcept {
  const TimePoint deadline = deadline_after(timeout);
  Idler idler;
  Notification out;
  for (;;) {
    if (take(out)) return out;
    if (channel.state() != ChannelState::kOpen || channel.peer_closed()) return end_of(channel);
    if (now() >= deadline) return Status(StatusCode::kTimeout);
    idler.on_round(channel.progress(now()));
  }
}

}  // namespace

TimePoint now() noexcept { return TimePoint(std::chrono::steady_clock::now().time_since_epoch()); }

Result<std::unique_ptr<Channel>> connect(const Device& device, std::string_view host,
                                         std::uint16_t port, const ChannelOptions& options,
                                         Duration timeout, std::string* why) noexcept {
  const TimePoint deadline = deadline_after(timeout);
  for (;;) {
    Result<Connection> connection = Connection::connect(device, host, port, options, now(), why);
    Status status = connection.error();
    if (connection) {
      Result<std::unique_ptr<Channel>> channel = finish(*connection, deadline, why);
      if (channel) return channel;
      status = channel.error();
    }
    if (!refused(status) || now() >= deadline) return status;
    std::this_thread::sleep_for(kRetryPause);
  }
}

Result<std::unique_ptr<Channel>> accept(Listener& listener, const Device& device,
                                        const ChannelOptions& options, Duration timeout,
                                        std::string* why) noexcept {
  const TimePoint deadline = deadline_after(timeout);
  for (;;) {
    Result<Connection> connection = listener.poll(device, options, now());
    if (connection) return finish(*connection, deadline, why);
    if (connection.error().code() != StatusCode::kWouldBlock) {
      if (why != nullptr) *why = "accepting failed: " + connection.error().to_string();
      return connection.error();
    }
    if (now() >= deadline) {
      if (why != nullptr) *why = "no peer connected in time";
      return Status(StatusCode::kTimeout);
    }
    wait_readable(listener.descriptor());
  }
}

Result<Notification> wait_notification(Channel& channel, Duration timeout) noexcept {
  return wait_for(channel, timeout, [&](Notification& out) {
    return channel.poll_notifications({&out, 1}) == 1;
  });
}

Result<Notification> wait_notification(Channel& channel, NotifyIndex index,
                                       Duration timeout) noexcept {
  return wait_for(channel, timeout,
                  [&](Notification& out) { return channel.take_notification(index, out); });
}

Result<Completion> wait(Channel& channel, Ticket ticket, Duration timeout) noexcept {
  const TimePoint deadline = deadline_after(timeout);
  Idler idler;
  Completion out;
  for (;;) {
    const Status status = channel.take(ticket, out);
    if (status.ok()) return out;
    if (status.code() != StatusCode::kWouldBlock) return status;
    if (now() >= deadline) return Status(StatusCode::kTimeout);
    idler.on_round(channel.progress(now()));
  }
}

Status drain(Channel& channel, Duration timeout) noexcept {
  const TimePoint deadline = deadline_after(timeout);
  Idler idler;
  Status first;
  std::array<Completion, 16> batch{};
  for (;;) {
    const bool done = channel.drained();
    const std::size_t count = channel.poll_completions(batch);
    for (std::size_t i = 0; i < count; ++i) {
      if (first.ok()) first = batch[i].status;
    }
    if (done && count < batch.size()) return first;
    if (now() >= deadline) return Status(StatusCode::kTimeout);
    idler.on_round(channel.progress(now()));
  }
}

Status close(Channel& channel, Duration timeout) noexcept {
  const TimePoint deadline = deadline_after(timeout);
  Idler idler;
  channel.close();
  while (channel.state() == ChannelState::kOpen) {
    if (now() >= deadline) return Status(StatusCode::kTimeout);
    idler.on_round(channel.progress(now()));
  }
  return channel.state() == ChannelState::kClosed ? Status() : channel.error().status;
}

}  // namespace braid::blocking
