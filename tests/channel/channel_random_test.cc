// Puts in both directions at once, with every order of calls and deliveries that chance brings.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "channel/channel_bed.h"

namespace braid {
namespace {

constexpr std::uint64_t kBytes = 1U << 18U;

/// One direction, and what has to be true of it.
struct Direction {
  Channel* from;
  Channel* to;
  Memory* source;
  Memory* target;
  std::uint64_t sent = 0;
  std::vector<std::uint64_t> ends = {};  // of the puts with notification, in bytes
  std::size_t notified = 0;

  [[nodiscard]] bool done() const { return sent == kBytes && notified == ends.size(); }

  void put(Random& random) {
    if (sent == kBytes) return;
    const std::uint64_t bytes = std::min(kBytes - sent, random.below(9000));
    const bool last = sent + bytes == kBytes;
    const auto notify =
        static_cast<std::uint8_t>(last ? 1 : random.below(2) * (1 + ends.size() % 127));
    const RemoteRange remote = from->remote_memories()[0].range(sent, bytes);
    if (!from->put(source->range(sent, bytes), remote, {.notify = {notify}})) return;
    sent += bytes;
    if (notify != 0) ends.push_back(sent);
  }
  void poll() {
    std::array<Completion, 4> completions{};
    const std::size_t count = from->poll_completions(completions);
    for (std::size_t i = 0; i < count; ++i)
      ASSERT_TRUE(completions[i].status.ok()) << from->error().text << " / " << to->error().text;
    Notification notification;
    if (to->poll_notifications({&notification, 1}) == 0) return;
    // The contract: all bytes of every put before this notification are visible.
    ASSERT_LT(notified, ends.size());
    ASSERT_EQ(std::memcmp(source->data(), target->data(), ends[notified]), 0);
    ++notified;
  }
};

/// What may go wrong meanwhile.
struct Faults {
  std::uint32_t break_one_in = 0;  // steps; 0 = never
  int count = 0;                   // then all is well
  bool lose = false;               // queue pairs that break may have swallowed completions before
};

class ChannelRandom : public test::ChannelBed, public testing::WithParamInterface<std::uint64_t> {
 protected:
  void run(std::uint64_t seed, const Faults& faults);
  void misbehave(Random& random, const Faults& faults);
  void end_silence() {
    if (silent_qpn != 0) verbs.break_qp(silent_qpn, IBV_WC_RETRY_EXC_ERR);
    silent_qpn = 0;
  }
  void close_both(Random& random);

  std::uint32_t silent_qpn = 0;
  int faults_so_far = 0;
};

void ChannelRandom::misbehave(Random& random, const Faults& faults) {
  if (faults_so_far == faults.count) end_silence();
  if (faults_so_far == faults.count || random.below(faults.break_one_in) != 0) return;
  ++faults_so_far;
  if (random.below(3) == 0) end_silence();
  const std::uint32_t qpn = verbs.random_qpn(random);
  if (qpn == 0) return;
  switch (random.below(4)) {
    case 0:  // silent for a while; then the device finds out
      end_silence();
      verbs.hold(qpn, true);
      silent_qpn = qpn;
      return;
    case 1:
      if (faults.lose) verbs.lose_completions(qpn);
      return;
    case 2: verbs.refuse_qps(static_cast<int>(random.below(3))); break;
    default: break;
  }
  verbs.break_qp(qpn, random.below(2) == 0 ? IBV_WC_RETRY_EXC_ERR : IBV_WC_WR_FLUSH_ERR);
}

void ChannelRandom::close_both(Random& random) {
  Channel* both[2] = {a.get(), b.get()};
  end_silence();
  for (int i = 0; i < 200'000; ++i) {
    Channel& channel = *both[random.below(2)];
    now += std::chrono::microseconds(20);
    if (random.below(10) == 0) channel.close();
    channel.progress(now);
    (void)verbs.deliver_one(random);
    if (a->state() == ChannelState::kClosed && b->state() == ChannelState::kClosed) break;
  }
}

void ChannelRandom::run(std::uint64_t seed, const Faults& faults) {
  open();
  Random random(seed);
  Memory& a_source = allocate(kBytes);
  Memory& a_target = allocate(kBytes);
  Memory& b_source = allocate(kBytes);
  Memory& b_target = allocate(kBytes);
  test::fill(a_source, seed);
  test::fill(b_source, seed + 100);
  ChannelOptions left, right;
  left.lanes = right.lanes = static_cast<std::uint32_t>(1 + seed % 6);
  left.policy = static_cast<SchedulerPolicy>(seed / 6 % 4);
  right.policy = static_cast<SchedulerPolicy>(seed / 24 % 4);
  left.static_threshold_bytes = 700;
  left.segment_bytes = 1024;
  right.segment_bytes = 640;  // each side cuts as it likes
  left.window_segments = 16;
  right.window_segments = 256;
  left.lane_depth = 3;
  left.receive_depth = 5;
  right.receive_depth = 9;
  left.segment_timeout = right.segment_timeout = Duration(0);
  left.recovery_timeout = right.recovery_timeout = std::chrono::seconds(20);
  left.exports = {a_target.remote()};
  right.exports = {b_target.remote()};
  join(left, right);
  Direction ways[2] = {{a.get(), b.get(), &a_source, &b_target},
                       {b.get(), a.get(), &b_source, &a_target}};
  const auto step = std::chrono::microseconds(faults.break_one_in == 0 ? 1 : 20);
  for (int i = 0; i < 3'000'000 && !(ways[0].done() && ways[1].done()); ++i) {
    Direction& way = ways[random.below(2)];
    now += step;
    misbehave(random, faults);
    switch (random.below(5)) {
      case 0: way.put(random); break;
      case 1: way.from->progress(now); break;
      case 2: way.to->progress(now); break;
      case 3:
        for (std::uint64_t k = random.below(20); k > 0 && verbs.deliver_one(random); --k) continue;
        break;
      default: way.poll();
    }
    if (HasFatalFailure()) return;
  }
  ASSERT_TRUE(ways[0].done() && ways[1].done()) << a->error().text << " / " << b->error().text;
  close_both(random);
  for (Channel* channel : {a.get(), b.get()}) {
    EXPECT_EQ(channel->state(), ChannelState::kClosed) << channel->error().text;
    EXPECT_LT(channel->stats().reorder_high_water, 16U);
    EXPECT_EQ(channel->stats().duplicate_segments, 0U);
    EXPECT_EQ(channel->stats().unknown_completions, 0U);
  }
}

TEST_P(ChannelRandom, PutsBothWaysInAnyDeliveryOrder_BytesAndOrderHold) { run(GetParam(), {}); }

TEST_P(ChannelRandom, QueuePairsBreakAllTheTime_BytesAndOrderHoldAndNothingArrivesTwice) {
  run(GetParam(), {.break_one_in = 100, .count = 20});
}

TEST_P(ChannelRandom, DevicesThatLoseCompletions_BytesAndOrderHoldAndNothingArrivesTwice) {
  run(GetParam(), {.break_one_in = 100, .count = 5, .lose = true});
}

// BRAID_TEST_SEEDS=N in the environment runs the seeds below N.
std::uint64_t seed_count() {
  const char* wanted = std::getenv("BRAID_TEST_SEEDS");
  return wanted == nullptr ? 60 : std::strtoull(wanted, nullptr, 10);
}

INSTANTIATE_TEST_SUITE_P(Seeds, ChannelRandom, testing::Range<std::uint64_t>(0, seed_count()));

}  // namespace
}  // namespace braid
