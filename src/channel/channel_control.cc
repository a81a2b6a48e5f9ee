#include <infiniband/verbs.h>

#include <algorithm>
#include <utility>

#include "channel/channel_core.h"

namespace braid {

using channel::ControlMessage;
using channel::ControlType;
using channel::WorkKind;

namespace {

// How long the device may take to flush what was posted when the channel failed.
constexpr Duration kFlushTimeout = std::chrono::seconds(5);

// Work completion statuses in the words of whoever has to find the cause.
const char* explain(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "the peer's device does not answer: it is gone, unreachable, or this path loses "
             "everything";
    case IBV_WC_RNR_RETRY_EXC_ERR: return "the peer posted no receives in time";
    case IBV_WC_REM_ACCESS_ERR:
      return "the peer's region does not allow this range or access, or its registration is gone";
    case IBV_WC_REM_OP_ERR: return "the peer's device failed the operation";
    case IBV_WC_REM_INV_REQ_ERR: return "the peer's device takes the request for invalid";
    case IBV_WC_LOC_PROT_ERR:
      return "the local region does not cover the range or belongs to another device";
    case IBV_WC_WR_FLUSH_ERR:
      return "the queue pair went into error: the peer broke a rule, or its device was closed";
    default: return "the device failed the work request";
  }
}

}  // namespace

void ChannelCore::handle_control(std::uint32_t slot, std::uint32_t bytes, TimePoint now) noexcept {
  if (slot >= channel::ControlBudget::kReceives) {
    ++stats_.unknown_completions;
    return;
  }
  const std::byte* data =
      control_buffer_.get() + (kControlSendSlots + slot) * channel::kControlSlotBytes;
  ControlMessage message;
  Status status = channel::decode(std::span(data, bytes), options_.lanes, message);
  if (status.ok()) status = apply_control(message);
  if (!status.ok()) {
    fail(status, -1, 0, "the peer sent a control message that no peer of ours sends", now);
    return;
  }
  const int error = post_control_receive(slot);
  if (error != 0) {
    fail(Status::from_verbs(StatusCode::kInternal, error), -1, 0,
         "a receive of the control queue pair cannot be posted again", now);
    return;
  }
  budget_.on_received();
}

Status ChannelCore::apply_control(const ControlMessage& message) noexcept {
  const Status impossible(StatusCode::kProtocol);
  if (!budget_.on_confirmed(message.control_received)) return impossible;
  if (!sender_.handle_delivered(message.delivered)) return impossible;
  for (std::uint32_t lane = 0; lane < options_.lanes; ++lane) {
    if (!sender_.handle_granted(lane, message.receives_posted[lane])) return impossible;
  }
  if (message.type == ControlType::kClose) {
    // Only a farewell bounds what may have arrived: segments overtake other control messages.
    if (message.sequences_used < receiver_.delivered()) return impossible;
    peer_close_received_ = true;
    peer_final_sequences_ = message.sequences_used;
  }
  return Status();
}

int ChannelCore::post_control_receive(std::uint32_t slot) noexcept {
  const std::byte* data =
      control_buffer_.get() + (kControlSendSlots + slot) * channel::kControlSlotBytes;
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(data),
              static_cast<std::uint32_t>(channel::kControlSlotBytes), control_mr_->lkey};
  ibv_recv_wr wr{};
  wr.wr_id = channel::make_wr_id(WorkKind::kControlReceive, channel::kControlLane, slot);
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(control_qp_, &wr, &bad);
}

bool ChannelCore::send_control(TimePoint now) noexcept {
  const bool close_due =
      close_requested_ && !close_sent_ && sender_.operations().active_count() == 0;
  const bool ordinary = (close_due || receiver_.grant_due()) && budget_.may_send();
  if (!ordinary && !budget_.must_confirm()) return false;
  if (control_sends_ == kControlSendSlots) return false;

  ControlMessage message;
  message.type = close_sent_ || (close_due && ordinary) ? ControlType::kClose : ControlType::kState;
  message.control_received = budget_.received();
  message.delivered = receiver_.delivered();
  message.sequences_used = sender_.sequences_used();
  message.lane_count = options_.lanes;
  for (std::uint32_t lane = 0; lane < options_.lanes; ++lane) {
    message.receives_posted[lane] = receiver_.posted(lane);
  }
  // Sends of one QP complete in order, so the slot after the newest is the oldest and free.
  std::byte* data = control_buffer_.get() + control_send_next_ * channel::kControlSlotBytes;
  const std::size_t bytes = channel::encode(message, {data, channel::kControlSlotBytes});
  ibv_sge sge{reinterpret_cast<std::uintptr_t>(data), static_cast<std::uint32_t>(bytes),
              control_mr_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = channel::make_wr_id(WorkKind::kControlSend, channel::kControlLane, control_send_next_);
  wr.opcode = IBV_WR_SEND;
  wr.send_flags = IBV_SEND_SIGNALED;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(control_qp_, &wr, &bad);
  if (error != 0) {
    fail(Status::from_verbs(StatusCode::kInternal, error), -1, 0,
         "a control message cannot be posted", now);
    return true;
  }
  control_send_next_ = (control_send_next_ + 1) % kControlSendSlots;
  ++control_sends_;
  budget_.on_sent();
  receiver_.on_granted();
  if (message.type == ControlType::kClose) close_sent_ = true;
  return true;
}

void ChannelCore::check_liveness(TimePoint now) noexcept {
  const Duration limit = options_.segment_timeout;
  const TimePoint oldest = std::min(sender_.oldest_post_time(), fetcher_.oldest_post_time());
  if (limit > Duration(0) && oldest != kNever && now - oldest > limit) {
    fail(Status(StatusCode::kTimeout), -1, 0,
         "a segment or fetch got no completion within ChannelOptions::segment_timeout", now);
    return;
  }
  if (options_.keepalive_interval <= Duration(0) || keepalive_under_way_) return;
  if (now - last_proof_of_life_ < options_.keepalive_interval) return;
  // A write of nothing: the peer's device acknowledges it without a receive, a key or a program.
  ibv_send_wr wr{};
  wr.wr_id = channel::make_wr_id(WorkKind::kKeepalive, channel::kControlLane, 0);
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(control_qp_, &wr, &bad);
  if (error != 0) {
    fail(Status::from_verbs(StatusCode::kInternal, error), -1, 0, "a keepalive cannot be posted",
         now);
    return;
  }
  keepalive_under_way_ = true;
  ++stats_.keepalives;
}

bool ChannelCore::peer_closed() const noexcept {
  return peer_close_received_ && receiver_.delivered() == peer_final_sequences_;
}

void ChannelCore::update_closed() noexcept {
  if (state_ != ChannelState::kOpen || !close_acknowledged_ || !peer_closed()) return;
  state_ = ChannelState::kClosed;
}

void ChannelCore::fail_completion(const ibv_wc& completion, TimePoint now) noexcept {
  if (state_ == ChannelState::kFailed) return;
  const std::uint32_t lane = channel::lane_of(completion.wr_id);
  std::string what = explain(completion.status);
  what += " (work completion status " + std::to_string(completion.status) + ", " +
          ibv_wc_status_str(completion.status) + ")";
  fail(Status::from_completion(completion.status),
       lane < options_.lanes ? static_cast<int>(lane) : -1, completion.vendor_err, what, now);
}

void ChannelCore::fail(Status status, int lane, std::uint32_t vendor_error, const std::string& what,
                       TimePoint now) noexcept {
  if (state_ != ChannelState::kOpen) return;
  // Once both sides have said that nothing follows, the peer may go at any moment.
  if (close_sent_ && peer_closed()) {
    state_ = ChannelState::kClosed;
    return;
  }
  state_ = ChannelState::kFailed;
  fail_deadline_ = now + kFlushTimeout;
  const bool on_lane = lane >= 0;
  const auto index = static_cast<std::size_t>(on_lane ? lane : 0);
  const bootstrap::QpAddress& ours = on_lane ? lane_addresses_[index] : control_address_;
  const bool connected = !peer_addresses_.empty();
  const bootstrap::QpAddress theirs = !connected ? bootstrap::QpAddress{}
                                      : on_lane  ? peer_addresses_[index]
                                                 : peer_control_address_;
  error_.status = status;
  error_.lane = lane;
  error_.qpn = ours.qpn;
  error_.peer_qpn = theirs.qpn;
  error_.device = device_->name();
  error_.local_address = device_->address();
  error_.peer_address = peer_address_;
  error_.source_port = on_lane && connected ? source_ports_[index].verified : std::uint16_t{0};
  error_.vendor_error = vendor_error;
  error_.text = on_lane ? "lane " + std::to_string(lane) : std::string("control queue pair");
  error_.text += " (QPN " + std::to_string(error_.qpn) + " on " + error_.device + " " +
                 error_.local_address + ", peer QPN " + std::to_string(error_.peer_qpn) + " at " +
                 error_.peer_address + "): " + what;
  if (vendor_error != 0) error_.text += ", vendor error " + std::to_string(vendor_error);

  // In ERR nothing reads or writes memory any more, and everything posted is flushed.
  for (std::uint32_t i = 0; i < options_.lanes; ++i) {
    (void)verbs::to_error(device_->api(), lanes_[i].qp());
  }
  (void)verbs::to_error(device_->api(), control_qp_);
  sender_.fail(status);
  fetcher_.fail(status);
  for (std::uint32_t i = 0; i < options_.lanes; ++i) {
    lanes_[i].drop_staged([&](std::uint64_t wr_id) { end_work(wr_id, status, now); });
  }
}

bool ChannelCore::progress_failed(TimePoint now) noexcept {
  // Flushed segments give their memory back; what the device never flushes ends at the deadline.
  bool moved = poll_sends(now);
  if (sender_.operations().active_count() == 0) return moved;
  if (now >= fail_deadline_) {
    sender_.abandon();
    fetcher_.abandon();
    moved = true;
  }
  return moved;
}

}  // namespace braid
