// The two ends of a queue pair that is replaced again and again, with every order of failures and
// messages: they agree on which generation is used, and never use different ones.
#include "channel/lane_link.h"

#include <gtest/gtest.h>

#include <deque>

namespace braid::channel {
namespace {

using Phase = LaneLink::Phase;

struct Message {
  bool down = false;  // else ready
  std::uint32_t generation = 0;
  bootstrap::QpAddress next;
};

struct Side {
  LaneLink link;
  std::deque<Message> to_peer;
  std::uint32_t qpn = 100;  // of the queue pair in use or prepared
  std::uint32_t connected_to = 200;
  std::uint32_t connected_generation = 0;

  void fail(TimePoint now) { (void)link.handle_failed(now); }
  void step(TimePoint now, Random& random) {
    switch (link.phase()) {
      case Phase::kDraining: {
        const std::uint32_t generation = link.generation();
        ++qpn;
        to_peer.push_back({true, generation, {qpn, 1}});
        link.on_replaced(now, random);
        break;
      }
      case Phase::kPausing:
        if (now < link.resume_at()) break;
        connected_to = link.peer_next().qpn;
        connected_generation = link.generation();
        link.on_connected();
        to_peer.push_back({false, link.generation(), {}});
        break;
      default: break;
    }
  }
  bool hear(const Message& message, TimePoint now, Random& random) {
    return message.down ? link.handle_peer_down(message.generation, message.next, now, random)
                        : link.handle_peer_ready(message.generation);
  }
};

TEST(LaneLink, AnyOrderOfFailuresAndMessages_BothEndUpOnTheSameQueuePairs) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    Random random(seed);
    Side a, b;
    b.qpn = 200;
    b.connected_to = 100;
    TimePoint now{};
    int failures = 40;
    for (int step = 0; step < 20'000; ++step) {
      now += std::chrono::milliseconds(1);
      Side& side = random.below(2) == 0 ? a : b;
      Side& other = &side == &a ? b : a;
      switch (random.below(6)) {
        case 0:
          if (failures > 0 && random.below(4) == 0) {
            --failures;
            side.fail(now);
          }
          break;
        case 1:
        case 2: side.step(now, random); break;
        case 3:
          // A probe comes back only when both are connected to one another.
          if (side.link.phase() == Phase::kProbing) {
            if (other.link.receives() && other.connected_generation == side.connected_generation) {
              ASSERT_EQ(side.connected_to, other.qpn);
              ASSERT_EQ(other.connected_to, side.qpn);
              side.link.on_probed(now);
            }
          }
          break;
        default:
          if (!other.to_peer.empty()) {
            ASSERT_TRUE(side.hear(other.to_peer.front(), now, random)) << "seed " << seed;
            other.to_peer.pop_front();
          }
      }
      const auto apart = static_cast<std::int32_t>(a.link.generation() - b.link.generation());
      ASSERT_LE(apart < 0 ? -apart : apart, 1);
    }
    EXPECT_TRUE(a.link.up() && b.link.up()) << "seed " << seed;
    EXPECT_EQ(a.link.generation(), b.link.generation());
    EXPECT_EQ(a.connected_to, b.qpn);
    EXPECT_EQ(b.connected_to, a.qpn);
    EXPECT_GE(a.link.generation(), 1U);
  }
}

TEST(LaneLink, WhatNoPeerSays_IsRefusedAndChangesNothing) {
  Random random(1);
  LaneLink link;
  EXPECT_FALSE(link.handle_peer_ready(0)) << "it is ready already";
  EXPECT_FALSE(link.handle_peer_down(1, {5, 5}, TimePoint{}, random)) << "not yet";
  EXPECT_TRUE(link.up());
  EXPECT_TRUE(link.handle_peer_down(0, {5, 5}, TimePoint{}, random));
  EXPECT_EQ(link.phase(), Phase::kDraining);
  EXPECT_FALSE(link.handle_peer_down(0, {6, 6}, TimePoint{}, random)) << "twice";
  EXPECT_EQ(link.peer_next().qpn, 5U);
  EXPECT_FALSE(link.handle_peer_ready(0)) << "after down";
  link.on_replaced(TimePoint{}, random);
  EXPECT_EQ(link.generation(), 1U);
  EXPECT_FALSE(link.handle_peer_ready(0)) << "of the old one";
  EXPECT_FALSE(link.handle_peer_ready(2)) << "of one to come";
  EXPECT_TRUE(link.handle_peer_ready(1));
  EXPECT_FALSE(link.handle_peer_ready(1)) << "twice";
}

// Fault: A23
// Fault: B20
TEST(LaneLink, RepeatedFailures_PauseLongerUpToALimitAndNeverGiveUp) {
  Random random(2);
  LaneLink link;
  TimePoint now{};
  Duration longest{0};
  for (std::uint32_t attempt = 1; attempt <= 1000; ++attempt) {
    ASSERT_TRUE(link.handle_failed(now));
    link.on_replaced(now, random);
    ASSERT_TRUE(link.handle_peer_down(link.generation(), {5, 5}, now, random));
    const Duration pause = link.resume_at() - now;
    if (attempt == 1) {
      EXPECT_EQ(pause, Duration(0));
    }
    if (attempt == 2) {
      EXPECT_GE(pause, std::chrono::microseconds(7500));
      EXPECT_LE(pause, std::chrono::microseconds(12500));
    }
    longest = std::max(longest, pause);
    now = link.resume_at();
    link.on_connected();
  }
  EXPECT_GT(longest, std::chrono::milliseconds(1500));
  EXPECT_LE(longest, std::chrono::milliseconds(2500));
  // Once it has been up for long, the first attempt follows at once again.
  ASSERT_TRUE(link.handle_peer_ready(link.generation()));
  link.on_probed(now);
  now += std::chrono::seconds(5);
  ASSERT_TRUE(link.handle_failed(now));
  link.on_replaced(now, random);
  ASSERT_TRUE(link.handle_peer_down(link.generation(), {5, 5}, now, random));
  EXPECT_EQ(link.resume_at(), now);
}

}  // namespace
}  // namespace braid::channel
