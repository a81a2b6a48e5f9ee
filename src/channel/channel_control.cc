#include <infiniband/verbs.h>

#include <utility>

#include "channel/channel_core.h"
#include "channel/completion_status.h"

namespace braid {

using channel::ControlMessage;
using channel::ControlType;
using channel::LaneLink;
using channel::WorkKind;

namespace {

// The stream is looked at every so often; while a queue pair is down, in every round.
constexpr Duration kStreamInterval = std::chrono::milliseconds(5);
constexpr std::uint32_t kSlots = channel::ControlBudget::kReceives;

}  // namespace

void ChannelCore::handle_control(std::uint32_t slot, std::uint32_t bytes, TimePoint now) noexcept {
  if (slot >= kSlots || bytes > channel::kControlSlotBytes) {
    ++stats_.unknown_completions;
    return;
  }
  const std::byte* data = control_buffer_.get() + (kSlots + slot) * channel::kControlSlotBytes;
  accept_control(std::span(data, bytes), now);
  if (state_ != ChannelState::kOpen || !links_[control_link()].state.receives()) return;
  const int error = post_control_receive(slot);
  if (error != 0) {
    begin_recovery(control_link(), Status::from_verbs(StatusCode::kInternal, error), 0,
                   "a receive of the control queue pair cannot be posted again", now);
  }
}

void ChannelCore::accept_control(std::span<const std::byte> data, TimePoint now) noexcept {
  ControlMessage message;
  bool possible = channel::decode(data, options_.lanes, message).ok();
  if (possible) {
    // What was sent again over the other way may come twice, but never with a gap.
    const auto ahead = static_cast<std::int32_t>(message.number - budget_.received());
    if (ahead < 0) return;
    possible = ahead == 0 && apply_control(message, now);
  }
  if (possible) {
    budget_.on_received();
  } else {
    fail(Status(StatusCode::kProtocol), -1, 0,
         "the peer sent a control message that no peer of ours sends", now);
  }
}

bool ChannelCore::apply_control(const ControlMessage& message, TimePoint now) noexcept {
  if (!budget_.on_confirmed(message.control_received)) return false;
  if (!sender_.handle_delivered(message.delivered)) return false;
  for (std::uint32_t lane = 0; lane < options_.lanes; ++lane) {
    if (!links_[lane].state.peer_posts()) continue;
    if (!sender_.handle_granted(lane, message.receives_posted[lane])) return false;
  }
  if (message.type == ControlType::kClose) {
    // Only a farewell bounds what may have arrived: segments overtake other control messages.
    if (message.sequences_used < receiver_.delivered()) return false;
    peer_close_received_ = true;
    peer_final_sequences_ = message.sequences_used;
  }
  return message.type <= ControlType::kClose || apply_news(message, now);
}

bool ChannelCore::apply_news(const ControlMessage& message, TimePoint now) noexcept {
  const channel::LaneNews& news = message.news;
  const std::uint32_t link = link_of(news.lane);
  if (link == link_count() || !options_.heal) return false;
  Link& entry = links_[link];
  switch (message.type) {
    case ControlType::kLaneDown: {
      const bool was_up = entry.state.up();
      const bool used = entry.state.receives();
      if (news.qpn < 2) return false;
      if (!entry.state.handle_peer_down(news.generation, {news.qpn, news.psn}, now, random_)) {
        return false;
      }
      if (was_up) {
        entry.cause = Status();
        ++links_down_;
      }
      if (used) drain(link, now);
      if (entry.state.phase() == LaneLink::Phase::kPausing) resolve(link);
      return true;
    }
    case ControlType::kLaneReady:
      if (!entry.state.handle_peer_ready(news.generation)) return false;
      if (link != control_link()) sender_.renew_credits(link);
      return true;
    case ControlType::kLaneQuery: return answer_query(link, news);
    case ControlType::kLaneAnswer: return apply_answer(link, news, now);
    default: return false;
  }
}

bool ChannelCore::answer_query(std::uint32_t link, const channel::LaneNews& news) noexcept {
  Link& entry = links_[link];
  // Asked once both sides' queue pairs of the last generation are gone, so the answer is final.
  if (news.generation == 0 || news.generation != entry.state.generation()) return false;
  // An answer that is still here can only be one of an older generation, which nobody awaits.
  if (entry.answer_due && entry.answer.generation == news.generation) return false;
  if (!entry.answer_due) ++answers_due_;
  entry.answer = channel::LaneNews();
  entry.answer.lane = link;
  entry.answer.generation = news.generation;
  for (std::uint32_t i = 0; i < news.count; ++i) {
    if (receiver_.arrived(channel::Sequence(news.sequences[i]))) {
      entry.answer.arrived |= std::uint64_t{1} << i;
    }
  }
  entry.answer_due = true;
  return true;
}

bool ChannelCore::apply_answer(std::uint32_t link, const channel::LaneNews& news,
                               TimePoint now) noexcept {
  Link& entry = links_[link];
  // The lane may have died again since it was asked; then it is asked again.
  if (entry.resolving && news.generation != entry.query.generation) return true;
  if (!entry.resolving || entry.query_due) return false;
  for (std::uint32_t i = 0; i < entry.query.count; ++i) {
    const bool arrived = ((news.arrived >> i) & 1U) != 0;
    if (!sender_.resolve(channel::Sequence(entry.query.sequences[i]), link, arrived, now)) {
      return false;
    }
    if (!arrived) ++entry.replayed;
  }
  resolve(link);
  return true;
}

int ChannelCore::post_control_receive(std::uint32_t slot) noexcept {
  channel::Lane& lane = lanes_[control_link()];
  const std::byte* data = control_buffer_.get() + (kSlots + slot) * channel::kControlSlotBytes;
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(data),
              static_cast<std::uint32_t>(channel::kControlSlotBytes), control_mr_->lkey};
  ibv_recv_wr wr{};
  wr.wr_id =
      channel::make_wr_id(WorkKind::kControlReceive, lane.tag(), channel::kControlLane, slot);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  return lane.post_receive(wr);
}

bool ChannelCore::next_news(ControlMessage& message) noexcept {
  if (links_down_ == 0 && answers_due_ == 0) return false;
  for (std::uint32_t link = 0; link < link_count(); ++link) {
    Link& entry = links_[link];
    message.news.lane = link == control_link() ? channel::kControlLane : link;
    if (std::exchange(entry.down_due, false)) {
      message.type = ControlType::kLaneDown;
      message.news.generation = entry.down_generation;
      message.news.qpn = entry.ours.qpn;
      message.news.psn = entry.ours.psn;
      return true;
    }
    if (std::exchange(entry.ready_due, false)) {
      message.type = ControlType::kLaneReady;
      message.news.generation = entry.state.generation();
      return true;
    }
    if (std::exchange(entry.query_due, false)) {
      message.type = ControlType::kLaneQuery;
      message.news = entry.query;
      return true;
    }
    if (std::exchange(entry.answer_due, false)) {
      --answers_due_;
      message.type = ControlType::kLaneAnswer;
      message.news = entry.answer;
      return true;
    }
  }
  return false;
}

bool ChannelCore::send_control(TimePoint now) noexcept {
  const bool close_due =
      close_requested_ && !close_sent_ && sender_.operations().active_count() == 0;
  // Nearly always there is nothing to say, and the message is large.
  if (!close_due && !receiver_.grant_due() && links_down_ == 0 && answers_due_ == 0 &&
      !budget_.must_confirm())
    return false;
  ControlMessage message;
  if (lanes_[control_link()].sends() + 2 >= 2 * kSlots && !over_stream_) return false;
  if (budget_.may_send() && next_news(message)) {
    // What a lane's replacement waits for goes first.
  } else if ((close_due || receiver_.grant_due()) && budget_.may_send()) {
    if (close_sent_ || close_due) message.type = ControlType::kClose;
  } else if (budget_.must_confirm()) {
    if (close_sent_) message.type = ControlType::kClose;
  } else {
    return false;
  }
  message.number = budget_.sent();
  message.control_received = budget_.received();
  message.delivered = receiver_.delivered();
  message.sequences_used = sender_.sequences_used();
  message.lane_count = options_.lanes;
  for (std::uint32_t lane = 0; lane < options_.lanes; ++lane) {
    message.receives_posted[lane] = receiver_.posted(lane);
  }
  // The slot is free: the peer has confirmed the message that was in it.
  const std::uint32_t slot = message.number % kSlots;
  std::byte* data = control_buffer_.get() + slot * channel::kControlSlotBytes;
  control_bytes_[slot] =
      static_cast<std::uint32_t>(channel::encode(message, {data, channel::kControlSlotBytes}));
  budget_.on_sent();
  receiver_.on_granted();
  if (message.type == ControlType::kClose) close_sent_ = true;
  transmit(message.number, now);
  return true;
}

void ChannelCore::transmit(std::uint32_t number, TimePoint now) noexcept {
  const std::uint32_t slot = number % kSlots;
  std::byte* data = control_buffer_.get() + slot * channel::kControlSlotBytes;
  if (over_stream_) {
    stream_->send(bootstrap::FrameType::kControl, {data, control_bytes_[slot]});
    return;
  }
  channel::Lane& lane = lanes_[control_link()];
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(data), control_bytes_[slot], control_mr_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = channel::make_wr_id(WorkKind::kControlSend, lane.tag(), channel::kControlLane, slot);
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  const int error = lane.post_one(wr);
  if (error != 0) {
    // With the queue pair goes the message, and with the next one it comes again.
    begin_recovery(control_link(), Status::from_verbs(StatusCode::kInternal, error), 0,
                   "a control message cannot be posted", now);
    return;
  }
  if (control_sends_++ == 0) control_sent_at_ = now;
}

void ChannelCore::resend_unconfirmed(TimePoint now) noexcept {
  for (std::uint32_t number = budget_.confirmed(); number != budget_.sent(); ++number) {
    if (state_ != ChannelState::kOpen) return;
    transmit(number, now);
  }
}

bool ChannelCore::poll_stream(TimePoint now) noexcept {
  if (stream_ == nullptr || (links_down_ == 0 && now < stream_poll_at_)) return false;
  stream_poll_at_ = now + kStreamInterval;
  bool moved = false;
  while (state_ == ChannelState::kOpen) {
    bootstrap::FrameType type = bootstrap::FrameType::kControl;
    const Status flushed = stream_->flush();
    // Over the stream nobody acknowledges: what the system has taken is on its way.
    if (over_stream_ && close_sent_ && flushed.ok()) close_acknowledged_ = true;
    const Status status = stream_->receive(type, stream_frame_);
    if (status.code() == StatusCode::kWouldBlock) return moved;
    moved = true;
    if (!status.ok()) {
      handle_stream_end(now);
      return true;
    }
    if (type == bootstrap::FrameType::kControl) {
      accept_control(stream_frame_, now);
    } else if (type == bootstrap::FrameType::kRefuse) {
      fail(Status(StatusCode::kNetwork, StatusOrigin::kPeer), -1, 0,
           "the peer gave up: " + bootstrap::printable(stream_frame_), now);
    } else {
      fail(Status(StatusCode::kProtocol), -1, 0,
           "the peer sent a message of the handshake after it", now);
    }
  }
  return moved;
}

void ChannelCore::handle_stream_end(TimePoint now) noexcept {
  stream_.reset();
  if (over_stream_) {
    const Link& control = links_[control_link()];
    fail(control.cause.ok() ? Status(StatusCode::kNetwork) : control.cause, -1, 0,
         "the peer is gone: its queue pair does not answer and its TCP connection is closed", now);
    return;
  }
  // The connection alone may die and traffic goes on; but when the peer is gone, this is the first
  // sign of it, so its device is asked at once.
  last_proof_of_life_ = now - options_.keepalive_interval;
}

}  // namespace braid
