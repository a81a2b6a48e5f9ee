#include "softverbs/path_shaper.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

namespace braid::softverbs {
namespace {

using std::chrono::microseconds;

constexpr std::uint16_t kPort = 0xC001;
constexpr std::size_t kPacketBytes = 1000;
constexpr TimePoint kStart{std::chrono::seconds(1)};

/// A shaper with its clock, a source of numbered packets and a drain that records what comes out.
class Bench {
 public:
  struct Arrival {
    TimePoint time;
    std::uint32_t number;
    std::uint16_t port;
    bool intact;
  };

  explicit Bench(const PathImpairment& impairment, std::uint64_t seed = 7)
      : Bench(std::vector<PathImpairment>{impairment}, seed) {}
  explicit Bench(const std::vector<PathImpairment>& impairments, std::uint64_t seed = 7)
      : shaper_(std::move(*PathShaper::create(impairments, seed))) {}

  PathShaper& shaper() { return *shaper_; }

  /// Sends one packet whose bytes follow from its number.
  void send(std::uint32_t number, TimePoint now, std::uint16_t port = kPort) {
    roce::FlowAddress flow;
    flow.source_port = port;
    const std::vector<std::uint8_t> bytes = bytes_of(number);
    roce::TxBatch batch(1);
    (void)batch.begin_packet(&flow);
    batch.add_piece(bytes.data(), 100);  // in two pieces, as headers and payload are
    batch.add_piece(bytes.data() + 100, kPacketBytes - 100);
    batch.end_packet(nullptr);
    ASSERT_TRUE(shaper_->applies_to(port));
    shaper_->admit(batch.packets()[0], batch.iovs(), now);
  }

  /// Jumps from deadline to deadline until nothing is left.
  std::vector<Arrival> run() {
    std::vector<Arrival> out;
    while (shaper_->next_deadline() != kNever) {
      const TimePoint now = shaper_->next_deadline();
      roce::TxBatch batch(4);
      shaper_->release(batch, now);
      EXPECT_FALSE(batch.empty()) << "a deadline at which nothing was due";
      for (const roce::TxPacket& packet : batch.packets()) {
        out.push_back(read(packet, batch.iovs(), now));
      }
    }
    return out;
  }

 private:
  static std::vector<std::uint8_t> bytes_of(std::uint32_t number) {
    std::vector<std::uint8_t> bytes(kPacketBytes);
    std::iota(bytes.begin(), bytes.end(), static_cast<std::uint8_t>(number));
    std::memcpy(bytes.data(), &number, sizeof(number));
    return bytes;
  }

  static Arrival read(const roce::TxPacket& packet, std::span<const iovec> iovs, TimePoint now) {
    std::vector<std::uint8_t> bytes;
    for (const iovec& piece : iovs.subspan(packet.first_iov, packet.iov_count)) {
      const auto* const data = static_cast<const std::uint8_t*>(piece.iov_base);
      bytes.insert(bytes.end(), data, data + piece.iov_len);
    }
    std::uint32_t number = 0;
    EXPECT_EQ(bytes.size(), kPacketBytes);
    std::memcpy(&number, bytes.data(), sizeof(number));
    return {now, number, packet.flow->source_port, bytes == bytes_of(number)};
  }

  std::unique_ptr<PathShaper> shaper_;
};

PathImpairment on_port(std::uint16_t port) {
  PathImpairment impairment;
  impairment.source_port = port;
  return impairment;
}

TEST(PathShaper, Create_RejectsWhatMakesNoSense) {
  const auto refuses = [](PathImpairment impairment) {
    const auto made = PathShaper::create(std::vector<PathImpairment>{impairment}, 1);
    return !made && made.error().code() == StatusCode::kInvalidArgument;
  };
  PathImpairment impairment = on_port(kPort);
  impairment.loss_ppm = 1'000'000;
  EXPECT_FALSE(refuses(impairment));
  impairment.loss_ppm = 1'000'001;
  EXPECT_TRUE(refuses(impairment));
  impairment = on_port(kPort);
  impairment.queue_packets = 0;
  EXPECT_TRUE(refuses(impairment));
  impairment = on_port(kPort);
  impairment.delay = Duration(-1);
  EXPECT_TRUE(refuses(impairment));
  const std::vector<PathImpairment> twice{on_port(kPort), on_port(kPort)};
  EXPECT_FALSE(PathShaper::create(twice, 1));
}

TEST(PathShaper, AppliesTo_OnlyPortsWithAnEntryUnlessThereIsOneForTheOthers) {
  Bench one(on_port(kPort));
  EXPECT_TRUE(one.shaper().applies_to(kPort));
  EXPECT_FALSE(one.shaper().applies_to(kPort + 1));
  EXPECT_FALSE(one.shaper().applies_to(0xFFFF));

  Bench others(std::vector<PathImpairment>{on_port(0), on_port(kPort)});
  EXPECT_TRUE(others.shaper().applies_to(kPort + 1));
}

TEST(PathShaper, Rate_SpacesPacketsByTheirSerialisation) {
  PathImpairment impairment = on_port(kPort);
  impairment.rate_bits_per_s = 8'000'000;  // 1000 bytes take 1 ms
  Bench bench(impairment);
  for (std::uint32_t i = 0; i < 5; ++i) bench.send(i, kStart);
  const auto arrivals = bench.run();
  ASSERT_EQ(arrivals.size(), 5U);
  for (std::uint32_t i = 0; i < 5; ++i) {
    EXPECT_EQ(arrivals[i].number, i);
    EXPECT_TRUE(arrivals[i].intact);
    EXPECT_EQ(arrivals[i].time, kStart + microseconds(1000) * (i + 1));
  }
}

TEST(PathShaper, Rate_IdleTimeIsNotSavedUp) {
  PathImpairment impairment = on_port(kPort);
  impairment.rate_bits_per_s = 8'000'000;
  Bench bench(impairment);
  bench.send(0, kStart);
  (void)bench.run();
  const TimePoint later = kStart + std::chrono::seconds(10);
  bench.send(1, later);
  bench.send(2, later);
  const auto arrivals = bench.run();
  ASSERT_EQ(arrivals.size(), 2U);
  EXPECT_EQ(arrivals[0].time, later + microseconds(1000));
  EXPECT_EQ(arrivals[1].time, later + microseconds(2000));
}

TEST(PathShaper, Rate_PathsDoNotSlowEachOther) {
  PathImpairment slow = on_port(kPort);
  slow.rate_bits_per_s = 8'000'000;
  PathImpairment fast = on_port(kPort + 1);
  fast.rate_bits_per_s = 80'000'000;
  Bench bench(std::vector<PathImpairment>{slow, fast});
  for (std::uint32_t i = 0; i < 10; ++i) {
    bench.send(i, kStart, kPort);
    bench.send(100 + i, kStart, kPort + 1);
  }
  TimePoint last_slow{};
  TimePoint last_fast{};
  for (const auto& arrival : bench.run()) {
    (arrival.port == kPort ? last_slow : last_fast) = arrival.time;
  }
  EXPECT_EQ(last_slow, kStart + microseconds(10'000));
  EXPECT_EQ(last_fast, kStart + microseconds(1'000));
}

TEST(PathShaper, Rate_PortsWithoutEntryShareOnePath) {
  PathImpairment others = on_port(0);
  others.rate_bits_per_s = 8'000'000;
  Bench bench(others);
  bench.send(0, kStart, 1000);
  bench.send(1, kStart, 2000);
  const auto arrivals = bench.run();
  ASSERT_EQ(arrivals.size(), 2U);
  EXPECT_EQ(arrivals[1].time, kStart + microseconds(2000));
}

TEST(PathShaper, Queue_DropsTheNewestBeyondItsLimitAndRecovers) {
  PathImpairment impairment = on_port(kPort);
  impairment.rate_bits_per_s = 8'000'000;
  impairment.queue_packets = 4;
  Bench bench(impairment);
  for (std::uint32_t i = 0; i < 4; ++i) bench.send(i, kStart);
  EXPECT_EQ(bench.shaper().counters().overflowed, 0U);
  bench.send(4, kStart);
  EXPECT_EQ(bench.shaper().counters().overflowed, 1U);
  auto arrivals = bench.run();
  ASSERT_EQ(arrivals.size(), 4U);
  EXPECT_EQ(arrivals.back().number, 3U);

  // Every slot has come back.
  for (std::uint32_t round = 0; round < 3; ++round) {
    const TimePoint now = kStart + std::chrono::seconds(1 + round);
    for (std::uint32_t i = 0; i < 4; ++i) bench.send(i, now);
    EXPECT_EQ(bench.run().size(), 4U);
  }
  EXPECT_EQ(bench.shaper().counters().overflowed, 1U);
}

TEST(PathShaper, Delay_AddsToEachPacketAndKeepsOrder) {
  PathImpairment impairment = on_port(kPort);
  impairment.delay = microseconds(250);
  Bench bench(impairment);
  for (std::uint32_t i = 0; i < 8; ++i) bench.send(i, kStart + microseconds(i / 4));
  const auto arrivals = bench.run();
  ASSERT_EQ(arrivals.size(), 8U);
  for (std::uint32_t i = 0; i < 8; ++i) {
    EXPECT_EQ(arrivals[i].number, i);
    EXPECT_EQ(arrivals[i].time, kStart + microseconds(250 + i / 4));
  }
}

TEST(PathShaper, Release_KeepsBackWhatIsNotDue) {
  PathImpairment impairment = on_port(kPort);
  impairment.delay = microseconds(10);
  Bench bench(impairment);
  bench.send(0, kStart);
  EXPECT_EQ(bench.shaper().next_deadline(), kStart + microseconds(10));
  roce::TxBatch batch(4);
  bench.shaper().release(batch, kStart + microseconds(10) - Duration(1));
  EXPECT_TRUE(batch.empty());
  bench.shaper().release(batch, kStart + microseconds(10));
  EXPECT_EQ(batch.size(), 1U);
  EXPECT_EQ(bench.shaper().next_deadline(), kNever);
}

TEST(PathShaper, Reorder_HeldBackPacketsFallBehindLaterOnes) {
  PathImpairment impairment = on_port(kPort);
  impairment.reorder_ppm = 300'000;
  impairment.reorder_delay = microseconds(50);
  Bench bench(impairment);
  for (std::uint32_t i = 0; i < 1000; ++i) bench.send(i, kStart + microseconds(10) * i);
  const auto arrivals = bench.run();
  ASSERT_EQ(arrivals.size(), 1000U);
  std::size_t late = 0;
  for (const auto& arrival : arrivals) {
    const TimePoint sent = kStart + microseconds(10) * arrival.number;
    const bool held_back = arrival.time == sent + microseconds(50);
    EXPECT_TRUE(held_back || arrival.time == sent);
    late += held_back ? 1 : 0;
  }
  EXPECT_EQ(late, bench.shaper().counters().reordered);
  EXPECT_NEAR(static_cast<double>(late), 300.0, 60.0);
  EXPECT_FALSE(std::is_sorted(arrivals.begin(), arrivals.end(),
                              [](const auto& a, const auto& b) { return a.number < b.number; }));
}

TEST(PathShaper, Faults_OccurAsOftenAsAskedAndAreCounted) {
  constexpr std::uint32_t kPackets = 4000;
  PathImpairment impairment = on_port(kPort);
  impairment.loss_ppm = 100'000;
  impairment.duplicate_ppm = 200'000;
  impairment.corrupt_ppm = 50'000;
  impairment.queue_packets = 2 * kPackets;
  Bench bench(impairment);
  for (std::uint32_t i = 0; i < kPackets; ++i) bench.send(i, kStart);
  const auto arrivals = bench.run();
  const PathShaperCounters& counters = bench.shaper().counters();
  EXPECT_EQ(counters.packets, kPackets);
  EXPECT_NEAR(static_cast<double>(counters.lost), 400.0, 80.0);
  EXPECT_NEAR(static_cast<double>(counters.duplicated), 720.0, 110.0);
  EXPECT_EQ(arrivals.size(), kPackets - counters.lost + counters.duplicated);
  const auto damaged = static_cast<std::uint64_t>(std::count_if(
      arrivals.begin(), arrivals.end(), [](const auto& arrival) { return !arrival.intact; }));
  EXPECT_EQ(damaged, counters.corrupted);
  EXPECT_GT(damaged, 100U);
}

TEST(PathShaper, Faults_CertainLossLetsNothingThrough) {
  PathImpairment impairment = on_port(kPort);
  impairment.loss_ppm = 1'000'000;
  Bench bench(impairment);
  for (std::uint32_t i = 0; i < 100; ++i) bench.send(i, kStart);
  EXPECT_EQ(bench.shaper().next_deadline(), kNever);
  EXPECT_EQ(bench.shaper().counters().lost, 100U);
}

TEST(PathShaper, Seed_SameSeedSameOutcomeOtherSeedOther) {
  PathImpairment impairment = on_port(kPort);
  impairment.loss_ppm = 200'000;
  impairment.reorder_ppm = 200'000;
  impairment.duplicate_ppm = 200'000;
  const auto outcome = [&](std::uint64_t seed) {
    Bench bench(impairment, seed);
    for (std::uint32_t i = 0; i < 200; ++i) bench.send(i, kStart + microseconds(i));
    std::vector<std::uint32_t> numbers;
    for (const auto& arrival : bench.run()) numbers.push_back(arrival.number);
    return numbers;
  };
  EXPECT_EQ(outcome(1), outcome(1));
  EXPECT_NE(outcome(1), outcome(2));
}

}  // namespace
}  // namespace braid::softverbs
