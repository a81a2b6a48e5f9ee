#include <braid/channel.h>

#include <utility>

#include "channel/channel_core.h"

namespace braid {

const char* to_string(ChannelEvent::Kind kind) noexcept {
  switch (kind) {
    case ChannelEvent::Kind::kLaneDown: return "lane_down";
    case ChannelEvent::Kind::kLaneReplayed: return "lane_replayed";
    case ChannelEvent::Kind::kLaneUp: return "lane_up";
    case ChannelEvent::Kind::kLaneMoved: return "lane_moved";
    case ChannelEvent::Kind::kControlDown: return "control_down";
    case ChannelEvent::Kind::kControlUp: return "control_up";
  }
  return "unknown";
}

Channel::Channel(std::unique_ptr<ChannelCore> core) noexcept : core_(std::move(core)) {}
Channel::~Channel() = default;
Channel::Channel(Channel&&) noexcept = default;
Channel& Channel::operator=(Channel&&) noexcept = default;

Result<Ticket> Channel::put(LocalRange local, RemoteRange remote, PutOptions options) noexcept {
  return core_->put(local, remote, options);
}
Result<Ticket> Channel::notify(NotifyIndex index, std::uint64_t user_data) noexcept {
  return core_->notify(index, user_data);
}
Result<Ticket> Channel::get(LocalRange local, RemoteRange remote,
                            std::uint64_t user_data) noexcept {
  return core_->get(local, remote, user_data);
}
Result<Ticket> Channel::fetch_add(LocalRange result, RemoteRange target, std::uint64_t operand,
                                  std::uint64_t user_data) noexcept {
  return core_->atomic(channel::OperationKind::kFetchAdd, result, target, operand, 0, user_data);
}
Result<Ticket> Channel::compare_swap(LocalRange result, RemoteRange target, std::uint64_t expected,
                                     std::uint64_t desired, std::uint64_t user_data) noexcept {
  return core_->atomic(channel::OperationKind::kCompareSwap, result, target, desired, expected,
                       user_data);
}
Status Channel::fence() noexcept { return core_->fence(); }
Status Channel::take(Ticket ticket, Completion& completion) noexcept {
  return core_->take(ticket, completion);
}
bool Channel::take_notification(NotifyIndex index, Notification& notification) noexcept {
  return core_->take_notification(index, notification);
}
bool Channel::progress(TimePoint now) noexcept { return core_->progress(now); }
std::size_t Channel::poll_completions(std::span<Completion> completions) noexcept {
  return core_->poll_completions(completions);
}
std::size_t Channel::poll_notifications(std::span<Notification> notifications) noexcept {
  return core_->poll_notifications(notifications);
}
std::size_t Channel::poll_events(std::span<ChannelEvent> events) noexcept {
  return core_->poll_events(events);
}
bool Channel::drained() const noexcept { return core_->drained(); }
void Channel::close() noexcept { core_->close(); }
ChannelState Channel::state() const noexcept { return core_->state(); }
bool Channel::peer_closed() const noexcept { return core_->peer_closed(); }
const ChannelError& Channel::error() const noexcept { return core_->error(); }
std::span<const RemoteMemory> Channel::remote_memories() const noexcept {
  return core_->remote_memories();
}
const ChannelOptions& Channel::options() const noexcept { return core_->options(); }
std::uint32_t Channel::lane_count() const noexcept { return core_->options().lanes; }
LaneStats Channel::lane_stats(std::uint32_t lane) const noexcept { return core_->lane_stats(lane); }
ChannelStats Channel::stats() const noexcept { return core_->stats(); }
const std::string& Channel::peer_address() const noexcept { return core_->peer_address(); }

}  // namespace braid
