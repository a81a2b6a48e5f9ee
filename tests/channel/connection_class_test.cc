// Classes of connections by distance: seed S2's table and formula, at each limit and one past it.
#include "channel/connection_class.h"

#include <gtest/gtest.h>

#include <string>

#include "base/random.h"

namespace braid::channel {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kRate = 50'000'000'000;  // bytes per second, of the seed's examples
constexpr std::uint32_t kKiB = 1U << 10U;
constexpr std::uint32_t kMiB = 1U << 20U;

// Requirement: 55
TEST(ConnectionClass, SegmentsToFill_TheSeedsExamples_AreMet) {
  EXPECT_EQ(segments_to_fill(kRate, 5us, 64 * kKiB), 4U);
  EXPECT_EQ(segments_to_fill(kRate, 20us, 64 * kKiB), 16U);
  EXPECT_EQ(segments_to_fill(kRate, 1ms, kMiB), 48U);
  EXPECT_EQ(segments_to_fill(kRate, 10ms, kMiB), 477U);
}

TEST(ConnectionClass, SegmentsToFill_AtAWholeNumberAndOnePast_RoundsUp) {
  EXPECT_EQ(segments_to_fill(1'000'000'000, 4096ns, 1024), 4U);
  EXPECT_EQ(segments_to_fill(1'000'000'000, 4097ns, 1024), 5U);
  // A fraction of a byte beyond counts as well.
  EXPECT_EQ(segments_to_fill(1'000'000'001, 4096ns, 1024), 5U);
  EXPECT_EQ(segments_to_fill(0, 1ms, 1024), 1U);
  EXPECT_EQ(segments_to_fill(kRate, Duration(-1), 1024), 1U);
}

TEST(ConnectionClass, SegmentsToFill_TheLargestInput_DoesNotOverflow) {
  EXPECT_EQ(segments_to_fill(1'000'000'000'000'000'000, 10s, 1), 10'000'000'000'000'000'000U);
  EXPECT_EQ(segments_to_fill(UINT64_MAX, Duration::max(), 1), 10'000'000'000'000'000'000U);
  EXPECT_EQ(segments_to_fill(999'999'999'999'999'999, 10s, 1), 9'999'999'999'999'999'990U);
}

// Requirement: 57
TEST(ConnectionClass, FabricIds_GiveTheClass) {
  EXPECT_EQ(class_of(FabricId{1, 2}, FabricId{1, 2}), ConnectionClass::kRackLocal);
  EXPECT_EQ(class_of(FabricId{1, 2}, FabricId{1, 3}), ConnectionClass::kCrossRack);
  EXPECT_EQ(class_of(FabricId{1, 2}, FabricId{2, 2}), ConnectionClass::kCrossDc);
  EXPECT_EQ(class_of(FabricId{1, 2}, FabricId{2, 3}), ConnectionClass::kCrossDc);
}

// Requirement: 57
TEST(ConnectionClass, RailAtTheLimit_IsRefused_SinceItWouldBeOneOfTheNextDataCenter) {
  EXPECT_EQ(encode_fabric_id({2, 7}, 8), 23U);
  EXPECT_FALSE(encode_fabric_id({2, 8}, 8));
  EXPECT_FALSE(encode_fabric_id({0, 0}, 0));
  EXPECT_FALSE(decode_fabric_id(23, 0));
  EXPECT_EQ(encode_fabric_id({UINT32_MAX, 0}, 1), UINT32_MAX);
  EXPECT_FALSE(encode_fabric_id({UINT32_MAX / 8 + 1, 0}, 8)) << "more than 32 bits";
}

// Requirement: 57
TEST(ConnectionClass, AnyNumber_DecodedAndEncoded_IsTheSameNumber) {
  Random random(57);
  for (int i = 0; i < 10'000; ++i) {
    const auto number = static_cast<std::uint32_t>(random.below(std::uint64_t{1} << 32U));
    const auto rails = static_cast<std::uint32_t>(1 + random.below(300));
    const auto id = decode_fabric_id(number, rails);
    ASSERT_TRUE(id);
    ASSERT_LT(id->rail, rails);
    ASSERT_EQ(encode_fabric_id(*id, rails), number);
  }
}

// Requirement: 57
TEST(ConnectionClass, FabricPort_WellFormed_IsTakenApart) {
  const auto port = parse_fabric_port("mlx5_0:1:23", 8);
  ASSERT_TRUE(port);
  EXPECT_EQ(port->device, "mlx5_0");
  EXPECT_EQ(port->port, 1);
  EXPECT_EQ(port->fabric, (FabricId{2, 7}));
  EXPECT_TRUE(parse_fabric_port("a:255:4294967295", 8));
  EXPECT_TRUE(parse_fabric_port("a:1:0", 1));
}

// Requirement: 57
TEST(ConnectionClass, FabricPort_AnythingElse_IsRefused) {
  for (const char* text : {"",
                           ":",
                           "::",
                           "a",
                           "a:1",
                           "a:1:",
                           ":1:0",
                           "a::0",
                           "a:0:0",
                           "a:256:0",
                           "a:1:4294967296",
                           "a:1:-1",
                           "a:+1:0",
                           "a: 1:0",
                           "a b:1:0",
                           " a:1:0",
                           "a:1:0 ",
                           "a:1:0:",
                           "a:1:0:0",
                           "a:1:0x1",
                           "a\x7f:1:0",
                           "a\xc3\xa9:1:0"}) {
    EXPECT_FALSE(parse_fabric_port(text, 8)) << text;
  }
  EXPECT_FALSE(parse_fabric_port(std::string_view("a\0:1:0", 6), 8));
  EXPECT_FALSE(parse_fabric_port("a:1:0", 0));
}

void expect_class(Duration round_trip, ConnectionClass nearest, bool outside) {
  const RttClass got = class_of(round_trip);
  EXPECT_EQ(got.nearest, nearest) << round_trip.count() << " ns";
  EXPECT_EQ(got.outside, outside) << round_trip.count() << " ns";
}

// Requirement: 56
TEST(ConnectionClass, RoundTrip_AtEachLimitAndOnePast) {
  expect_class(0ns, ConnectionClass::kRackLocal, false);
  expect_class(4999ns, ConnectionClass::kRackLocal, false);
  expect_class(5us, ConnectionClass::kCrossRack, false);
  expect_class(20us, ConnectionClass::kCrossRack, false);
  expect_class(20'001ns, ConnectionClass::kCrossRack, true);
  expect_class(510us, ConnectionClass::kCrossRack, true);
  expect_class(510'001ns, ConnectionClass::kCrossDc, true);
  expect_class(999'999ns, ConnectionClass::kCrossDc, true);
  expect_class(1ms, ConnectionClass::kCrossDc, false);
  expect_class(10ms, ConnectionClass::kCrossDc, false);
  expect_class(10'000'001ns, ConnectionClass::kCrossDc, true);
}

ClassPlan plan_of(ConnectionClass assumed, Duration round_trip) {
  ClassRequest request;
  request.assumed = assumed;
  request.round_trip = round_trip;
  request.bytes_per_second = kRate;
  return plan_connection(request);
}

// Requirement: 55, 56
TEST(ConnectionClass, Outstanding_StaysWithinTheClass) {
  // 10 ms want 477, the class has 256 at most; 1 ms wants 48, it has 64 at least.
  const ClassPlan far = plan_of(ConnectionClass::kCrossDc, 10ms);
  EXPECT_EQ(far.wanted_outstanding, 477U);
  EXPECT_EQ(far.outstanding, 256U);
  const ClassPlan near = plan_of(ConnectionClass::kCrossDc, 1ms);
  EXPECT_EQ(near.wanted_outstanding, 48U);
  EXPECT_EQ(near.outstanding, 64U);
  // In between the formula holds.
  EXPECT_EQ(plan_of(ConnectionClass::kCrossRack, 20us).outstanding, 16U);
  EXPECT_EQ(plan_of(ConnectionClass::kCrossDc, 2ms).outstanding, 96U);
}

// Requirement: 56
TEST(ConnectionClass, NothingMeasured_TheClassOfTheFabricIdsHoldsWithItsLeast) {
  const auto check = [](ConnectionClass assumed, std::uint32_t lanes, std::uint32_t outstanding,
                        std::uint32_t segment_bytes) {
    ClassRequest request;
    request.assumed = assumed;
    const ClassPlan plan = plan_connection(request);
    EXPECT_EQ(plan.connection_class, assumed);
    EXPECT_EQ(plan.lanes, lanes);
    EXPECT_EQ(plan.outstanding, outstanding);
    EXPECT_EQ(plan.segment_bytes, segment_bytes);
    EXPECT_FALSE(plan.corrected || plan.outside);
  };
  check(ConnectionClass::kRackLocal, 4, 4, 64 * kKiB);
  check(ConnectionClass::kCrossRack, 8, 8, 64 * kKiB);
  check(ConnectionClass::kCrossDc, 16, 64, kMiB);
}

// Requirement: 56
TEST(ConnectionClass, MeasuredRoundTrip_CorrectsTheAssumptionAndSaysSo) {
  const ClassPlan same = plan_of(ConnectionClass::kCrossRack, 10us);
  EXPECT_FALSE(same.corrected || same.outside);
  const ClassPlan other = plan_of(ConnectionClass::kRackLocal, 2ms);
  EXPECT_EQ(other.connection_class, ConnectionClass::kCrossDc);
  EXPECT_TRUE(other.corrected);
  EXPECT_FALSE(other.outside);
  const ClassPlan gap = plan_of(ConnectionClass::kCrossRack, 300us);
  EXPECT_EQ(gap.connection_class, ConnectionClass::kCrossRack);
  EXPECT_FALSE(gap.corrected);
  EXPECT_TRUE(gap.outside);
}

TEST(ConnectionClass, SettledValues_HoldWhateverTheClassAllows) {
  ClassRequest request;
  request.assumed = ConnectionClass::kRackLocal;
  request.round_trip = 2ms;
  request.bytes_per_second = kRate;
  request.connection_class = ConnectionClass::kRackLocal;
  ClassPlan plan = plan_connection(request);
  EXPECT_EQ(plan.connection_class, ConnectionClass::kRackLocal);
  EXPECT_FALSE(plan.corrected);
  EXPECT_EQ(plan.outstanding, 8U);
  request.lanes = 1;
  request.outstanding = 1000;
  request.segment_bytes = 128;
  plan = plan_connection(request);
  EXPECT_EQ(plan.lanes, 1U);
  EXPECT_EQ(plan.outstanding, 1000U);
  EXPECT_EQ(plan.segment_bytes, 128U);
}

// Requirement: 55, 56
TEST(ConnectionClass, AnyRequest_StaysWithinTheLimitsOfItsClass) {
  Random random(56);
  for (int i = 0; i < 20'000; ++i) {
    ClassRequest request;
    request.assumed = static_cast<ConnectionClass>(random.below(3));
    if (random.below(4) != 0) {
      request.round_trip = Duration(static_cast<Duration::rep>(random.below(20'000'000)));
    }
    request.bytes_per_second = random.below(100'000'000'000);
    const ClassPlan plan = plan_connection(request);
    const ClassLimits limits = limits_of(plan.connection_class);
    ASSERT_GE(plan.lanes, limits.least_lanes);
    ASSERT_LE(plan.lanes, limits.most_lanes);
    ASSERT_GE(plan.outstanding, limits.least_outstanding);
    ASSERT_LE(plan.outstanding, limits.most_outstanding);
    ASSERT_EQ(plan.corrected, plan.connection_class != request.assumed);
  }
}

}  // namespace
}  // namespace braid::channel
