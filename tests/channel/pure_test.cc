// Immediate codec, planner, control budget, operation table: each against a trivial
// model.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>
#include <vector>

#include "base/random.h"
#include "channel/control_budget.h"
#include "channel/control_message.h"
#include "channel/imm.h"
#include "channel/operation_table.h"
#include "channel/planner.h"

namespace braid::channel {
namespace {

TEST(Imm, FieldsLieWhereTheArchitectureSays) {
  EXPECT_EQ(encode_imm({Sequence(0), 0, false}), 0U);
  EXPECT_EQ(encode_imm({Sequence(0xFFFFFF), 0, false}), 0x00FFFFFFU);
  EXPECT_EQ(encode_imm({Sequence(0), 127, false}), 0x7F000000U);
  EXPECT_EQ(encode_imm({Sequence(0), 0, true}), 0x80000000U);
  EXPECT_EQ(encode_imm({Sequence(0x123456), 0x15, true}), 0x95123456U);
}

TEST(Imm, AnyWord_DecodedAndEncoded_IsTheSameWord) {
  Random random(1);
  for (int i = 0; i < 100'000; ++i) {
    const auto word = static_cast<std::uint32_t>(random.next());
    EXPECT_EQ(encode_imm(decode_imm(word)), word);
  }
}

// Requirement: 15
// Fault: A18, B24
TEST(Planner, AnyOperation_CutsAreAlignedContiguousAndWithinTheLimit) {
  Random random(2);
  for (int i = 0; i < 2000; ++i) {
    const auto requested = static_cast<std::uint32_t>(1 + random.below(1U << 20U));
    const auto port_max = static_cast<std::uint32_t>(128 + random.below(1U << 20U));
    const std::uint32_t segment = effective_segment_bytes(requested, port_max);
    const std::uint64_t total = random.below(20) * segment + random.below(segment + 1ULL);
    std::uint64_t offset = 0;
    for (int guard = 0; guard < 100; ++guard) {
      const Segment cut = plan_segment(total, offset, segment);
      ASSERT_EQ(cut.offset, offset);
      ASSERT_EQ(cut.offset % kCutAlignment, 0U);
      ASSERT_LE(cut.bytes, segment);
      offset += cut.bytes;
      if (cut.last) break;
      ASSERT_EQ(cut.bytes, segment);
    }
    ASSERT_EQ(offset, total);
  }
}

// Requirement: 15
// Fault: A14
TEST(Planner, Limits_AtAndOnePast) {
  EXPECT_TRUE(plan_segment(0, 0, 128).last);
  EXPECT_EQ(plan_segment(0, 0, 128).bytes, 0U);
  EXPECT_TRUE(plan_segment(128, 0, 128).last);
  EXPECT_FALSE(plan_segment(129, 0, 128).last);
  EXPECT_EQ(plan_segment(129, 128, 128).bytes, 1U);
  EXPECT_EQ(effective_segment_bytes(1U << 30U, UINT32_MAX), 1U << 30U);
  EXPECT_EQ(effective_segment_bytes((1U << 30U) + 128, UINT32_MAX), 1U << 30U);
  EXPECT_EQ(effective_segment_bytes(1 << 20, 1U << 16U), 1U << 16U);
  EXPECT_EQ(effective_segment_bytes(255, UINT32_MAX), 128U);
  EXPECT_EQ(effective_segment_bytes(1, UINT32_MAX), 128U);
}

// Requirement: 15
// Fault: A15
TEST(Planner, BeyondFourGigabytes_OffsetsKeepAllBits) {
  const std::uint64_t total = (5ULL << 30U) + 7;
  const Segment cut = plan_segment(total, 5ULL << 30U, 1U << 30U);
  EXPECT_TRUE(cut.last);
  EXPECT_EQ(cut.bytes, 7U);
  EXPECT_EQ(cut.offset, 5ULL << 30U);
}

std::vector<std::uint64_t> tiles(std::uint64_t bytes, std::uint32_t lanes, std::uint64_t threshold,
                                 bool floor = false) {
  const StaticSplit split = static_split(bytes, lanes, threshold, floor);
  std::vector<std::uint64_t> out;
  std::uint64_t begin = 0;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    if (split.bytes_of(lane) > 0) {
      EXPECT_EQ(split.begin_of(lane), begin);
    }
    out.push_back(split.bytes_of(lane));
    begin += out.back();
  }
  EXPECT_EQ(begin, bytes);
  return out;
}

// Requirement: 16
TEST(StaticSplit, GoldenValuesOfTheSeed_AreMet) {
  constexpr std::uint64_t kT = 512U << 10U;
  using Tiles = std::vector<std::uint64_t>;
  EXPECT_EQ(tiles(3, 4, kT), (Tiles{0, 0, 0, 3}));
  EXPECT_EQ(tiles(4, 4, kT), (Tiles{4, 0, 0, 0}));
  EXPECT_EQ(tiles(kT + 1, 4, kT), (Tiles{262144, 262145, 0, 0}));
  EXPECT_EQ(tiles(2 * kT, 4, kT), (Tiles{kT, kT, 0, 0}));
  EXPECT_EQ(tiles(2 * kT + 1, 4, kT), (Tiles{349525, 349525, 349527, 0}));
  EXPECT_EQ(tiles(4 * kT - 1, 4, kT), (Tiles{524287, 524287, 524287, 524290}));
  EXPECT_EQ(tiles(4 * kT + 3, 4, kT), (Tiles{kT, kT, kT, kT + 3}));
}

// Requirement: 17
TEST(StaticSplit, FloorMode_NeverGivesALaneLessThanTheThresholdWhenItUsesTwo) {
  Random random(21);
  for (int i = 0; i < 20'000; ++i) {
    const auto lanes = static_cast<std::uint32_t>(1 + random.below(32));
    const std::uint64_t threshold = 1 + random.below(1U << 20U);
    const std::uint64_t bytes = lanes + random.below(1U << 26U);
    std::uint32_t used = 0;
    std::uint64_t least = UINT64_MAX;
    for (const std::uint64_t tile : tiles(bytes, lanes, threshold, true)) {
      used += tile > 0 ? 1 : 0;
      least = tile > 0 ? std::min(least, tile) : least;
    }
    if (used > 1) {
      ASSERT_GE(least, threshold) << bytes << " over " << lanes;
    }
  }
}

TEST(ControlBudget, TwoSidesAtRandom_NeverOverrunReceivesAndNeverJam) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Random random(seed);
    // Rare polls let both sides use up everything before either hears of the other.
    const std::uint32_t poll_ppm = seed % 2 == 0 ? 300'000 : 5'000;
    struct Side {
      ControlBudget budget;
      std::deque<std::uint32_t> inbox;  // what each message on its way confirms
      std::uint64_t ordinary = 0;
    } sides[2];
    auto send = [&](int from) {
      sides[1 - from].inbox.push_back(sides[from].budget.received());
      sides[from].budget.on_sent();
      ASSERT_LE(sides[1 - from].inbox.size(), ControlBudget::kReceives);
    };
    auto step = [&](int self, bool eager) {
      Side& side = sides[self];
      if (random.chance_ppm(poll_ppm)) {
        while (!side.inbox.empty()) {
          ASSERT_TRUE(side.budget.on_confirmed(side.inbox.front()));
          side.inbox.pop_front();
          side.budget.on_received();
        }
        if (side.budget.must_confirm()) send(self);
      }
      if (eager && side.budget.may_send()) {
        send(self);
        ++side.ordinary;
      }
    };
    for (int i = 0; i < 3000; ++i) step(static_cast<int>(random.below(2)), random.below(2) == 0);
    const std::uint64_t before[2] = {sides[0].ordinary, sides[1].ordinary};
    for (int i = 0; i < 20'000; ++i) step(static_cast<int>(random.below(2)), true);
    EXPECT_GT(sides[0].ordinary, before[0] + 100) << "seed " << seed;
    EXPECT_GT(sides[1].ordinary, before[1] + 100) << "seed " << seed;
  }
}

TEST(ControlBudget, ImpossibleConfirmations_AreRefused) {
  ControlBudget budget;
  EXPECT_FALSE(budget.on_confirmed(1));
  budget.on_sent();
  EXPECT_TRUE(budget.on_confirmed(1));
  EXPECT_FALSE(budget.on_confirmed(0));
  EXPECT_FALSE(budget.on_confirmed(2));
}

TEST(ControlMessage, RoundTrip_AndAnyOtherLength_IsRefused) {
  ControlMessage message;
  message.type = ControlType::kClose;
  message.control_received = 7;
  message.delivered = 1ULL << 40U;
  message.sequences_used = (1ULL << 41U) + 3;
  message.lane_count = 3;
  message.receives_posted[0] = 1;
  message.receives_posted[2] = UINT32_MAX;
  std::array<std::byte, kControlSlotBytes> buffer{};
  const std::size_t bytes = encode(message, buffer);
  ASSERT_EQ(bytes, 32U + 3 * 4);
  ControlMessage back;
  ASSERT_TRUE(decode(std::span(buffer).first(bytes), 3, back).ok());
  EXPECT_EQ(back.type, message.type);
  EXPECT_EQ(back.control_received, message.control_received);
  EXPECT_EQ(back.delivered, message.delivered);
  EXPECT_EQ(back.sequences_used, message.sequences_used);
  EXPECT_EQ(back.receives_posted, message.receives_posted);
  for (std::size_t length = 0; length <= buffer.size(); ++length) {
    if (length == bytes) continue;
    EXPECT_FALSE(decode(std::span(buffer).first(length), 3, back).ok()) << length;
  }
  EXPECT_FALSE(decode(std::span(buffer).first(bytes), 4, back).ok());
  buffer[2] = std::byte{9};
  EXPECT_FALSE(decode(std::span(buffer).first(bytes), 3, back).ok());
}

TEST(ControlMessage, NewsOfALane_ComeBackAsSentAndNothingElseIsAccepted) {
  ControlMessage message;
  message.lane_count = 2;
  message.number = 0xFFFFFFFF;
  message.news.generation = 7;
  message.news.qpn = 0xFFFFFF;
  message.news.psn = 0xABCDEF;
  message.news.count = kQuerySegments;
  for (std::uint32_t i = 0; i < kQuerySegments; ++i) message.news.sequences[i] = 0xFFFFFF - i;
  message.news.arrived = 0x8000000000000001;
  std::array<std::byte, kControlSlotBytes> buffer{};
  for (const ControlType type : {ControlType::kLaneDown, ControlType::kLaneQuery,
                                 ControlType::kLaneAnswer, ControlType::kLaneReady}) {
    for (const std::uint32_t lane : {0U, 1U, 2U, kControlLane}) {
      message.type = type;
      message.news.lane = lane;
      const std::size_t bytes = encode(message, buffer);
      ControlMessage back;
      const bool about_segments =
          type == ControlType::kLaneQuery || type == ControlType::kLaneAnswer;
      const bool possible = lane < 2 || (lane == kControlLane && !about_segments);
      ASSERT_EQ(decode(std::span(buffer).first(bytes), 2, back).ok(), possible);
      EXPECT_FALSE(decode(std::span(buffer).first(bytes - 1), 2, back).ok());
      EXPECT_FALSE(decode(std::span(buffer).first(bytes + 1), 2, back).ok());
      if (!possible) continue;
      ASSERT_TRUE(decode(std::span(buffer).first(bytes), 2, back).ok());
      EXPECT_EQ(back.number, message.number);
      EXPECT_EQ(back.news.lane, lane);
      EXPECT_EQ(back.news.generation, 7U);
      if (type == ControlType::kLaneDown) {
        EXPECT_EQ(back.news.qpn, message.news.qpn);
        EXPECT_EQ(back.news.psn, message.news.psn);
      }
      if (type == ControlType::kLaneQuery) {
        EXPECT_EQ(back.news.count, kQuerySegments);
        EXPECT_EQ(back.news.sequences, message.news.sequences);
      }
      if (type == ControlType::kLaneAnswer) {
        EXPECT_EQ(back.news.arrived, message.news.arrived);
      }
    }
  }
  // One segment too many, and a queue pair number that does not fit.
  message.type = ControlType::kLaneQuery;
  message.news.lane = 0;
  std::size_t bytes = encode(message, buffer);
  buffer[32 + 8 + 8 + 3] = std::byte{kQuerySegments + 1};
  ControlMessage back;
  EXPECT_FALSE(decode(std::span(buffer).first(bytes + 4), 2, back).ok());
  message.type = ControlType::kLaneDown;
  message.news.qpn = 0x1000000;
  bytes = encode(message, buffer);
  EXPECT_FALSE(decode(std::span(buffer).first(bytes), 2, back).ok());
}

TEST(OperationTable, RandomRun_EachTicketCompletesOnceAndNoneIsReused) {
  Random random(4);
  OperationTable table(8);
  std::vector<std::uint32_t> active;
  std::deque<std::uint64_t> completed;
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 50'000; ++i) {
    switch (random.below(4)) {
      case 0: {
        const std::uint32_t index = table.accept(Operation{});
        ASSERT_EQ(index == OperationTable::kNone, active.size() + completed.size() == 8);
        if (index == OperationTable::kNone) break;
        ASSERT_TRUE(seen.insert(table.ticket_of(index).value).second);
        ASSERT_NE(table.ticket_of(index).value, 0U);
        active.push_back(index);
        break;
      }
      case 1: {
        if (active.empty()) break;
        const std::size_t which = random.below(active.size());
        table.complete(active[which]);
        completed.push_back(table.ticket_of(active[which]).value);
        active.erase(active.begin() + static_cast<std::ptrdiff_t>(which));
        break;
      }
      case 2: {  // any ticket that ever was: taken, waiting, under way
        if (seen.empty()) break;
        const auto which = std::next(
            seen.begin(),
            static_cast<std::ptrdiff_t>(random.below(std::min<std::size_t>(seen.size(), 40))));
        const std::uint64_t value = random.below(2) == 0 || completed.empty()
                                        ? *which
                                        : completed[random.below(completed.size())];
        Completion completion;
        const StatusCode code = table.take(Ticket{value}, completion).code();
        const auto waiting = std::find(completed.begin(), completed.end(), value);
        if (waiting != completed.end()) {
          ASSERT_EQ(code, StatusCode::kOk);
          ASSERT_EQ(completion.ticket.value, value);
          completed.erase(waiting);
        } else {
          const bool running = std::any_of(active.begin(), active.end(), [&](std::uint32_t index) {
            return table.ticket_of(index).value == value;
          });
          ASSERT_EQ(code, running ? StatusCode::kWouldBlock : StatusCode::kNotFound);
        }
        break;
      }
      default: {
        Completion completion;
        ASSERT_EQ(table.poll(completion), !completed.empty());
        if (completed.empty()) break;
        ASSERT_EQ(completion.ticket.value, completed.front());
        completed.pop_front();
      }
    }
    ASSERT_EQ(table.active_count(), active.size());
  }
}

TEST(OperationTable, TakeOfUnknownTickets_IsNotFound) {
  OperationTable table(4);
  Completion completion;
  EXPECT_EQ(table.take(Ticket{0}, completion).code(), StatusCode::kNotFound);
  EXPECT_EQ(table.take(Ticket{UINT64_MAX}, completion).code(), StatusCode::kNotFound);
  EXPECT_EQ(table.take(Ticket{(1ULL << 32U) | 4}, completion).code(), StatusCode::kNotFound);
  EXPECT_EQ(table.take(Ticket{(1ULL << 32U) | 3}, completion).code(), StatusCode::kNotFound);
}

// Requirement: 25
TEST(OperationTable, Fences_HoldExactlyWhatCameAfterThemUntilEarlierFetchesEnded) {
  Random random(11);
  OperationTable table(6);
  struct Entry {
    std::uint32_t index;
    bool fetch;
    std::uint64_t order;
  };
  std::vector<Entry> active;
  std::vector<std::pair<std::uint32_t, std::uint64_t>> fence_before;  // index, order of its fence
  std::uint64_t order = 0, newest_fence = 0;
  Completion completion;
  std::uint64_t held = 0;
  for (int i = 0; i < 100'000; ++i) {
    ++order;
    const std::uint64_t dice = random.below(5);
    if (dice == 0) {
      table.fence();
      newest_fence = order;
    } else if (dice <= 2) {
      Operation operation;
      const bool fetch = random.below(2) == 0;
      operation.kind = fetch ? OperationKind::kGet : OperationKind::kPut;
      const std::uint32_t index = table.accept(operation);
      if (index == OperationTable::kNone) continue;
      active.push_back({index, fetch, order});
      fence_before.emplace_back(index, newest_fence);
    } else if (!active.empty()) {
      const std::size_t which = random.below(active.size());
      if (!table.may_begin(table.at(active[which].index))) continue;
      table.complete(active[which].index);
      ASSERT_TRUE(table.poll(completion));
      active.erase(active.begin() + static_cast<std::ptrdiff_t>(which));
      fence_before.erase(fence_before.begin() + static_cast<std::ptrdiff_t>(which));
    }
    for (const auto& entry : fence_before) {
      const std::uint32_t index = entry.first;
      const std::uint64_t fence = entry.second;
      const bool free = std::none_of(active.begin(), active.end(), [&](const Entry& other) {
        return other.fetch && other.order < fence;
      });
      ASSERT_EQ(table.may_begin(table.at(index)), free) << "step " << i;
      held += free ? 0 : 1;
    }
  }
  EXPECT_GT(held, 1000U);
}

}  // namespace
}  // namespace braid::channel
