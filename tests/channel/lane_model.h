#pragma once

#include <algorithm>
#include <cstdint>
#include <queue>
#include <vector>

#include "channel/sender.h"

namespace braid::test {

/// A sender over lanes that are nothing but a rate and a round trip, in virtual time: each lane
/// sends its segments one after another and acknowledges each a round trip after its last byte.
/// Receives never run out. So the only thing that matters is what the scheduler decides.
class LaneModel {
 public:
  LaneModel(std::vector<double> bytes_per_second, SchedulerPolicy policy,
            Duration round_trip = std::chrono::microseconds(20))
      : rates_(std::move(bytes_per_second)),
        policy_(policy),
        round_trip_(round_trip),
        free_at_(rates_.size()),
        counts_(rates_.size()),
        sender_(config()) {
    for (std::uint32_t lane = 0; lane < rates_.size(); ++lane) sender_.renew_credits(lane);
  }

  /// Sends `bytes` and waits for the end; seconds that it took.
  double put(std::uint64_t bytes) {
    begin(bytes);
    return run_until_delivered(bytes);
  }
  void begin(std::uint64_t bytes) {
    channel::Operation operation;
    operation.total_bytes = bytes;
    operation.policy = policy_;
    (void)sender_.accept(operation);
    delivered_ = 0;
    post();
  }
  /// Runs until so much of the put that began last is acknowledged; seconds.
  double run_until_delivered(std::uint64_t bytes) {
    const TimePoint begin = now_;
    const std::uint64_t before = delivered_;
    while (delivered_ < bytes && step()) continue;
    in_last_run_ = delivered_ - before;
    Completion completion;
    while (sender_.operations().poll(completion)) continue;
    return seconds(now_ - begin);
  }
  void run_for(Duration time) {
    const TimePoint end = now_ + time;
    while (!events_.empty() && events_.top().at <= end) (void)step();
    now_ = std::max(now_, end);
  }
  void set_rate(std::uint32_t lane, double bytes_per_second) { rates_[lane] = bytes_per_second; }

  /// Seconds that `bytes` take when every lane is busy to the end.
  [[nodiscard]] double fluid_seconds(std::uint64_t bytes) const {
    double sum = 0;
    for (const double rate : rates_) sum += rate;
    return static_cast<double>(bytes) / sum + seconds(round_trip_);
  }
  [[nodiscard]] Duration round_trip() const { return round_trip_; }
  [[nodiscard]] std::uint64_t delivered_in_last_run() const { return in_last_run_; }
  [[nodiscard]] std::uint64_t segments() const { return sender_.sequences_used(); }
  [[nodiscard]] std::uint64_t segments_of(std::uint32_t lane) const { return counts_[lane]; }

 private:
  struct Event {
    TimePoint at;
    std::uint64_t order;
    channel::SegmentPost post;
    friend bool operator<(const Event& a, const Event& b) {
      return a.at != b.at ? a.at > b.at : a.order > b.order;
    }
  };

  [[nodiscard]] channel::Sender::Config config() const {
    channel::Sender::Config config;
    config.lanes = static_cast<std::uint32_t>(rates_.size());
    config.peer_receive_depth = 1U << 20U;
    return config;
  }
  static double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }

  void post() {
    channel::SegmentPost segment;
    while (sender_.next(segment, now_)) {
      const double time = static_cast<double>(segment.bytes) / rates_[segment.lane];
      TimePoint& free_at = free_at_[segment.lane];
      free_at = std::max(free_at, now_) + Duration(static_cast<Duration::rep>(time * 1e9));
      events_.push({free_at + round_trip_, order_++, segment});
      ++counts_[segment.lane];
    }
  }
  bool step() {
    if (events_.empty()) return false;
    const Event event = events_.top();
    events_.pop();
    now_ = event.at;
    (void)sender_.handle_completion(event.post.imm.sequence, event.post.lane, Status(), now_);
    (void)sender_.handle_delivered(sender_.sequences_used() - sender_.inflight_segments());
    delivered_ += event.post.bytes;
    post();
    return true;
  }

  std::vector<double> rates_;
  SchedulerPolicy policy_;
  Duration round_trip_;
  std::vector<TimePoint> free_at_;
  std::vector<std::uint64_t> counts_;
  channel::Sender sender_;
  std::priority_queue<Event> events_;
  TimePoint now_{};
  std::uint64_t order_ = 0;
  std::uint64_t delivered_ = 0;
  std::uint64_t in_last_run_ = 0;
};

}  // namespace braid::test
