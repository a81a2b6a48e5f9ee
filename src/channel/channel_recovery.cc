#include <infiniband/verbs.h>

#include <algorithm>
#include <utility>

#include "channel/channel_core.h"
#include "channel/completion_status.h"

namespace braid {

using channel::LaneLink;
using channel::WorkKind;

namespace {

// A device gives everything back at once when a queue pair is in error. One that does not loses
// the queue pair, and with it what it still holds.
constexpr Duration kDrainTimeout = std::chrono::milliseconds(500);
// After a queue pair could not be made.
constexpr Duration kCreatePause = std::chrono::milliseconds(100);
constexpr Duration kProbeTimeout = std::chrono::milliseconds(500);

}  // namespace

void ChannelCore::handle_send_error(std::uint32_t link, const ibv_wc& completion,
                                    TimePoint now) noexcept {
  const WorkKind kind = channel::kind_of(completion.wr_id);
  const bool data = kind == WorkKind::kSegment || kind == WorkKind::kFetch;
  if (kind == WorkKind::kControlSend) --control_sends_;
  if (kind == WorkKind::kKeepalive) keepalive_under_way_ = false;
  const Status status = Status::from_completion(completion.status);
  if (state_ == ChannelState::kOpen) {
    const std::string what = channel::describe(completion.status);
    if (channel::is_fault_of_request(completion.status)) {
      fail(status, lane_number(link), completion.vendor_err, what, now);
    } else {
      begin_recovery(link, status, completion.vendor_err, what, now);
    }
  }
  // In a channel that heals, what a dead queue pair carried is not lost: it stays under way until
  // it is known whether it arrived.
  if (state_ != ChannelState::kOpen && data && links_[link].state.up()) {
    end_work(completion.wr_id, error_.status, now);
  }
}

void ChannelCore::begin_recovery(std::uint32_t link, Status cause, std::uint32_t vendor_error,
                                 const std::string& what, TimePoint now) noexcept {
  if (state_ != ChannelState::kOpen) return;
  const bool control = link == control_link();
  if (!options_.heal || (control && stream_ == nullptr)) {
    fail(cause, lane_number(link), vendor_error, what, now);
    return;
  }
  const bool was_up = links_[link].state.up();
  if (!links_[link].state.handle_failed(now)) return;
  if (was_up) {
    links_[link].cause = cause;
    ++links_down_;
  }
  drain(link, now);
}

void ChannelCore::drain(std::uint32_t link, TimePoint now) noexcept {
  Link& entry = links_[link];
  entry.drain_deadline = now + kDrainTimeout;
  // What is due of the old generation says nothing any more; the question is asked anew.
  entry.ready_due = entry.query_due = false;
  entry.probe_posted = entry.probe_back = false;
  ++stats_.lane_failures;
  // What it moved to may be what failed.
  entry.moved_port = entry.port_before = 0;
  if (link != control_link()) abandon_move(link);
  (void)verbs::to_error(device_->api(), lanes_[link].qp());
  if (link == control_link()) {
    give_notice(ChannelEvent::Kind::kControlDown, link, entry.cause, 0, Duration(0));
    over_stream_ = true;
    resend_unconfirmed(now);
    return;
  }
  give_notice(ChannelEvent::Kind::kLaneDown, link, entry.cause, 0, Duration(0));
  sender_.suspend(link);
  fetcher_.suspend(link);
  lanes_[link].drop_staged([&](std::uint64_t wr_id) {
    // Segments stay under way, since only the peer's answer ends them; a part that was never
    // posted is simply given to another lane.
    if (channel::kind_of(wr_id) == WorkKind::kFetch &&
        !fetcher_.take_back(channel::number_of(wr_id), link)) {
      ++stats_.unknown_completions;
    }
  });
}

bool ChannelCore::advance_links(TimePoint now) noexcept {
  bool moved = false;
  for (std::uint32_t link = 0; link < link_count() && state_ == ChannelState::kOpen; ++link) {
    Link& entry = links_[link];
    const LaneLink::Phase before = entry.state.phase();
    switch (before) {
      case LaneLink::Phase::kUp: continue;
      case LaneLink::Phase::kDraining:
        if (lanes_[link].idle() || now >= entry.drain_deadline) replace(link, now);
        break;
      case LaneLink::Phase::kPausing:
        // The peer must hear *down* before anything of the next generation.
        if (!entry.down_due && now >= entry.state.resume_at()) reconnect(link, now);
        break;
      case LaneLink::Phase::kProbing: probe(link, now); break;
      case LaneLink::Phase::kWaiting:
      case LaneLink::Phase::kConnected: break;
    }
    moved = moved || entry.state.phase() != before;
  }
  return moved;
}

void ChannelCore::replace(std::uint32_t link, TimePoint now) noexcept {
  Link& entry = links_[link];
  // Destroyed before the next is made: a channel that fails often needs no more than one that does
  // not, and what the device still holds of it goes with it.
  if (lanes_[link].qp() != nullptr) {
    device_->api().destroy_qp(lanes_[link].qp());
    lanes_[link].bind(nullptr, link, lanes_[link].tag());
    if (link == control_link()) {
      control_sends_ = 0;
      control_sent_at_ = kNever;
      keepalive_under_way_ = false;
    } else {
      // No answer of the peer can reach local memory any more.
      fetcher_.fail_over(link);
    }
  }
  std::string why;
  if (!create_link(link, why).ok()) {
    if (lanes_[link].qp() != nullptr) device_->api().destroy_qp(lanes_[link].qp());
    lanes_[link].bind(nullptr, link, lanes_[link].tag());
    entry.drain_deadline = now + kCreatePause;
    return;
  }
  entry.down_generation = entry.state.generation();
  entry.down_due = true;
  entry.state.on_replaced(now, random_);
  if (entry.state.phase() == LaneLink::Phase::kPausing) resolve(link);
}

void ChannelCore::reconnect(std::uint32_t link, TimePoint now) noexcept {
  Link& entry = links_[link];
  entry.theirs = entry.state.peer_next();
  std::string why;
  const Status status = bring_up(link, why);
  if (!status.ok()) {
    entry.cause = status;
    begin_recovery(link, status, 0, why, now);
    return;
  }
  if (link != control_link()) receiver_.reset_lane(link);
  entry.state.on_connected();
  entry.ready_due = true;
}

void ChannelCore::probe(std::uint32_t link, TimePoint now) noexcept {
  Link& entry = links_[link];
  if (entry.probe_back) {
    // The scheduler counts a lane's segments until each is known to be done or given to another.
    if (!entry.resolving) admit(link, now);
    return;
  }
  if (entry.probe_posted) {
    if (now >= entry.probe_deadline) {
      begin_recovery(link, Status(StatusCode::kTimeout), 0, "the probe did not come back", now);
    }
    return;
  }
  // A lane that is up has nothing to say any more: *ready* goes first.
  if (entry.ready_due) return;
  const int error = lanes_[link].post_empty_write(WorkKind::kProbe);
  if (error != 0) {
    begin_recovery(link, Status::from_verbs(StatusCode::kInternal, error), 0,
                   "a probe cannot be posted", now);
    return;
  }
  entry.probe_posted = true;
  entry.probe_deadline = now + kProbeTimeout;
}

void ChannelCore::admit(std::uint32_t link, TimePoint now) noexcept {
  Link& entry = links_[link];
  entry.state.on_probed(now);
  --links_down_;
  ++stats_.lane_recoveries;
  const Duration duration = now - entry.state.down_since();
  if (link == control_link()) {
    over_stream_ = false;
    resend_unconfirmed(now);
    give_notice(ChannelEvent::Kind::kControlUp, link, Status(), 0, duration);
    return;
  }
  sender_.resume(link);
  fetcher_.resume(link);
  give_notice(ChannelEvent::Kind::kLaneUp, link, Status(), 0, duration);
}

void ChannelCore::resolve(std::uint32_t link) noexcept {
  if (link == control_link()) return;
  Link& entry = links_[link];
  std::array<channel::Sequence, channel::kQuerySegments> sequences;
  const std::size_t count = sender_.under_way_on(link, sequences);
  const bool began = entry.resolving;
  entry.resolving = count > 0;
  if (count == 0) {
    if (began) {
      give_notice(ChannelEvent::Kind::kLaneReplayed, link, Status(), entry.replayed, Duration(0));
    }
    entry.replayed = 0;
    return;
  }
  entry.query.lane = link;
  entry.query.generation = entry.state.generation();
  entry.query.count = static_cast<std::uint32_t>(count);
  for (std::size_t i = 0; i < count; ++i) entry.query.sequences[i] = sequences[i].value();
  entry.query_due = true;
}

void ChannelCore::give_notice(ChannelEvent::Kind kind, std::uint32_t link, Status status,
                              std::uint32_t segments, Duration duration) noexcept {
  ChannelEvent event;
  event.kind = kind;
  event.lane = link == control_link() ? 0 : link;
  event.generation = links_[link].state.generation();
  event.status = status;
  event.segments = segments;
  event.duration = duration;
  if (!events_.push(event)) ++stats_.events_dropped;
}

std::size_t ChannelCore::poll_events(std::span<ChannelEvent> out) noexcept {
  std::size_t count = 0;
  for (; count < out.size() && !events_.empty(); events_.pop()) out[count++] = events_.front();
  return count;
}

}  // namespace braid
