// A lane that is much slower than the others tries another source port, and nothing is lost by it.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "channel/channel_bed.h"

namespace braid {
namespace {

constexpr std::uint64_t kBytes = 1U << 20U;
constexpr std::uint32_t kSlowLane = 3;

class ChannelRepath : public test::ChannelBed {
 protected:
  void prepare(Duration repath_after) {
    open();
    source = &allocate(kBytes);
    target = &allocate(kBytes);
    test::fill(*source, 1);
    ChannelOptions options;
    options.segment_bytes = 4096;
    options.source_ports = {50'001, 50'002, 50'003, 50'004};
    options.repath_after = repath_after;
    options.lane_timeout = Duration(0);
    options.exports = {target->remote()};
    join(options);
  }
  /// Keeps sending for so many turns, while the slow lane's queue pair moves every 20th turn only.
  void send_with_a_slow_lane(int turns) {
    std::array<Completion, 32> completions;
    std::array<Notification, 32> notifications;
    std::array<ChannelEvent, 64> polled;
    for (int i = 0; i < turns; ++i) {
      const std::uint32_t qpn = a->lane_stats(kSlowLane).qpn;
      if (a->lane_stats(kSlowLane).up) verbs.hold(qpn, i % 20 != 0);
      if (a->put(source->range(0, kBytes), a->remote_memories()[0].range(0, kBytes),
                 {.notify = {1}})) {
        ++puts;
      }
      turn();
      const std::size_t count = a->poll_completions(completions);
      for (std::size_t k = 0; k < count; ++k) EXPECT_TRUE(completions[k].status.ok());
      completed += count;
      notified += b->poll_notifications(notifications);
      const std::size_t seen = a->poll_events(polled);
      events.insert(events.end(), polled.begin(),
                    polled.begin() + static_cast<std::ptrdiff_t>(seen));
    }
    const std::uint32_t qpn = a->lane_stats(kSlowLane).qpn;
    if (a->lane_stats(kSlowLane).up) verbs.hold(qpn, false);
    for (int i = 0; i < 20'000 && completed + notified < 2 * puts; ++i) {
      turn();
      completed += a->poll_completions(completions);
      notified += b->poll_notifications(notifications);
    }
    EXPECT_EQ(completed, puts);
    EXPECT_EQ(notified, puts);
    EXPECT_EQ(std::memcmp(source->data(), target->data(), kBytes), 0);
    EXPECT_EQ(b->stats().duplicate_segments, 0U);
    EXPECT_EQ(a->state(), ChannelState::kOpen);
  }
  [[nodiscard]] std::size_t count_of(ChannelEvent::Kind kind) const {
    return static_cast<std::size_t>(
        std::count_if(events.begin(), events.end(),
                      [&](const ChannelEvent& event) { return event.kind == kind; }));
  }

  Memory* source = nullptr;
  Memory* target = nullptr;
  std::size_t puts = 0, completed = 0, notified = 0;
  std::vector<ChannelEvent> events;
};

TEST_F(ChannelRepath, SlowLane_TriesAnotherPortAndComesBackWhenThatGainsNothing) {
  prepare(std::chrono::milliseconds(2));
  send_with_a_slow_lane(1000);
  const LaneStats lane = a->lane_stats(kSlowLane);
  EXPECT_GE(lane.moves, 2U);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].kind, ChannelEvent::Kind::kLaneMoved);
  EXPECT_EQ(events[0].lane, kSlowLane);
  EXPECT_GE(events[0].source_port, 49'152);
  // The path did not become quicker, so every move was taken back.
  ASSERT_GE(events.size(), 2U);
  EXPECT_EQ(events[1].source_port, 50'004);
  EXPECT_EQ(count_of(ChannelEvent::Kind::kLaneMoved), lane.moves);
  EXPECT_EQ(a->stats().lane_failures, 0U);
  for (std::uint32_t other = 0; other < kSlowLane; ++other) {
    EXPECT_EQ(a->lane_stats(other).moves, 0U);
  }
}

TEST_F(ChannelRepath, ByDefault_NoLaneMoves) {
  prepare(ChannelOptions().repath_after);
  send_with_a_slow_lane(1000);
  EXPECT_EQ(a->lane_stats(kSlowLane).moves, 0U);
  EXPECT_TRUE(events.empty());
}

TEST_F(ChannelRepath, DeviceThatCannotInRts_GetsANewQueuePairWithThePort) {
  prepare(std::chrono::milliseconds(2));
  verbs.offer_source_ports = false;
  send_with_a_slow_lane(1000);
  const LaneStats lane = a->lane_stats(kSlowLane);
  EXPECT_GE(lane.moves, 1U);
  EXPECT_GE(lane.generation, 1U);
  EXPECT_EQ(count_of(ChannelEvent::Kind::kLaneMoved), 0U);
  EXPECT_GE(count_of(ChannelEvent::Kind::kLaneDown), 1U);
}

}  // namespace
}  // namespace braid
