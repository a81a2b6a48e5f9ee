#include <arpa/inet.h>

#include <cerrno>

#include "channel/channel_core.h"
#include "channel/completion_status.h"

namespace braid {

using channel::Lane;
using channel::Sender;
using channel::WorkKind;

namespace {

bool inside(const LocalRange& local) noexcept {
  const std::uint64_t region_bytes = local.memory->bytes();
  return local.offset <= region_bytes && local.bytes <= region_bytes - local.offset;
}

}  // namespace

Status ChannelCore::refusal() const noexcept {
  if (state_ == ChannelState::kFailed) return error_.status;
  if (state_ == ChannelState::kClosed || close_requested_) return Status(StatusCode::kAborted);
  return Status();
}

Result<Ticket> ChannelCore::put(const LocalRange& local, const RemoteRange& remote,
                                const PutOptions& options) noexcept {
  if (const Status status = refusal(); !status.ok()) return status;
  if (local.memory == nullptr || local.bytes != remote.bytes ||
      options.notify.value > peer_notify_count_) {
    return Status(StatusCode::kInvalidArgument);
  }
  if (!remote.valid || !inside(local)) return Status(StatusCode::kNotFound);
  channel::Operation operation;
  operation.local_address = reinterpret_cast<std::uintptr_t>(local.memory->data()) + local.offset;
  operation.remote_address = remote.address;
  operation.total_bytes = local.bytes;
  operation.user_data = options.user_data;
  operation.lkey = local.memory->lkey();
  operation.rkey = remote.rkey;
  operation.notify = options.notify.value;
  operation.policy = options.policy.value_or(options_.policy);
  const std::uint32_t index = sender_.accept(operation);
  if (index == channel::OperationTable::kNone) return Status(StatusCode::kWouldBlock);
  return sender_.operations().ticket_of(index);
}

Result<Ticket> ChannelCore::notify(NotifyIndex index, std::uint64_t user_data) noexcept {
  if (const Status status = refusal(); !status.ok()) return status;
  if (index.value == 0 || index.value > peer_notify_count_) {
    return Status(StatusCode::kInvalidArgument);
  }
  channel::Operation operation;
  operation.user_data = user_data;
  operation.notify = index.value;
  operation.policy = options_.policy == SchedulerPolicy::kStaticSplit
                         ? SchedulerPolicy::kRoundRobin  // one segment is enough
                         : options_.policy;
  const std::uint32_t slot = sender_.accept(operation);
  if (slot == channel::OperationTable::kNone) return Status(StatusCode::kWouldBlock);
  return sender_.operations().ticket_of(slot);
}

Result<channel::Operation> ChannelCore::fetch_of(const LocalRange& local,
                                                 const RemoteRange& remote) const noexcept {
  if (const Status status = refusal(); !status.ok()) return status;
  if (options_.read_depth == 0) return Status(StatusCode::kNotSupported);
  if (local.memory == nullptr || local.bytes != remote.bytes) {
    return Status(StatusCode::kInvalidArgument);
  }
  if (!remote.valid || !inside(local)) return Status(StatusCode::kNotFound);
  channel::Operation operation;
  operation.local_address = reinterpret_cast<std::uintptr_t>(local.memory->data()) + local.offset;
  operation.remote_address = remote.address;
  operation.total_bytes = local.bytes;
  operation.lkey = local.memory->lkey();
  operation.rkey = remote.rkey;
  return operation;
}

Result<Ticket> ChannelCore::accept_fetch(const channel::Operation& operation) noexcept {
  const std::uint32_t index = fetcher_.accept(operation);
  if (index == channel::OperationTable::kNone) return Status(StatusCode::kWouldBlock);
  return sender_.operations().ticket_of(index);
}

Result<Ticket> ChannelCore::get(const LocalRange& local, const RemoteRange& remote,
                                std::uint64_t user_data) noexcept {
  Result<channel::Operation> operation = fetch_of(local, remote);
  if (!operation) return operation.error();
  operation->kind = channel::OperationKind::kGet;
  operation->user_data = user_data;
  return accept_fetch(*operation);
}

Result<Ticket> ChannelCore::atomic(channel::OperationKind kind, const LocalRange& result,
                                   const RemoteRange& target, std::uint64_t operand,
                                   std::uint64_t compare, std::uint64_t user_data) noexcept {
  Result<channel::Operation> operation = fetch_of(result, target);
  if (!operation) return operation.error();
  if (device_->attributes().atomic_cap == IBV_ATOMIC_NONE) return Status(StatusCode::kNotSupported);
  if (target.bytes != kAtomicBytes || target.address % kAtomicBytes != 0) {
    return Status(StatusCode::kInvalidArgument);
  }
  operation->kind = kind;
  operation->operand = operand;
  operation->compare = compare;
  operation->user_data = user_data;
  return accept_fetch(*operation);
}

Status ChannelCore::fence() noexcept {
  if (const Status status = refusal(); !status.ok()) return status;
  sender_.operations().fence();
  return Status();
}

bool ChannelCore::progress(TimePoint now) noexcept {
  if (!clock_started_) {
    last_proof_of_life_ = stalled_since_ = now;
    clock_started_ = true;
  }
  if (state_ == ChannelState::kFailed) return progress_failed(now);
  if (state_ == ChannelState::kClosed) return false;
  bool moved = poll_sends(now);
  moved = poll_receives(now) || moved;
  receiver_.advance();
  if (state_ == ChannelState::kOpen) moved = poll_stream(now) || moved;
  if (options_.repath_after > Duration(0) && state_ == ChannelState::kOpen) advance_repath(now);
  if (links_down_ > 0 && state_ == ChannelState::kOpen) moved = advance_links(now) || moved;
  // Puts and fetches share the lanes' queues; who posts first changes from round to round.
  fetches_first_ = !fetches_first_;
  if (fetches_first_ && state_ == ChannelState::kOpen) moved = post_fetches(now) || moved;
  if (state_ == ChannelState::kOpen) moved = post_segments(now) || moved;
  if (!fetches_first_ && state_ == ChannelState::kOpen) moved = post_fetches(now) || moved;
  if (state_ == ChannelState::kOpen) moved = send_control(now) || moved;
  if (state_ == ChannelState::kOpen) check_liveness(now);
  update_closed();
  return moved;
}

bool ChannelCore::poll_sends(TimePoint now) noexcept {
  bool any = false;
  // The more completions are taken at once, the longer the chains that replace them.
  for (std::uint32_t round = 0; round < kPollRounds; ++round) {
    const int count = ibv_poll_cq(send_cq_, kPollBatch, batch_.data());
    if (count < 0) {
      fail(Status::from_verbs(StatusCode::kInternal, EIO), -1, 0,
           "the completion queue of the sends cannot be polled", now);
      return true;
    }
    for (int i = 0; i < count; ++i) handle_send(batch_[static_cast<std::size_t>(i)], now);
    any = any || count > 0;
    if (count < static_cast<int>(kPollBatch)) break;
  }
  return any;
}

void ChannelCore::handle_send(const ibv_wc& completion, TimePoint now) noexcept {
  const std::uint32_t link = link_of(channel::lane_of(completion.wr_id));
  if (link == link_count() || channel::tag_of(completion.wr_id) != lanes_[link].tag()) {
    ++stats_.unknown_completions;
    return;
  }
  lanes_[link].on_send_taken();
  // Status first: with an error, only wr_id, qp_num and vendor_err mean anything.
  if (completion.status != IBV_WC_SUCCESS) {
    handle_send_error(link, completion, now);
    return;
  }
  last_proof_of_life_ = now;
  switch (channel::kind_of(completion.wr_id)) {
    case WorkKind::kSegment:
    case WorkKind::kFetch: end_work(completion.wr_id, Status(), now); break;
    default: handle_sent(link, completion, now);
  }
}

void ChannelCore::handle_sent(std::uint32_t link, const ibv_wc& completion,
                              TimePoint now) noexcept {
  switch (channel::kind_of(completion.wr_id)) {
    case WorkKind::kControlSend:
      --control_sends_;
      control_sent_at_ = control_sends_ == 0 ? kNever : now;
      if (close_sent_ && control_sends_ == 0) close_acknowledged_ = true;
      break;
    case WorkKind::kKeepalive: keepalive_under_way_ = false; break;
    case WorkKind::kProbe: links_[link].probe_back = true; break;
    default: ++stats_.unknown_completions;
  }
}

void ChannelCore::end_work(std::uint64_t wr_id, Status status, TimePoint now) noexcept {
  const std::uint32_t lane = channel::lane_of(wr_id);
  const std::uint32_t number = channel::number_of(wr_id);
  const bool known = channel::kind_of(wr_id) == WorkKind::kSegment
                         ? sender_.handle_completion(channel::Sequence(number), lane, status, now)
                         : fetcher_.handle_completion(number, lane, status, now);
  if (!known) ++stats_.unknown_completions;
  completed_any_ = completed_any_ || status.ok();
}

bool ChannelCore::poll_receives(TimePoint now) noexcept {
  const int count = ibv_poll_cq(receive_cq_, kPollBatch, batch_.data());
  if (count < 0) {
    fail(Status::from_verbs(StatusCode::kInternal, EIO), -1, 0,
         "the completion queue of the receives cannot be polled", now);
    return true;
  }
  for (int i = 0; i < count; ++i) handle_receive(batch_[static_cast<std::size_t>(i)], now);
  if (count > 0 && state_ == ChannelState::kOpen) repost_receives(now);
  return count > 0;
}

void ChannelCore::handle_receive(const ibv_wc& completion, TimePoint now) noexcept {
  const std::uint32_t link = link_of(channel::lane_of(completion.wr_id));
  if (link == link_count() || channel::tag_of(completion.wr_id) != lanes_[link].tag()) {
    ++stats_.unknown_completions;
    return;
  }
  lanes_[link].on_receive_taken();
  if (completion.status != IBV_WC_SUCCESS) {
    begin_recovery(link, Status::from_completion(completion.status), completion.vendor_err,
                   channel::describe(completion.status), now);
    return;
  }
  last_proof_of_life_ = now;
  if (link == control_link()) {
    handle_control(channel::number_of(completion.wr_id), completion.byte_len, now);
    return;
  }
  const std::uint32_t lane = link;
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    receiver_.handle_segment(lane, channel::decode_imm(ntohl(completion.imm_data)),
                             completion.byte_len);
  } else {
    ++stats_.malformed_segments;  // no peer of ours sends anything else on a lane
  }
  if (repost_count_[lane]++ == 0) {
    repost_lanes_[repost_lane_count_++] = static_cast<std::uint8_t>(lane);
  }
}

void ChannelCore::repost_receives(TimePoint now) noexcept {
  for (std::uint32_t i = 0; i < repost_lane_count_; ++i) {
    const std::uint32_t lane = repost_lanes_[i];
    const std::uint32_t count = repost_count_[lane];
    repost_count_[lane] = 0;
    // Of a queue pair that is being given up nothing is posted again.
    if (!links_[lane].state.receives()) continue;
    const int error = lanes_[lane].post_receives(count);
    if (error != 0) {
      begin_recovery(lane, Status::from_verbs(StatusCode::kInternal, error), 0,
                     "a receive cannot be posted again", now);
      continue;
    }
    receiver_.on_reposted(lane, count);
  }
  repost_lane_count_ = 0;
}

bool ChannelCore::post_staged(TimePoint now) noexcept {
  std::uint32_t lane = staged_.next(0);
  for (; lane != channel::LaneSet::kNone; lane = staged_.next(lane)) {
    const bool posted = after_post(lane, lanes_[lane].post_segments(), now);
    if (!posted && lanes_[lane].segments_staged()) return false;
    staged_.erase(lane);
    if (!posted && state_ != ChannelState::kOpen) return false;
  }
  return true;
}

bool ChannelCore::post_segments(TimePoint now) noexcept {
  // What a full queue held back goes first: sequences leave in their order per lane.
  if (!post_staged(now)) return true;
  channel::SegmentPost post;
  std::uint32_t count = 0;
  while (count < kRoundSegments && sender_.next(post, now)) {
    ++count;
    Lane& lane = lanes_[post.lane];
    lane.stage(post);
    staged_.insert(post.lane);
    if (lane.segments_full() && !after_post(post.lane, lane.post_segments(), now)) return true;
  }
  if (sender_.blocked() == Sender::Blocked::kWindow) ++stats_.window_stalls;
  if (sender_.blocked() == Sender::Blocked::kLanes) ++stats_.credit_stalls;
  if (count == 0) return false;
  (void)post_staged(now);
  return true;
}

bool ChannelCore::post_fetches(TimePoint now) noexcept {
  // A channel that only puts pays this one look.
  if (fetcher_.idle()) return false;
  auto post_lane = [&](std::uint32_t lane) {
    return after_post(lane, lanes_[lane].post_fetches(), now);
  };
  for (std::uint32_t lane = 0; lane < options_.lanes; ++lane) {
    if (lanes_[lane].fetches_staged() && !post_lane(lane) && lanes_[lane].fetches_staged()) {
      return true;
    }
  }
  channel::FetchPost post;
  std::uint32_t count = 0;
  while (count < kRoundSegments && fetcher_.next(post, now)) {
    ++count;
    Lane& lane = lanes_[post.lane];
    lane.stage(post);
    if (lane.fetches_full() && !post_lane(post.lane)) return true;
  }
  if (count == 0) return false;
  for (std::uint32_t lane = 0; lane < options_.lanes; ++lane) {
    if (lanes_[lane].fetches_staged()) (void)post_lane(lane);
  }
  return true;
}

bool ChannelCore::after_post(std::uint32_t lane, int error, TimePoint now) noexcept {
  if (error == 0) return true;
  const Status status = Status::from_verbs(StatusCode::kInternal, error);
  if (error == EPROTO) {
    // Nobody knows what the device has, so nobody can say when it has given everything back.
    fail(status, static_cast<int>(lane), 0, "a work request cannot be posted", now);
  } else if (error != ENOMEM) {
    begin_recovery(lane, status, 0, "a work request cannot be posted", now);
  }
  return false;
}

std::size_t ChannelCore::poll_completions(std::span<Completion> out) noexcept {
  std::size_t count = 0;
  while (count < out.size() && sender_.operations().poll(out[count])) ++count;
  return count;
}

Notification ChannelCore::notification_of(std::uint8_t index) const noexcept {
  return {options_.notify_ids.empty() ? index : options_.notify_ids[index - 1U],
          NotifyIndex{index}};
}

std::size_t ChannelCore::poll_notifications(std::span<Notification> out) noexcept {
  std::size_t count = 0;
  std::uint8_t index = 0;
  while (count < out.size() && receiver_.poll(index)) out[count++] = notification_of(index);
  return count;
}

bool ChannelCore::take_notification(NotifyIndex index, Notification& out) noexcept {
  if (!receiver_.take(index.value)) return false;
  out = notification_of(index.value);
  return true;
}

}  // namespace braid
