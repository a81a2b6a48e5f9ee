#include "tools/sim_side.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace braid::tools {
namespace {

constexpr std::uint64_t kResultSlots = 64;

std::unique_ptr<Memory> allocate(Device& device, std::uint64_t bytes, MemoryAccess access) {
  Result<Memory> memory = device.allocate(bytes, access);
  std::unique_ptr<Memory> out;
  if (memory) out = std::make_unique<Memory>(std::move(*memory));
  return out;
}

}  // namespace

SimSide::SimSide(Device& device, const ChannelOptions& options, std::uint32_t operations,
                 std::uint32_t bytes, std::uint64_t seed)
    : options_(options),
      random_(seed),
      operations_left_(operations),
      bytes_(bytes),
      source_(allocate(device, bytes, MemoryAccess::kRemoteRead)),
      inbox_(allocate(device, bytes, MemoryAccess::kRemoteWrite)),
      fetched_(allocate(device, bytes, MemoryAccess::kLocal)),
      counter_(allocate(device, kAtomicBytes, MemoryAccess::kRemoteAtomic)),
      results_(allocate(device, kAtomicBytes * kResultSlots, MemoryAccess::kLocal)) {
  if (!source_ || !inbox_ || !fetched_ || !counter_ || !results_) {
    report("no memory for the regions");
    return;
  }
  for (std::uint64_t i = 0; i < bytes_; ++i) {
    source_->data()[i] =
        static_cast<std::byte>(random_.next() | 1U);  // differs from an empty inbox
  }
  options_.exports = {inbox_->remote(), source_->remote(), counter_->remote()};
}

void SimSide::start(std::unique_ptr<Channel> channel, SimSide& peer) noexcept {
  channel_ = std::move(channel);
  peer_ = &peer;
}

bool SimSide::act(TimePoint now) {
  bool moved = false;
  for (std::uint64_t calls = 1 + random_.below(6); calls > 0; --calls) {
    switch (random_.below(5)) {
      case 0: moved = issue() || moved; break;
      case 1: moved = poll_completions() || moved; break;
      case 2: moved = poll_notifications() || moved; break;
      default: moved = channel_->progress(now) || moved;
    }
  }
  check_window();
  return moved;
}

bool SimSide::has_failed() const noexcept { return channel_->state() == ChannelState::kFailed; }

bool SimSide::is_done() const noexcept {
  if (has_failed()) return issued_.empty();
  return operations_left_ == 0 && issued_.empty() && peer_->operations_left_ == 0 &&
         announced_seen_ == peer_->announced_.size();
}

bool SimSide::is_closed() const noexcept { return channel_->state() != ChannelState::kOpen; }

// --- issuing -------------------------------------------------------------------------------

bool SimSide::issue() {
  if (operations_left_ == 0 || channel_->state() != ChannelState::kOpen) return false;
  switch (random_.below(8)) {
    case 0: return issue_notify();
    case 1: return issue_get();
    case 2: return issue_fetch_add();
    case 3: (void)channel_->fence(); return issue_put();
    default: return issue_put();
  }
}

bool SimSide::issue_put() {
  const std::uint64_t left = bytes_ - put_bytes_;
  Issued put{Kind::kPut, issued_count_ + 1000, put_bytes_, 0};
  put.bytes = operations_left_ == 1 ? left : random_.below(left + 1);
  if (operations_left_ != 1 && random_.below(2) == 0) put.bytes /= 8;
  const auto index = static_cast<std::uint8_t>(
      random_.below(2) * (1 + random_.below(options_.notify_ids.empty() ? 127 : 1)));
  const RemoteRange remote = channel_->remote_memories()[0].range(put.offset, put.bytes);
  const Result<Ticket> ticket =
      channel_->put(source_->range(put.offset, put.bytes), remote, {{index}, put.user_data});
  if (!accept(ticket, put)) return false;
  put_bytes_ += put.bytes;
  if (index != 0) announced_.push_back({index, put_bytes_});
  return true;
}

bool SimSide::issue_notify() {
  const auto index = static_cast<std::uint8_t>(1 + random_.below(127));
  const Issued notify{Kind::kNotify, issued_count_ + 1000, 0, 0};
  if (!accept(channel_->notify({index}, notify.user_data), notify)) return false;
  announced_.push_back({index, put_bytes_});
  return true;
}

bool SimSide::issue_get() {
  const std::uint64_t offset = random_.below(bytes_);
  Issued get{Kind::kGet, issued_count_ + 1000, offset, random_.below(bytes_ - offset + 1)};
  const RemoteRange remote = channel_->remote_memories()[1].range(offset, get.bytes);
  return accept(channel_->get(fetched_->range(offset, get.bytes), remote, get.user_data), get);
}

bool SimSide::issue_fetch_add() {
  const Issued add{Kind::kFetchAdd, issued_count_ + 1000, 0, 1 + random_.below(1000)};
  const LocalRange result =
      results_->range(random_.below(kResultSlots) * kAtomicBytes, kAtomicBytes);
  const RemoteRange target = channel_->remote_memories()[2].range(0, kAtomicBytes);
  return accept(channel_->fetch_add(result, target, add.bytes, add.user_data), add);
}

bool SimSide::accept(const Result<Ticket>& ticket, const Issued& issued) {
  if (!ticket) {
    const StatusCode code = ticket.error().code();
    const bool expected = code == StatusCode::kWouldBlock || code == StatusCode::kNotSupported ||
                          channel_->state() != ChannelState::kOpen;
    if (!expected) report("an operation was refused: " + ticket.error().to_string());
    return false;
  }
  if (!issued_.emplace(ticket->value, issued).second) report("a ticket was given out twice");
  ++issued_count_;
  --operations_left_;
  return true;
}

// --- checking ------------------------------------------------------------------------------

bool SimSide::poll_completions() {
  std::array<Completion, 3> completions;
  const std::size_t count = channel_->poll_completions(
      std::span(completions).first(1 + random_.below(completions.size())));
  for (std::size_t i = 0; i < count; ++i) check_completion(completions[i]);
  return count != 0;
}

void SimSide::check_completion(const Completion& completion) {
  const auto found = issued_.find(completion.ticket.value);
  if (found == issued_.end()) return report("a completion for no operation, or the second for one");
  const Issued issued = found->second;
  issued_.erase(found);
  ++completed_count_;
  if (completion.user_data != issued.user_data) return report("user_data came back changed");
  if (!completion.status.ok()) {
    const bool is_unknown =
        completion.status.code() == StatusCode::kUnknownOutcome && issued.kind == Kind::kFetchAdd;
    if (is_unknown) unknown_added_ += issued.bytes;
    if (!has_failed() && !is_unknown) report("an operation failed on an open channel");
    return;
  }
  if (issued.kind == Kind::kFetchAdd) added_ += issued.bytes;
  if (issued.kind == Kind::kPut &&
      std::memcmp(source_->data() + issued.offset, peer_->inbox_->data() + issued.offset,
                  issued.bytes) != 0) {
    report("a put completed before its bytes were there");
  }
  if (issued.kind == Kind::kGet &&
      std::memcmp(fetched_->data() + issued.offset, peer_->source_->data() + issued.offset,
                  issued.bytes) != 0) {
    report("a get completed before its bytes were here");
  }
}

bool SimSide::poll_notifications() {
  std::array<Notification, 3> notifications;
  const std::size_t count = channel_->poll_notifications(
      std::span(notifications).first(1 + random_.below(notifications.size())));
  for (std::size_t i = 0; i < count; ++i) check_notification(notifications[i]);
  return count != 0;
}

void SimSide::check_notification(const Notification& notification) {
  if (announced_seen_ == peer_->announced_.size()) {
    return report("a notification that the peer did not send");
  }
  const Announced& expected = peer_->announced_[announced_seen_++];
  if (notification.index.value != expected.index || notification.id != expected.index) {
    return report("a notification out of order");
  }
  if (std::memcmp(inbox_->data() + verified_bytes_, peer_->source_->data() + verified_bytes_,
                  expected.end - verified_bytes_) != 0) {
    report("a notification came before its last byte");
  }
  verified_bytes_ = expected.end;
}

void SimSide::check_window() {
  std::uint64_t outstanding = 0;
  for (std::uint32_t lane = 0; lane < channel_->lane_count(); ++lane) {
    const LaneStats stats = channel_->lane_stats(lane);
    outstanding += stats.posted_segments - stats.completed_segments;
  }
  const ChannelStats stats = channel_->stats();
  if (stats.lane_failures == 0 && outstanding > channel_->options().window_segments) {
    report("more segments outstanding than the window");
  }
  if (stats.reorder_high_water >= channel_->options().window_segments) {
    report("a segment beyond the window arrived");
  }
  // What is replayed on another lane never arrived, so a segment that comes twice is a defect.
  if (stats.duplicate_segments != 0) report("a segment was delivered twice");
  if (stats.out_of_window_segments != 0) report("a segment was taken for one out of the window");
  if (stats.malformed_segments != 0 || stats.unknown_completions != 0) {
    report("a completion that nobody can have caused");
  }
}

void SimSide::check_end(bool may_lose_lanes, bool may_fail) {
  if (!issued_.empty()) report(std::to_string(issued_.size()) + " operations never completed");
  if (completed_count_ != issued_count_) report("operations and completions differ in number");
  if (has_failed() || peer_->has_failed()) {
    if (!may_fail && has_failed()) report("the channel failed for no reason");
    return;
  }
  if (announced_seen_ != peer_->announced_.size()) report("a notification never came");
  if (std::memcmp(inbox_->data(), peer_->source_->data(), peer_->put_bytes_) != 0) {
    report("the bytes differ in the end");
  }
  std::uint64_t counted = 0;
  std::memcpy(&counted, counter_->data(), sizeof counted);
  if (counted < peer_->added_ || counted > peer_->added_ + peer_->unknown_added_) {
    report("an atomic was executed twice, or not at all");
  }
  const bool lost_lanes = channel_->stats().lane_failures != 0 || unknown_added_ != 0;
  if (lost_lanes && !may_lose_lanes) report("a lane failed for no reason");
}

std::string SimSide::describe() const {
  return std::to_string(issued_count_) + " issued, " + std::to_string(completed_count_) +
         " completed, " + std::to_string(operations_left_) + " left, " +
         std::to_string(announced_seen_) + " of " + std::to_string(peer_->announced_.size()) +
         " notifications, " +
         (channel_->state() == ChannelState::kFailed ? "failed: " + channel_->error().text
                                                     : std::string("not failed"));
}

void SimSide::report(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

}  // namespace braid::tools
