#include <infiniband/verbs.h>

#include <algorithm>
#include <utility>

#include "channel/channel_core.h"
#include "channel/completion_status.h"

namespace braid {

using channel::WorkKind;

namespace {

// How long the device may take to flush what was posted when the channel failed.
constexpr Duration kFlushTimeout = std::chrono::seconds(5);
// A lane may be silent for so many times its usual time between two completions.
constexpr int kUsualGaps = 8;
constexpr std::uint32_t kMostDoublings = 6;
// A channel that has completed nothing yet has no usual time.
constexpr Duration kFirstCompletion = std::chrono::seconds(2);

}  // namespace

void ChannelCore::check_liveness(TimePoint now) noexcept {
  const Duration limit = options_.segment_timeout;
  const TimePoint oldest = std::min(sender_.oldest_post_time(), fetcher_.oldest_post_time());
  if (limit > Duration(0) && oldest != kNever && now - oldest > limit) {
    fail(Status(StatusCode::kTimeout), -1, 0,
         "a segment or fetch got no completion within ChannelOptions::segment_timeout", now);
    return;
  }
  check_stalls(now);
  if (state_ == ChannelState::kOpen) keep_alive(now);
}

void ChannelCore::check_stalls(TimePoint now) noexcept {
  if (links_down_ == 0 || sender_.operations().active_count() == 0 || completed_any_) {
    stalled_since_ = now;
    completed_any_ = false;
  } else if (now - stalled_since_ > options_.recovery_timeout) {
    const Link* worst = links_.get();
    while (worst->state.up()) ++worst;
    const auto link = static_cast<std::uint32_t>(worst - links_.get());
    fail(worst->cause.ok() ? Status(StatusCode::kTimeout) : worst->cause, lane_number(link), 0,
         "it could not be replaced and nothing got through within "
         "ChannelOptions::recovery_timeout",
         now);
    return;
  }
  const Duration limit = options_.lane_timeout;
  if (limit == Duration(0) || !options_.heal || now < stall_check_at_) return;
  stall_check_at_ = now + limit / 8;
  // While something else gets an answer, it is not the peer, nor this program, that stands still.
  const bool alive = now - last_proof_of_life_ < limit / 2;
  for (std::uint32_t lane = 0; lane < options_.lanes; ++lane) {
    if (!links_[lane].state.up() || !silent(lane, now)) continue;
    if (!alive) {
      want_sign_of_life_ = true;
      return;
    }
    begin_recovery(lane, Status(StatusCode::kTimeout), 0,
                   "nothing completed within ChannelOptions::lane_timeout while the peer answers "
                   "elsewhere",
                   now);
    return;
  }
}

Duration ChannelCore::patience(std::uint32_t lane) const noexcept {
  Duration gap = sender_.lane_counts(lane).usual_gap;
  // A lane that has completed nothing yet is measured by what the others are used to.
  for (std::uint32_t i = 0; gap == Duration(0) && i < options_.lanes; ++i) {
    gap = sender_.lane_counts(i).usual_gap;
  }
  const Duration usual = gap == Duration(0) ? kFirstCompletion : gap * kUsualGaps;
  // Longer each time in vain, so that a path that is merely slow gets the time it needs.
  const std::uint32_t doublings = std::min(links_[lane].state.attempts(), kMostDoublings);
  return std::max(options_.lane_timeout, usual) * (1U << doublings);
}

bool ChannelCore::silent(std::uint32_t lane, TimePoint now) const noexcept {
  const Duration limit = patience(lane);
  if (sender_.scheduler().outstanding(lane) > 0 &&
      now - sender_.lane_counts(lane).progress_at > limit) {
    return true;
  }
  return fetcher_.outstanding(lane) > 0 &&
         now - fetcher_.lane_counts(lane).progress_at > std::max(limit, kFirstCompletion);
}

void ChannelCore::keep_alive(TimePoint now) noexcept {
  const std::uint32_t link = control_link();
  if (!links_[link].state.up()) return;
  // The queue pair of control messages has no others like it to be compared with.
  const TimePoint oldest =
      std::min(control_sent_at_, keepalive_under_way_ ? keepalive_sent_at_ : kNever);
  if (options_.heal && options_.lane_timeout > Duration(0) && oldest != kNever &&
      now - oldest > std::max(options_.lane_timeout, kFirstCompletion)) {
    begin_recovery(link, Status(StatusCode::kTimeout), 0,
                   "a control message or keepalive was not acknowledged in time", now);
    return;
  }
  if (keepalive_under_way_) return;
  const bool due = options_.keepalive_interval > Duration(0) &&
                   now - last_proof_of_life_ >= options_.keepalive_interval;
  if (!due && !want_sign_of_life_) return;
  want_sign_of_life_ = false;
  const int error = lanes_[link].post_empty_write(WorkKind::kKeepalive);
  if (error != 0) {
    begin_recovery(link, Status::from_verbs(StatusCode::kInternal, error), 0,
                   "a keepalive cannot be posted", now);
    return;
  }
  keepalive_under_way_ = true;
  keepalive_sent_at_ = now;
  ++stats_.keepalives;
}

bool ChannelCore::peer_closed() const noexcept {
  return peer_close_received_ && receiver_.delivered() == peer_final_sequences_;
}

void ChannelCore::update_closed() noexcept {
  if (state_ != ChannelState::kOpen || !close_acknowledged_ || !peer_closed()) return;
  state_ = ChannelState::kClosed;
}

void ChannelCore::describe_failure(Status status, int lane, std::uint32_t vendor_error,
                                   const std::string& what) noexcept {
  const bool on_lane = lane >= 0;
  const Link& link = links_[on_lane ? static_cast<std::uint32_t>(lane) : control_link()];
  error_.status = status;
  error_.lane = lane;
  error_.qpn = link.ours.qpn;
  error_.peer_qpn = link.theirs.qpn;
  error_.device = device_->name();
  error_.local_address = device_->address();
  error_.peer_address = peer_address_;
  error_.source_port = on_lane && connected_
                           ? source_ports_[static_cast<std::size_t>(lane)].verified
                           : std::uint16_t{0};
  error_.vendor_error = vendor_error;
  error_.text = on_lane ? "lane " + std::to_string(lane) : std::string("control queue pair");
  error_.text += " (QPN " + std::to_string(error_.qpn) + " on " + error_.device + " " +
                 error_.local_address + ", peer QPN " + std::to_string(error_.peer_qpn) + " at " +
                 error_.peer_address + "): " + what;
  if (vendor_error != 0) error_.text += ", vendor error " + std::to_string(vendor_error);
}

void ChannelCore::fail(Status status, int lane, std::uint32_t vendor_error, const std::string& what,
                       TimePoint now) noexcept {
  if (state_ != ChannelState::kOpen) return;
  // Once both sides have said that nothing follows, the peer may go at any moment.
  if (close_sent_ && peer_closed()) {
    // But it may not have heard our farewell, and would wait for it.
    if (!close_acknowledged_ && stream_ != nullptr) {
      over_stream_ = true;
      resend_unconfirmed(now);
      (void)stream_->flush();
    }
    state_ = ChannelState::kClosed;
    return;
  }
  state_ = ChannelState::kFailed;
  fail_deadline_ = now + kFlushTimeout;
  describe_failure(status, lane, vendor_error, what);
  if (stream_ != nullptr) {
    // A courtesy: the peer also finds its queue pairs dead.
    const std::string_view text =
        std::string_view(error_.text).substr(0, bootstrap::kMaxReasonBytes);
    stream_->send(bootstrap::FrameType::kRefuse, std::as_bytes(std::span(text)));
    (void)stream_->flush();
    stream_.reset();
  }
  // In ERR nothing reads or writes memory any more, and everything posted is flushed.
  for (std::uint32_t link = 0; link < link_count(); ++link) {
    if (lanes_[link].qp() != nullptr) (void)verbs::to_error(device_->api(), lanes_[link].qp());
  }
  sender_.fail(status);
  fetcher_.fail(status);
  for (std::uint32_t lane_index = 0; lane_index < options_.lanes; ++lane_index) {
    lanes_[lane_index].drop_staged([&](std::uint64_t wr_id) { end_work(wr_id, status, now); });
    // The completions of a queue pair that was being replaced were taken already, or are with it.
    if (links_[lane_index].state.up()) continue;
    sender_.end_lane(lane_index, status, now);
    fetcher_.end_lane(lane_index, status, now);
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
