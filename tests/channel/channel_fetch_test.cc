// Gets, atomics and fences of whole channels over in-memory verbs.
#include <algorithm>
#include <array>
#include <cstring>
#include <deque>

#include "channel/channel_bed.h"

namespace braid {
namespace {

using test::fill;

constexpr MemoryAccess kAll =
    MemoryAccess::kRemoteWrite | MemoryAccess::kRemoteRead | MemoryAccess::kRemoteAtomic;

class ChannelFetch : public test::ChannelBed {
 protected:
  /// Turns until the ticket's completion is there.
  Completion finish(Result<Ticket> ticket) {
    Completion completion;
    EXPECT_TRUE(ticket);
    if (!ticket) return completion;
    for (int i = 0; i < 100'000; ++i) {
      turn();
      const Status status = a->take(*ticket, completion);
      if (status.ok()) return completion;
      if (status.code() != StatusCode::kWouldBlock) break;
    }
    ADD_FAILURE() << "no completion: " << a->error().text << b->error().text;
    return completion;
  }
  /// A channel whose peer exports `bytes` at target, and an own region of that size.
  void prepare(std::uint64_t bytes, ChannelOptions options = {}, MemoryAccess access = kAll) {
    if (device == nullptr) open();
    local = &allocate(bytes, MemoryAccess::kLocal);
    target = &allocate(bytes, access);
    options.exports = {target->remote()};
    join(options);
    remote = a->remote_memories()[0];
  }
  [[nodiscard]] std::uint64_t word(const Memory& memory, std::uint64_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, memory.data() + offset, sizeof(value));
    return value;
  }

  Memory* local = nullptr;
  Memory* target = nullptr;
  RemoteMemory remote;
};

class ChannelGetSizes
    : public ChannelFetch,
      public testing::WithParamInterface<std::tuple<std::uint32_t, std::uint64_t>> {};

TEST_P(ChannelGetSizes, OneGet_BringsEveryByteOnce) {
  const auto [lanes, bytes] = GetParam();
  ChannelOptions options;
  options.lanes = lanes;
  options.segment_bytes = 4096;
  options.read_depth = 3;
  prepare(bytes == 0 ? 1 : bytes, options);
  fill(*target, bytes + 1);
  const Completion completion = finish(a->get(local->range(0, bytes), remote.range(0, bytes), 42));
  EXPECT_TRUE(completion.status.ok());
  EXPECT_EQ(completion.user_data, 42U);
  EXPECT_EQ(completion.bytes, bytes);
  EXPECT_EQ(std::memcmp(local->data(), target->data(), bytes), 0);
  std::uint64_t parts = 0, sum = 0;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    parts += a->lane_stats(lane).fetched_parts;
    sum += a->lane_stats(lane).fetched_bytes;
    EXPECT_EQ(b->lane_stats(lane).received_segments, 0U) << "a get took a receive";
  }
  EXPECT_EQ(sum, bytes);
  // Requirement 15: a get of nothing posts nothing.
  EXPECT_EQ(parts, (bytes + 4095) / 4096);
  EXPECT_LE(verbs.reads_high_water(), 3U);
}

INSTANTIATE_TEST_SUITE_P(LanesAndSizes, ChannelGetSizes,
                         testing::Combine(testing::Values(1U, 2U, 5U, 32U, 128U),
                                          testing::Values(0ULL, 1ULL, 4095ULL, 4096ULL, 4097ULL,
                                                          1'000'003ULL)));

// Fault: B10
TEST_F(ChannelFetch, ReadsUnderWay_AreWhatBothDevicesAllowAndNotOne) {
  open();
  verbs.max_rd_atomic = 9;
  ChannelOptions options;
  options.lanes = 2;
  options.segment_bytes = 128;
  device.reset();
  open();
  prepare(1U << 16U, options);
  EXPECT_EQ(a->options().read_depth, 9U);
  EXPECT_TRUE(finish(a->get(local->range(0, 1U << 16U), remote.range(0, 1U << 16U))).status.ok());
  EXPECT_EQ(verbs.reads_high_water(), 9U);
}

TEST_F(ChannelFetch, DeviceWithoutReads_SaysSo) {
  verbs.max_rd_atomic = 0;
  prepare(4096);
  EXPECT_EQ(a->get(local->range(0, 8), remote.range(0, 8)).error().code(),
            StatusCode::kNotSupported);
  EXPECT_EQ(a->fetch_add(local->range(0, 8), remote.range(0, 8), 1).error().code(),
            StatusCode::kNotSupported);
}

TEST_F(ChannelFetch, DeviceWithoutAtomics_StillGets) {
  verbs.atomic_cap = IBV_ATOMIC_NONE;
  prepare(4096);
  EXPECT_EQ(a->compare_swap(local->range(0, 8), remote.range(0, 8), 0, 1).error().code(),
            StatusCode::kNotSupported);
  EXPECT_TRUE(finish(a->get(local->range(0, 8), remote.range(0, 8))).status.ok());
}

TEST_F(ChannelFetch, Atomics_ChangeTheTargetAndReturnWhatWasThere) {
  prepare(64);
  const std::uint64_t begin = UINT64_MAX - 1;
  std::memcpy(target->data() + 8, &begin, 8);
  EXPECT_TRUE(finish(a->fetch_add(local->range(0, 8), remote.range(8, 8), 5)).status.ok());
  EXPECT_EQ(word(*local, 0), begin);
  EXPECT_EQ(word(*target, 8), 3U) << "mod 2^64";
  EXPECT_TRUE(finish(a->compare_swap(local->range(8, 8), remote.range(8, 8), 4, 77)).status.ok());
  EXPECT_EQ(word(*local, 8), 3U);
  EXPECT_EQ(word(*target, 8), 3U) << "4 was not there";
  EXPECT_TRUE(finish(a->compare_swap(local->range(8, 8), remote.range(8, 8), 3, 77)).status.ok());
  EXPECT_EQ(word(*local, 8), 3U);
  EXPECT_EQ(word(*target, 8), 77U);
}

// Requirement: 22
TEST_F(ChannelFetch, RangesAndAlignment_AreCheckedBeforeAnythingIsAccepted) {
  prepare(4096);
  const auto code = [](const Result<Ticket>& result) { return result.error().code(); };
  EXPECT_EQ(code(a->get(local->range(1, 4096), remote.range(0, 4096))), StatusCode::kNotFound);
  EXPECT_EQ(code(a->get(local->range(0, 4096), remote.range(1, 4096))), StatusCode::kNotFound);
  EXPECT_EQ(code(a->get(local->range(0, 8), remote.range(0, 9))), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(a->get({}, remote.range(0, 0))), StatusCode::kInvalidArgument);
  EXPECT_EQ(code(a->fetch_add(local->range(0, 4), remote.range(0, 4), 1)),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(code(a->fetch_add(local->range(0, 8), remote.range(4, 8), 1)),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(a->drained());
  EXPECT_TRUE(finish(a->fetch_add(local->range(0, 8), remote.range(4088, 8), 1)).status.ok());
}

TEST_F(ChannelFetch, FullTable_WouldBlockUntilACompletionIsTaken) {
  ChannelOptions options;
  options.operation_capacity = 2;
  prepare(4096, options);
  const Result<Ticket> first = a->get(local->range(0, 8), remote.range(0, 8));
  ASSERT_TRUE(a->get(local->range(8, 8), remote.range(8, 8)));
  EXPECT_EQ(a->get(local->range(0, 8), remote.range(0, 8)).error().code(), StatusCode::kWouldBlock);
  EXPECT_TRUE(finish(first).status.ok());
  EXPECT_TRUE(a->get(local->range(0, 8), remote.range(0, 8)));
}

// Requirement: 25
TEST_F(ChannelFetch, OperationsAfterAFence_WaitForTheGetBeforeItOnAnyLane) {
  ChannelOptions options;
  options.lanes = 4;
  options.segment_bytes = 1024;
  prepare(8192, options);
  fill(*target, 3);
  Memory& source = allocate(8192);
  // Only the lane that holds the second part of the get stands still.
  verbs.hold(a->lane_stats(1).qpn, true);
  const Result<Ticket> get = a->get(local->range(0, 4096), remote.range(0, 4096));
  ASSERT_TRUE(a->fence().ok());
  const Result<Ticket> put = a->put(source.range(0, 8192), remote.range(0, 8192), {.notify = {5}});
  const Result<Ticket> later = a->get(local->range(4096, 8), remote.range(4096, 8));
  for (int i = 0; i < 50; ++i) turn();
  Notification notification;
  Completion completion;
  EXPECT_EQ(b->poll_notifications({&notification, 1}), 0U);
  EXPECT_EQ(a->take(*later, completion).code(), StatusCode::kWouldBlock);
  EXPECT_NE(std::memcmp(source.data(), target->data(), 1024), 0) << "the put went ahead";
  Memory& before = allocate(4096);
  std::memcpy(before.data(), target->data(), 4096);
  verbs.hold(a->lane_stats(1).qpn, false);
  EXPECT_TRUE(finish(get).status.ok());
  EXPECT_TRUE(finish(put).status.ok());
  EXPECT_TRUE(finish(later).status.ok());
  EXPECT_EQ(std::memcmp(local->data(), before.data(), 4096), 0) << "the get saw the later put";
  EXPECT_EQ(std::memcmp(source.data(), target->data(), 8192), 0);
}

// Requirement: 25
TEST_F(ChannelFetch, WithoutAFence_PutsDoNotWaitForAGetThatStandsStill) {
  ChannelOptions options;
  options.lanes = 2;
  prepare(8192, options);
  verbs.hold(a->lane_stats(0).qpn, true);
  const Result<Ticket> get = a->get(local->range(0, 8), remote.range(0, 8));
  for (int i = 0; i < 5; ++i) turn();
  // The first put takes lane 0 in its turn, the second goes past it.
  Memory& source = allocate(64);
  (void)a->put(source.range(0, 64), remote.range(0, 64));
  const Result<Ticket> second = a->put(source.range(0, 64), remote.range(64, 64));
  EXPECT_TRUE(finish(second).status.ok());
  Completion completion;
  EXPECT_EQ(a->take(*get, completion).code(), StatusCode::kWouldBlock);
  verbs.hold(a->lane_stats(0).qpn, false);
  EXPECT_TRUE(finish(get).status.ok());
}

// Requirement: 23
// Fault: A8
TEST_F(ChannelFetch, FullSendQueue_ResumesWhereTheDeviceStopped) {
  ChannelOptions options;
  options.lanes = 3;
  options.segment_bytes = 128;
  prepare(1U << 16U, options);
  fill(*target, 9);
  Memory& source = allocate(1U << 16U);
  Memory& sink = allocate(1U << 16U);
  std::memcpy(sink.data(), target->data(), 1U << 16U);
  verbs.refuse_posts(60);
  EXPECT_TRUE(finish(a->get(local->range(0, 1U << 16U), remote.range(0, 1U << 16U))).status.ok());
  EXPECT_EQ(std::memcmp(local->data(), sink.data(), 1U << 16U), 0);
  fill(source, 10);
  verbs.refuse_posts(60);
  EXPECT_TRUE(finish(a->put(source.range(0, 1U << 16U), remote.range(0, 1U << 16U))).status.ok());
  EXPECT_EQ(std::memcmp(source.data(), target->data(), 1U << 16U), 0);
  EXPECT_EQ(a->stats().unknown_completions, 0U);
}

// Requirement: 23
TEST_F(ChannelFetch, PostThatFailsWithoutSayingWhere_FailsTheChannel) {
  prepare(4096);
  verbs.refuse_posts_silently(1);
  const Completion completion = finish(a->get(local->range(0, 8), remote.range(0, 8)));
  EXPECT_EQ(completion.status.code(), StatusCode::kInternal);
  EXPECT_EQ(completion.status.detail(), EPROTO);
  EXPECT_EQ(a->state(), ChannelState::kFailed);
}

TEST_F(ChannelFetch, GetThatThePeerDoesNotAllow_FailsBothSidesAndEndsOnce) {
  prepare(4096, {}, MemoryAccess::kRemoteWrite);
  const Result<Ticket> put = a->get(local->range(0, 4096), remote.range(0, 4096));
  const Completion completion = finish(put);
  EXPECT_EQ(completion.status, Status::from_completion(IBV_WC_REM_ACCESS_ERR));
  for (int i = 0; i < 3; ++i) turn();
  EXPECT_EQ(b->state(), ChannelState::kFailed);
  Completion again;
  EXPECT_EQ(a->poll_completions({&again, 1}), 0U);
}

// Fault: B18
TEST_F(ChannelFetch, GetWhoseCompletionNeverComes_FailsAfterTheSegmentTimeout) {
  ChannelOptions options;
  options.lanes = 1;
  options.keepalive_interval = Duration(0);
  options.segment_timeout = std::chrono::seconds(2);
  prepare(4096, options);
  verbs.hold(a->lane_stats(0).qpn, true);
  ASSERT_TRUE(a->get(local->range(0, 8), remote.range(0, 8)));
  a->progress(now);
  now += std::chrono::seconds(2);
  a->progress(now);
  EXPECT_EQ(a->state(), ChannelState::kOpen);
  now += Duration(1);
  a->progress(now);
  EXPECT_EQ(a->state(), ChannelState::kFailed);
  Completion completion;
  a->progress(now);
  ASSERT_EQ(a->poll_completions({&completion, 1}), 1U);
  EXPECT_EQ(completion.status.code(), StatusCode::kTimeout);
}

// Requirement: 21
TEST_F(ChannelFetch, TakeNotification_LeavesTheOthersInTheirOrder) {
  prepare(64);
  for (const NotifyIndex index : {NotifyIndex{1}, NotifyIndex{2}, NotifyIndex{3}, NotifyIndex{2}}) {
    ASSERT_TRUE(a->notify(index));
  }
  for (int i = 0; i < 5; ++i) turn();
  Notification notification;
  EXPECT_FALSE(b->take_notification({4}, notification));
  ASSERT_TRUE(b->take_notification({2}, notification));
  EXPECT_EQ(notification.index, NotifyIndex{2});
  std::array<Notification, 4> rest{};
  ASSERT_EQ(b->poll_notifications(rest), 3U);
  EXPECT_EQ(rest[0].index, NotifyIndex{1});
  EXPECT_EQ(rest[1].index, NotifyIndex{3});
  EXPECT_EQ(rest[2].index, NotifyIndex{2});
}

// Beside puts and gets, in any order of deliveries: every add counts once.
TEST_F(ChannelFetch, ManyAddsBesidePutsAndGets_EachCountsOnceAndReturnsADistinctValue) {
  ChannelOptions options;
  options.lanes = 5;
  options.segment_bytes = 256;
  options.lane_depth = 2;
  options.read_depth = 2;
  prepare(1U << 14U, options);
  Memory& source = allocate(1U << 13U);
  Random random(5);
  constexpr std::uint64_t kAdds = 1000;
  std::vector<bool> seen(kAdds, false);
  std::vector<std::uint64_t> results(kAdds, UINT64_MAX);
  Memory& words = allocate(8 * kAdds, MemoryAccess::kLocal);
  std::uint64_t issued = 0, ended = 0;
  while (ended < kAdds) {
    now += std::chrono::microseconds(1);
    if (issued < kAdds && a->fetch_add(words.range(8 * issued, 8), remote.range(0, 8), 1, issued)) {
      ++issued;
    }
    if (random.below(4) == 0) {
      (void)a->put(source.range(0, 1000), remote.range(4096, 1000), {.user_data = kAdds});
      (void)a->get(local->range(0, 3000), remote.range(4096, 3000), kAdds);
    }
    if (random.below(50) == 0) {
      ASSERT_TRUE(a->fence().ok());
    }
    for (std::uint64_t k = random.below(6); k > 0 && verbs.deliver_one(random); --k) continue;
    (random.below(2) == 0 ? a : b)->progress(now);
    std::array<Completion, 8> completions{};
    const std::size_t count = a->poll_completions(completions);
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_TRUE(completions[i].status.ok()) << a->error().text;
      if (completions[i].user_data == kAdds) continue;
      const std::uint64_t before = word(words, 8 * completions[i].user_data);
      ASSERT_LT(before, kAdds);
      ASSERT_FALSE(seen[before]) << "two adds saw the same value";
      seen[before] = true;
      ++ended;
    }
  }
  EXPECT_EQ(word(*target, 0), kAdds);
  EXPECT_LE(verbs.reads_high_water(), 2U);
}

}  // namespace
}  // namespace braid
