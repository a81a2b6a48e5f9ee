#include <algorithm>

#include "channel/channel_core.h"

namespace braid {

using channel::LaneSet;
using channel::Repather;

namespace {

// Looks per ChannelOptions::repath_after.
constexpr int kLooks = 8;
constexpr std::uint16_t kFirstPort = 49'152;
constexpr std::uint64_t kPorts = 16'384;

}  // namespace

void ChannelCore::advance_repath(TimePoint now) noexcept {
  if (moving_lane_ != LaneSet::kNone) {
    finish_move(now);
  } else if (now >= watch_rates_at_) {
    watch_rates(now);
  }
}

void ChannelCore::watch_rates(TimePoint now) noexcept {
  const Duration interval = options_.repath_after / kLooks;
  watch_rates_at_ = now + interval;
  const bool busy = sender_.operations().active_count() > 0;
  // A program that looked away for long learnt nothing meanwhile.
  if (busy && rates_watched_at_ != kNever) {
    busy_time_ += std::min(now - rates_watched_at_, 2 * interval);
  }
  rates_watched_at_ = busy ? now : kNever;
  if (!busy) return;
  std::array<double, kMaxLanes> rates{};
  for (std::uint32_t lane = 0; lane < options_.lanes; ++lane) {
    if (links_[lane].state.up()) rates[lane] = sender_.scheduler().rate(lane);
  }
  const Repather::Decision decision =
      repather_.observe({rates.data(), options_.lanes}, TimePoint(busy_time_));
  if (decision.verdict == Repather::Verdict::kStay) return;
  begin_move(decision.lane, decision.verdict == Repather::Verdict::kMoveBack, now);
}

void ChannelCore::begin_move(std::uint32_t lane, bool back, TimePoint now) noexcept {
  Link& entry = links_[lane];
  if (!entry.state.up()) return abandon_move(lane);
  const std::uint16_t before = source_ports_[lane].verified != 0 ? source_ports_[lane].verified
                                                                 : source_ports_[lane].requested;
  if (back && entry.port_before == 0) return abandon_move(lane);
  entry.moved_port =
      back ? entry.port_before : static_cast<std::uint16_t>(kFirstPort + random_.below(kPorts));
  entry.port_before = before;
  moving_lane_ = lane;
  move_begun_at_ = now;
  sender_.suspend(lane);
  fetcher_.suspend(lane);
}

void ChannelCore::finish_move(TimePoint now) noexcept {
  const std::uint32_t lane = moving_lane_;
  Link& entry = links_[lane];
  // A queue pair that changes its port with packets under way would reorder them.
  if (lanes_[lane].sends() > 0 || lanes_[lane].segments_staged() || lanes_[lane].fetches_staged()) {
    return;
  }
  const auto report =
      verbs::request_source_port(device_->api(), lanes_[lane].qp(), rc_options(lane));
  moving_lane_ = LaneSet::kNone;
  const bool moved = report && report->means == verbs::SourcePortMeans::kModify;
  if (!moved && (report || report.error().code() != StatusCode::kPermission) && options_.heal) {
    // The device cannot in RTS: the next queue pair begins with the port.
    const std::uint16_t port = entry.moved_port;
    begin_recovery(lane, Status(), 0, "its path is much slower than the others", now);
    entry.moved_port = port;
    ++entry.moves;
    return;
  }
  sender_.resume(lane);
  fetcher_.resume(lane);
  if (!moved) {
    entry.moved_port = 0;  // taken or forbidden: it stays where it is
    return abandon_move(lane);
  }
  source_ports_[lane] = *report;
  ++entry.moves;
  repather_.on_moved(TimePoint(busy_time_));
  ChannelEvent event;
  event.kind = ChannelEvent::Kind::kLaneMoved;
  event.lane = lane;
  event.generation = entry.state.generation();
  event.duration = now - move_begun_at_;
  event.source_port = entry.moved_port;
  if (!events_.push(event)) ++stats_.events_dropped;
}

void ChannelCore::abandon_move(std::uint32_t lane) noexcept {
  repather_.on_abandoned(lane, TimePoint(busy_time_));
  if (moving_lane_ == lane) moving_lane_ = LaneSet::kNone;
}

}  // namespace braid
