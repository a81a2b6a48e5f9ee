#include "softverbs/udp_driver.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "net/udp_driver_node.h"

namespace braid::softverbs {
namespace {

using testing::Node;

constexpr std::chrono::seconds kDeadline{20};
constexpr std::uint16_t kPortA = 0xC0A0;
constexpr std::uint16_t kPortB = 0xC0B0;

enum class Poller { kDrives, kLooksOnly };

/// Waits for `count` completions of a node, each successful. With kLooksOnly nobody but the
/// devices' own threads moves packets.
::testing::AssertionResult await(Node& node, std::size_t count, Poller poller) {
  const auto give_up = std::chrono::steady_clock::now() + kDeadline;
  std::size_t got = 0;
  while (got < count) {
    ibv_wc wc{};
    if (node.cq.poll(1, &wc) == 1) {
      if (wc.status != IBV_WC_SUCCESS) {
        return ::testing::AssertionFailure() << "status " << wc.status << " after " << got;
      }
      ++got;
      continue;
    }
    if (std::chrono::steady_clock::now() > give_up) {
      return ::testing::AssertionFailure() << "only " << got << " of " << count;
    }
    if (poller == Poller::kDrives) {
      node.driver->drive();
    } else {
      std::this_thread::yield();
    }
  }
  return ::testing::AssertionSuccess();
}

void fill(Node& node, std::uint8_t start) {
  for (std::size_t i = 0; i < node.buffer.size(); ++i) {
    node.buffer[i] = static_cast<std::uint8_t>(start + i * 7 + i / 4096);
  }
}

struct Pair {
  explicit Pair(const SoftDeviceOptions& of_a = {}, std::size_t buffer_bytes = 1U << 20U)
      : a(of_a, buffer_bytes), b({}, buffer_bytes) {
    a.connect(b, kPortA);
    b.connect(a, kPortB);
  }
  Node a;
  Node b;
};

TEST(UdpDriver, PollingInitiator_WritesIntoAPassivePeer) {
  Pair pair;
  fill(pair.a, 3);
  ASSERT_EQ(pair.a.post_write(pair.b, 1, 0, 1U << 20U), 0);
  ASSERT_TRUE(await(pair.a, 1, Poller::kDrives));
  EXPECT_EQ(pair.a.buffer, pair.b.buffer);
}

TEST(UdpDriver, NobodyPolls_TheDevicesThreadsDoTheWork) {
  Pair pair;
  fill(pair.a, 9);
  for (std::uint32_t i = 0; i < 64; ++i) {
    ASSERT_EQ(pair.a.post_write(pair.b, i, i * 16384U, 16384), 0);
  }
  ASSERT_TRUE(await(pair.a, 64, Poller::kLooksOnly));
  EXPECT_EQ(pair.a.buffer, pair.b.buffer);
}

TEST(UdpDriver, PollerThatStops_LeavesNothingUnsent) {
  // Posts behind the first of a series wait for the poller; here it never comes back.
  Pair pair;
  fill(pair.a, 5);
  for (std::uint32_t round = 0; round < 20; ++round) {
    for (int i = 0; i < 200; ++i) pair.a.driver->drive();
    for (std::uint32_t i = 0; i < 40; ++i) {
      ASSERT_EQ(pair.a.post_write(pair.b, i, (round * 40U + i) * 8U, 8), 0);
    }
    ASSERT_TRUE(await(pair.a, 40, Poller::kLooksOnly)) << "round " << round;
  }
  EXPECT_TRUE(std::equal(pair.a.buffer.begin(), pair.a.buffer.begin() + 20 * 40 * 8,
                         pair.b.buffer.begin()));
}

TEST(UdpDriver, BothPoll_WritesGoBothWays) {
  Pair pair;
  fill(pair.a, 1);
  const auto work = [](Node& from, Node& to, std::size_t offset) {
    for (std::uint32_t i = 0; i < 500; ++i) {
      ASSERT_EQ(from.post_write(to, i, offset + (i % 2) * 4096U, 4096), 0);
      ASSERT_TRUE(await(from, 1, Poller::kDrives));
    }
  };
  std::thread other([&] { work(pair.b, pair.a, 65536); });
  work(pair.a, pair.b, 0);
  other.join();
}

TEST(UdpDriver, ArmedQueue_GetsItsEventWithoutPolls) {
  Pair pair;
  for (int i = 0; i < 200; ++i) pair.a.driver->drive();  // earns the lease
  for (int round = 1; round <= 20; ++round) {
    {
      const std::lock_guard lock(pair.a.driver->mutex());
      pair.a.cq.arm(false);
      pair.a.driver->on_armed();
    }
    ASSERT_EQ(pair.a.post_write(pair.b, 1, 0, 8), 0);
    const auto give_up = std::chrono::steady_clock::now() + kDeadline;
    while (pair.a.events.completion_events.load() < round) {
      ASSERT_LT(std::chrono::steady_clock::now(), give_up);
      std::this_thread::yield();
    }
    ASSERT_TRUE(await(pair.a, 1, Poller::kLooksOnly));
  }
}

TEST(UdpDriver, BadPath_DeliversEveryByteAllTheSame) {
  SoftDeviceOptions options;
  options.seed = 42;
  PathImpairment bad;
  bad.source_port = kPortA;
  bad.loss_ppm = 20'000;
  bad.duplicate_ppm = 20'000;
  bad.reorder_ppm = 20'000;
  bad.corrupt_ppm = 20'000;
  bad.delay = std::chrono::microseconds(50);
  options.impairments = {bad};
  Pair pair(options, 4U << 20U);
  fill(pair.a, 77);
  for (std::uint32_t i = 0; i < 64; ++i) {
    ASSERT_EQ(pair.a.post_write(pair.b, i, i * 65536U, 65536), 0);
  }
  ASSERT_TRUE(await(pair.a, 64, Poller::kDrives));
  EXPECT_EQ(pair.a.buffer, pair.b.buffer);
  const std::lock_guard lock(pair.a.driver->mutex());
  const PathShaperCounters counters = pair.a.driver->shaper_counters();
  EXPECT_GT(counters.lost, 0U);
  EXPECT_GT(counters.corrupted, 0U);
  EXPECT_GT(pair.a.driver->engine().counters().retransmitted_packets, 0U);
}

TEST(UdpDriver, Rate_SlowsItsPortOnly) {
  SoftDeviceOptions options;
  PathImpairment slow;
  slow.source_port = kPortA;
  slow.rate_bits_per_s = 80'000'000;  // 1 MiB takes 105 ms
  options.impairments = {slow};
  const auto run_on = [&](std::uint16_t port) {
    Node a(options);
    Node b;
    a.connect(b, port);
    b.connect(a, kPortB);
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(a.post_write(b, 1, 0, 1U << 20U), 0);
    EXPECT_TRUE(await(a, 1, Poller::kDrives));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    const std::lock_guard lock(a.driver->mutex());
    return std::pair(seconds.count(), a.driver->shaper_counters().packets);
  };
  const auto [slow_seconds, slow_packets] = run_on(kPortA);
  EXPECT_GE(slow_seconds, (1U << 20U) * 8.0 / 80e6);
  EXPECT_GE(slow_packets, 256U);
  EXPECT_EQ(run_on(kPortA + 1).second, 0U);
}

// Fault: A28
TEST(UdpDriver, Destruction_InTheMiddleOfTraffic_IsPrompt) {
  for (int round = 0; round < 20; ++round) {
    auto pair = std::make_unique<Pair>();
    for (std::uint32_t i = 0; i < 16; ++i) {
      ASSERT_EQ(pair->a.post_write(pair->b, i, 0, 1U << 20U), 0);
    }
    if (round % 2 == 0) {
      for (int i = 0; i < 20; ++i) pair->a.driver->drive();
    }
    const auto start = std::chrono::steady_clock::now();
    pair.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5));
  }
}

TEST(UdpDriver, BadOptions_AreRefusedWithAReason) {
  testing::CountingEvents events;
  std::string error;
  SoftDeviceOptions options;
  PathImpairment impairment;
  impairment.loss_ppm = 2'000'000;
  options.impairments = {impairment};
  EXPECT_EQ(UdpDriver::create(options, events, &error).error().code(),
            StatusCode::kInvalidArgument);
  EXPECT_NE(error.find("impairments"), std::string::npos) << error;

  const Node other;
  options = {};
  options.address = "127.254.7.7";
  const Node first(options);
  EXPECT_EQ(UdpDriver::create(options, events, &error).error().detail(), EADDRINUSE);
  EXPECT_NE(error.find("127.254.7.7:4791"), std::string::npos) << error;
}

TEST(UdpDriver, SourcePortOfAnotherAddress_IsRefused) {
  const Node node;
  const Node other;
  const std::lock_guard lock(node.driver->mutex());
  EXPECT_EQ(node.driver->open_source_port(other.ip(), kPortA).code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace braid::softverbs
