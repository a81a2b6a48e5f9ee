// The fetching half alone: parts cover each get exactly once, lanes take what they may, and what
// ends ends once.
#include "channel/fetcher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "base/random.h"

namespace braid::channel {
namespace {

constexpr TimePoint kStart{};
constexpr std::uint64_t kGiB = 1ULL << 30U;

Operation get_of(std::uint64_t bytes, std::uint64_t local, std::uint64_t remote) {
  Operation operation;
  operation.kind = OperationKind::kGet;
  operation.total_bytes = bytes;
  operation.local_address = local;
  operation.remote_address = remote;
  return operation;
}

struct Span {
  std::uint64_t local, remote, bytes;
};

// Drives one get to its end, lanes completing in turn; its parts.
std::vector<Span> parts_of(Fetcher& fetcher, OperationTable& table, const Operation& operation) {
  std::vector<Span> out;
  std::deque<FetchPost> under_way;
  EXPECT_NE(fetcher.accept(operation), OperationTable::kNone);
  FetchPost post;
  for (;;) {
    while (fetcher.next(post, kStart)) {
      out.push_back({post.local_address, post.remote_address, post.bytes});
      under_way.push_back(post);
    }
    if (under_way.empty()) break;
    EXPECT_TRUE(fetcher.handle_completion(under_way.front().number, under_way.front().lane,
                                          Status(), kStart));
    under_way.pop_front();
  }
  Completion completion;
  EXPECT_TRUE(table.poll(completion));
  EXPECT_TRUE(completion.status.ok());
  EXPECT_EQ(completion.bytes, operation.total_bytes);
  return out;
}

// Requirement: 15
// Fault: A14, A15
TEST(Fetcher, GetsBeyondFourGiB_AreCoveredWithoutGapOrOverlap) {
  for (const std::uint64_t bytes : {4 * kGiB - 1, 4 * kGiB, 4 * kGiB + 1, 5 * kGiB + 129}) {
    OperationTable table(2);
    Fetcher fetcher({4, 3, 1U << 30U}, table);
    std::uint64_t local = 1ULL << 40U, remote = 3ULL << 40U, sum = 0;
    for (const Span& part : parts_of(fetcher, table, get_of(bytes, local, remote))) {
      EXPECT_EQ(part.local, local + sum);
      EXPECT_EQ(part.remote, remote + sum);
      EXPECT_LE(part.bytes, kGiB);
      sum += part.bytes;
    }
    EXPECT_EQ(sum, bytes);
  }
}

TEST(Fetcher, GetOfNothing_CompletesWithoutAPart) {
  OperationTable table(2);
  Fetcher fetcher({2, 1, 4096}, table);
  EXPECT_TRUE(parts_of(fetcher, table, get_of(0, 0, 0)).empty());
  EXPECT_EQ(fetcher.inflight_parts(), 0U);
}

TEST(Fetcher, EachLane_HoldsReadDepthAndNotOneMore) {
  for (const std::uint32_t lanes : {1U, 2U, 63U, 64U, 65U, 128U}) {
    OperationTable table(2);
    Fetcher fetcher({lanes, 5, 128}, table);
    fetcher.limit_read_depth(3);
    ASSERT_NE(fetcher.accept(get_of(1U << 20U, 0, 0)), OperationTable::kNone);
    std::map<std::uint32_t, std::uint32_t> count;
    FetchPost post;
    while (fetcher.next(post, kStart)) ++count[post.lane];
    EXPECT_EQ(count.size(), lanes);
    for (const auto& [lane, held] : count) EXPECT_EQ(held, 3U) << "lane " << lane;
    // The lane that finishes one takes the next.
    ASSERT_TRUE(fetcher.handle_completion(0, 0, Status(), kStart));
    ASSERT_TRUE(fetcher.next(post, kStart));
    EXPECT_EQ(post.lane, 0U);
    EXPECT_FALSE(fetcher.next(post, kStart));
  }
}

TEST(Fetcher, CompletionsOfNothingUnderWay_ChangeNothing) {
  OperationTable table(2);
  Fetcher fetcher({2, 2, 128}, table);
  EXPECT_FALSE(fetcher.handle_completion(0, 0, Status(), kStart));
  ASSERT_NE(fetcher.accept(get_of(256, 0, 0)), OperationTable::kNone);
  FetchPost post;
  ASSERT_TRUE(fetcher.next(post, kStart));
  EXPECT_FALSE(fetcher.handle_completion(post.number, post.lane + 1, Status(), kStart))
      << "other lane";
  EXPECT_FALSE(fetcher.handle_completion(post.number + 1, post.lane, Status(), kStart))
      << "not yielded";
  EXPECT_FALSE(fetcher.handle_completion(post.number - 1, post.lane, Status(), kStart))
      << "long past";
  EXPECT_TRUE(fetcher.handle_completion(post.number, post.lane, Status(), kStart));
  EXPECT_FALSE(fetcher.handle_completion(post.number, post.lane, Status(), kStart)) << "twice";
}

// Everything at random against a model of what is under way.
TEST(Fetcher, RandomRun_EveryOperationEndsOnceWithTheBytesItAskedFor) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    Random random(seed);
    const auto lanes = static_cast<std::uint32_t>(1 + random.below(9));
    const auto depth = static_cast<std::uint32_t>(1 + random.below(4));
    OperationTable table(6);
    Fetcher fetcher({lanes, depth, 128}, table);
    std::vector<std::deque<FetchPost>> under_way(lanes);
    std::map<std::uint64_t, std::uint64_t> asked;  // ticket to bytes
    std::uint64_t wanted = 0, fetched = 0;
    FetchPost post;
    for (int step = 0; step < 20'000; ++step) {
      switch (random.below(4)) {
        case 0: {
          const std::uint64_t bytes = random.below(2000);
          const std::uint32_t index = fetcher.accept(get_of(bytes, 0, 0));
          if (index == OperationTable::kNone) break;
          asked[table.ticket_of(index).value] = bytes;
          wanted += bytes;
          break;
        }
        case 1:
          if (fetcher.next(post, TimePoint(Duration(step)))) {
            under_way[post.lane].push_back(post);
            ASSERT_LE(under_way[post.lane].size(), depth);
          }
          break;
        case 2: {
          auto& lane = under_way[random.below(lanes)];
          if (lane.empty()) break;
          fetched += lane.front().bytes;
          ASSERT_TRUE(
              fetcher.handle_completion(lane.front().number, lane.front().lane, Status(), kStart));
          lane.pop_front();
          break;
        }
        default: {
          Completion completion;
          if (!table.poll(completion)) break;
          ASSERT_EQ(asked.count(completion.ticket.value), 1U);
          ASSERT_EQ(asked[completion.ticket.value], completion.bytes);
          asked.erase(completion.ticket.value);
        }
      }
      std::size_t count = 0;
      for (const auto& lane : under_way) count += lane.size();
      ASSERT_EQ(fetcher.inflight_parts(), count);
      ASSERT_EQ(fetcher.oldest_post_time() == kNever, count == 0);
    }
    // What is left ends with the failure, once each.
    const Status gone(StatusCode::kNetwork);
    fetcher.fail(gone);
    EXPECT_FALSE(fetcher.next(post, kStart));
    for (auto& lane : under_way) {
      for (const FetchPost& part : lane) {
        ASSERT_TRUE(fetcher.handle_completion(part.number, part.lane, gone, kStart));
      }
    }
    Completion completion;
    while (table.poll(completion)) ASSERT_EQ(asked.erase(completion.ticket.value), 1U);
    EXPECT_TRUE(asked.empty());
    EXPECT_GT(fetched, 0U);
    EXPECT_LE(fetched, wanted);
  }
}

TEST(Fetcher, Abandon_EndsWhatTheDeviceNeverCompletes) {
  OperationTable table(4);
  Fetcher fetcher({1, 1, 128}, table);
  ASSERT_NE(fetcher.accept(get_of(256, 0, 0)), OperationTable::kNone);
  FetchPost post;
  ASSERT_TRUE(fetcher.next(post, kStart));
  fetcher.fail(Status(StatusCode::kTimeout));
  Completion completion;
  EXPECT_FALSE(table.poll(completion)) << "its memory is still the device's";
  fetcher.abandon();
  ASSERT_TRUE(table.poll(completion));
  EXPECT_EQ(completion.status.code(), StatusCode::kTimeout);
  EXPECT_FALSE(table.poll(completion));
}

}  // namespace
}  // namespace braid::channel
