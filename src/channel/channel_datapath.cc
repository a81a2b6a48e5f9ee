#include <arpa/inet.h>

#include <cerrno>

#include "channel/channel_core.h"

namespace braid {

using channel::Lane;
using channel::Sender;
using channel::WorkKind;

Result<Ticket> ChannelCore::put(const LocalRange& local, const RemoteRange& remote,
                                const PutOptions& options) noexcept {
  if (state_ == ChannelState::kFailed) return error_.status;
  if (state_ == ChannelState::kClosed || close_requested_) return Status(StatusCode::kAborted);
  if (local.memory == nullptr || local.bytes != remote.bytes ||
      options.notify.value > peer_notify_count_) {
    return Status(StatusCode::kInvalidArgument);
  }
  const std::uint64_t region_bytes = local.memory->bytes();
  if (!remote.valid || local.offset > region_bytes || local.bytes > region_bytes - local.offset) {
    return Status(StatusCode::kNotFound);
  }
  channel::Operation operation;
  operation.local_address = reinterpret_cast<std::uintptr_t>(local.memory->data()) + local.offset;
  operation.remote_address = remote.address;
  operation.total_bytes = local.bytes;
  operation.user_data = options.user_data;
  operation.lkey = local.memory->lkey();
  operation.rkey = remote.rkey;
  operation.notify = options.notify.value;
  const std::uint32_t index = sender_.accept(operation);
  if (index == channel::OperationTable::kNone) return Status(StatusCode::kWouldBlock);
  return sender_.operations().ticket_of(index);
}

Result<Ticket> ChannelCore::notify(NotifyIndex index, std::uint64_t user_data) noexcept {
  if (state_ == ChannelState::kFailed) return error_.status;
  if (state_ == ChannelState::kClosed || close_requested_) return Status(StatusCode::kAborted);
  if (index.value == 0 || index.value > peer_notify_count_) {
    return Status(StatusCode::kInvalidArgument);
  }
  channel::Operation operation;
  operation.user_data = user_data;
  operation.notify = index.value;
  const std::uint32_t slot = sender_.accept(operation);
  if (slot == channel::OperationTable::kNone) return Status(StatusCode::kWouldBlock);
  return sender_.operations().ticket_of(slot);
}

bool ChannelCore::progress(TimePoint now) noexcept {
  if (!clock_started_) {
    last_proof_of_life_ = now;
    clock_started_ = true;
  }
  if (state_ == ChannelState::kFailed) return progress_failed(now);
  if (state_ == ChannelState::kClosed) return false;
  bool moved = poll_sends(now);
  moved = poll_receives(now) || moved;
  receiver_.advance();
  if (state_ == ChannelState::kOpen) moved = post_segments(now) || moved;
  if (state_ == ChannelState::kOpen) moved = send_control(now) || moved;
  if (state_ == ChannelState::kOpen) check_liveness(now);
  update_closed();
  return moved;
}

bool ChannelCore::poll_sends(TimePoint now) noexcept {
  const int count = ibv_poll_cq(send_cq_, kPollBatch, batch_.data());
  if (count < 0) {
    fail(Status::from_verbs(StatusCode::kInternal, EIO), -1, 0,
         "the completion queue of the sends cannot be polled", now);
    return true;
  }
  for (int i = 0; i < count; ++i) handle_send(batch_[static_cast<std::size_t>(i)], now);
  return count > 0;
}

void ChannelCore::handle_send(const ibv_wc& completion, TimePoint now) noexcept {
  // Status first: with an error, only wr_id, qp_num and vendor_err mean anything.
  const bool ok = completion.status == IBV_WC_SUCCESS;
  if (ok) {
    last_proof_of_life_ = now;
  } else {
    fail_completion(completion, now);
  }
  switch (channel::kind_of(completion.wr_id)) {
    case WorkKind::kSegment: {
      const Status status = ok ? Status() : error_.status;
      if (!sender_.handle_completion(channel::Sequence(channel::number_of(completion.wr_id)),
                                     channel::lane_of(completion.wr_id), status, now)) {
        ++stats_.unknown_completions;
      }
      break;
    }
    case WorkKind::kControlSend:
      --control_sends_;
      if (ok && close_sent_ && control_sends_ == 0) close_acknowledged_ = true;
      break;
    case WorkKind::kKeepalive: keepalive_under_way_ = false; break;
    case WorkKind::kReceive:
    case WorkKind::kControlReceive: ++stats_.unknown_completions; break;
  }
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
  if (completion.status != IBV_WC_SUCCESS) {
    fail_completion(completion, now);
    return;
  }
  last_proof_of_life_ = now;
  if (channel::kind_of(completion.wr_id) == WorkKind::kControlReceive) {
    handle_control(channel::number_of(completion.wr_id), completion.byte_len, now);
    return;
  }
  const std::uint32_t lane = channel::lane_of(completion.wr_id);
  if (lane >= options_.lanes) {
    ++stats_.unknown_completions;
    return;
  }
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
    const int error = lanes_[lane].post_receives(count);
    if (error != 0) {
      fail(Status::from_verbs(StatusCode::kInternal, error), static_cast<int>(lane), 0,
           "a receive cannot be posted again", now);
      break;
    }
    receiver_.on_reposted(lane, count);
  }
  repost_lane_count_ = 0;
}

bool ChannelCore::post_segments(TimePoint now) noexcept {
  // What a full queue held back goes first: sequences leave in their order per lane.
  for (std::uint32_t lane = 0; lane < options_.lanes; ++lane) {
    if (lanes_[lane].staged_any() && !post_lane(lane, now)) return true;
  }
  channel::SegmentPost post;
  std::uint32_t count = 0;
  while (count < kRoundSegments && sender_.next(post, now)) {
    ++count;
    Lane& lane = lanes_[post.lane];
    lane.stage(post);
    if (lane.chain_full() && !post_lane(post.lane, now)) return true;
  }
  if (sender_.blocked() == Sender::Blocked::kWindow) ++stats_.window_stalls;
  if (sender_.blocked() == Sender::Blocked::kLanes) ++stats_.credit_stalls;
  if (count == 0) return false;
  for (std::uint32_t lane = 0; lane < options_.lanes; ++lane) {
    if (lanes_[lane].staged_any() && !post_lane(lane, now)) break;
  }
  return true;
}

bool ChannelCore::post_lane(std::uint32_t lane, TimePoint now) noexcept {
  const int error = lanes_[lane].post();
  if (error != 0 && error != ENOMEM) {
    fail(Status::from_verbs(StatusCode::kInternal, error), static_cast<int>(lane), 0,
         "a segment cannot be posted", now);
  }
  return error == 0;
}

std::size_t ChannelCore::poll_completions(std::span<Completion> out) noexcept {
  std::size_t count = 0;
  while (count < out.size() && sender_.operations().poll(out[count])) ++count;
  return count;
}

std::size_t ChannelCore::poll_notifications(std::span<Notification> out) noexcept {
  std::size_t count = 0;
  std::uint8_t index = 0;
  while (count < out.size() && receiver_.poll(index)) {
    const std::uint32_t id = options_.notify_ids.empty() ? index : options_.notify_ids[index - 1U];
    out[count++] = {id, NotifyIndex{index}};
  }
  return count;
}

}  // namespace braid
