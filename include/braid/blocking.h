#pragma once

#include <braid/channel.h>
#include <braid/connect.h>
#include <braid/device.h>
#include <braid/time.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

/// Blocking convenience over the non-blocking calls. These are a composition root: they read the
/// system's monotonic clock. Do not mix them with another clock on the same channel.
namespace braid::blocking {

/// The monotonic clock, as a TimePoint.
[[nodiscard]] TimePoint now() noexcept;

/// Connects and waits. Until `timeout` has passed a refused connection is tried again, so that
/// the two sides may start in any order.
Result<std::unique_ptr<Channel>> connect(const Device& device, std::string_view host,
                                         std::uint16_t port, const ChannelOptions& options,
                                         Duration timeout, std::string* why = nullptr) noexcept;

/// Waits for one peer. `timeout` 0 = for ever.
Result<std::unique_ptr<Channel>> accept(Listener& listener, const Device& device,
                                        const ChannelOptions& options, Duration timeout,
                                        std::string* why = nullptr) noexcept;

/// Progresses until one notification is there. Errors: kTimeout, kAborted (the peer closed), or
/// the status the channel failed with.
Result<Notification> wait_notification(Channel& channel, Duration timeout) noexcept;

/// As above for one index: notifications with others are left for later calls, in their order.
/// After a timeout nothing is lost; call again.
Result<Notification> wait_notification(Channel& channel, NotifyIndex index,
                                       Duration timeout) noexcept;

/// Progresses until the operation has completed, and takes its completion. Errors: kTimeout (it
/// goes on; call again), kNotFound (unknown, or taken before). An operation that failed is no
/// error of this call: look at Completion::status.
Result<Completion> wait(Channel& channel, Ticket ticket, Duration timeout) noexcept;

/// Progresses until every operation has completed; returns the first error among the completions
/// that it took. Errors: kTimeout besides.
Status drain(Channel& channel, Duration timeout) noexcept;

/// Closes, and progresses until the peer has closed too or `timeout` has passed.
Status close(Channel& channel, Duration timeout) noexcept;

}  // namespace braid::blocking
