// Sender and receiver joined by lanes that deliver in order per lane and in any order across
// lanes, as queue pairs do; checked against a byte-exact model.
#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "base/random.h"
#include "channel/receiver.h"
#include "channel/sender.h"

namespace braid::channel {
namespace {

constexpr TimePoint kStart{};

struct Wire {
  std::deque<SegmentPost> to_deliver;   // posted and not seen by the receiver
  std::deque<SegmentPost> to_complete;  // delivered, completion not polled by the sender
};

struct Pair {
  Sender::Config send;
  Receiver::Config receive;
  std::unique_ptr<Sender> sender;
  std::unique_ptr<Receiver> receiver;
  std::vector<Wire> lanes;
  std::vector<std::uint8_t> source, target;

  Pair(std::uint32_t lane_count, std::uint32_t window, Sequence first) {
    send.lanes = lane_count;
    send.lane_depth = 3;
    send.window = window;
    send.segment_bytes = 256;
    send.operation_capacity = 6;
    send.peer_receive_depth = 4;
    send.first_sequence = first;
    receive = {lane_count, 4, window, 5, 127, first};
    sender = std::make_unique<Sender>(send);
    receiver = std::make_unique<Receiver>(receive);
    lanes.resize(lane_count);
    for (std::uint32_t lane = 0; lane < lane_count; ++lane) receiver->on_reposted(lane, 4);
    grant();
  }
  void grant() {
    for (std::uint32_t lane = 0; lane < lanes.size(); ++lane) {
      ASSERT_TRUE(sender->handle_granted(lane, receiver->posted(lane)));
    }
    ASSERT_TRUE(sender->handle_delivered(receiver->delivered()));
    receiver->on_granted();
  }
  void post_all() {
    SegmentPost post;
    while (sender->next(post, kStart)) {
      lanes[post.lane].to_deliver.push_back(post);
      ASSERT_LE(lanes[post.lane].to_deliver.size(), 4U) << "a segment without a receive";
    }
  }
  void deliver_one(Wire& wire) {
    const SegmentPost post = wire.to_deliver.front();
    wire.to_deliver.pop_front();
    std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(post.local_address), post.bytes,
                target.begin() + static_cast<std::ptrdiff_t>(post.remote_address));
    receiver->handle_segment(post.lane, decode_imm(encode_imm(post.imm)), post.bytes);
    receiver->advance();
    receiver->on_reposted(post.lane, 1);
    wire.to_complete.push_back(post);
  }
  void complete_one(Wire& wire, Status status = Status()) {
    const SegmentPost post = wire.to_complete.front();
    wire.to_complete.pop_front();
    ASSERT_TRUE(sender->handle_completion(post.imm.sequence, post.lane, status, kStart));
  }
};

struct Put {
  std::uint64_t at = 0;
  std::uint64_t bytes = 0;
  std::uint8_t notify = 0;
};

void run_pair(std::uint64_t seed, std::uint32_t lane_count, std::uint32_t window, Sequence first) {
  Random random(seed);
  Pair pair(lane_count, window, first);
  constexpr std::size_t kPuts = 60;
  std::vector<Put> puts(kPuts);
  std::uint64_t total = 0;
  for (Put& put : puts) {
    put = {total, random.below(4) == 0 ? 0 : random.below(1500),
           static_cast<std::uint8_t>(random.below(3) == 0 ? 0 : 1 + random.below(127))};
    total += put.bytes;
  }
  puts.back().notify = 1;
  pair.source.resize(total);
  for (auto& byte : pair.source) byte = static_cast<std::uint8_t>(random.next() | 1U);
  pair.target.resize(total);

  std::size_t accepted = 0, completed = 0, next_notified = 0;
  for (int step = 0; step < 200'000 && (completed < kPuts || next_notified < kPuts); ++step) {
    Wire& wire = pair.lanes[random.below(lane_count)];
    switch (random.below(6)) {
      case 0:
        if (accepted < kPuts) {
          Operation operation;
          operation.local_address = operation.remote_address = puts[accepted].at;
          operation.total_bytes = puts[accepted].bytes;
          operation.notify = puts[accepted].notify;
          operation.user_data = accepted;
          if (pair.sender->accept(operation) != OperationTable::kNone) ++accepted;
        }
        break;
      case 1: pair.post_all(); break;
      case 2:
        if (!wire.to_deliver.empty()) pair.deliver_one(wire);
        break;
      case 3:
        if (!wire.to_complete.empty()) pair.complete_one(wire);
        break;
      case 4:
        pair.receiver->advance();
        if (pair.receiver->grant_due()) pair.grant();
        break;
      default: {
        Completion completion;
        while (pair.sender->operations().poll(completion)) {
          ASSERT_TRUE(completion.status.ok());
          ++completed;
        }
        std::uint8_t index = 0;
        if (!pair.receiver->poll(index)) break;
        while (puts[next_notified].notify == 0) ++next_notified;
        ASSERT_EQ(index, puts[next_notified].notify);
        // The contract: everything put up to here is visible.
        const std::uint64_t visible = puts[next_notified].at + puts[next_notified].bytes;
        ASSERT_TRUE(std::equal(pair.source.begin(),
                               pair.source.begin() + static_cast<std::ptrdiff_t>(visible),
                               pair.target.begin()));
        ++next_notified;
      }
    }
  }
  ASSERT_EQ(completed, kPuts) << "seed " << seed;
  ASSERT_EQ(next_notified, kPuts) << "seed " << seed;
  ASSERT_EQ(pair.receiver->counts().duplicates, 0U);
  ASSERT_EQ(pair.receiver->counts().out_of_window, 0U);
  ASSERT_LT(pair.receiver->reorder_high_water(), window);
}

// Requirement: 59
// Fault: A19, B2, B3, B6, B8
TEST(Halves, AnyOrderAcrossLanes_BytesAndNotificationsAreInOrder) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const std::uint32_t lanes = seed % 3 == 0 ? 1 : static_cast<std::uint32_t>(seed % 9 + 1);
    const std::uint32_t window = 1U << (seed % 6);
    // Half of the runs cross the wrap of the sequence.
    run_pair(seed, lanes, window, seed % 2 == 0 ? Sequence(0) : Sequence(Sequence::kMask - 50));
    if (HasFatalFailure()) return;
  }
}

TEST(Halves, NotificationsNotPolled_TheSenderWaitsAndNothingIsLost) {
  Pair pair(2, 8, Sequence(0));
  std::uint32_t accepted = 0;
  auto turn = [&] {
    Operation operation;
    operation.notify = static_cast<std::uint8_t>(1 + accepted % 100);
    if (pair.sender->accept(operation) != OperationTable::kNone) ++accepted;
    pair.post_all();
    for (Wire& wire : pair.lanes) {
      while (!wire.to_deliver.empty()) pair.deliver_one(wire);
      while (!wire.to_complete.empty()) pair.complete_one(wire);
    }
    Completion completion;
    while (pair.sender->operations().poll(completion)) continue;
    pair.receiver->advance();
    if (pair.receiver->grant_due()) pair.grant();
  };
  for (int i = 0; i < 100; ++i) turn();
  // 8 notifications in the ring (5 rounded up), 8 sequences in the window, 6 operations waiting.
  EXPECT_LE(pair.sender->sequences_used(), 16U);
  EXPECT_EQ(pair.sender->blocked(), Sender::Blocked::kWindow);
  std::uint8_t index = 0;
  std::uint32_t polled = 0;
  for (int i = 0; i < 200; ++i) {
    while (pair.receiver->poll(index)) {
      ASSERT_EQ(index, 1 + polled % 100);
      ++polled;
    }
    turn();
  }
  EXPECT_GT(polled, 150U);
}

// Requirement: 60
TEST(Halves, OneLaneStalled_ReceiverReordersAtMostTheWindow) {
  Pair pair(4, 16, Sequence(0));
  pair.source.resize(1U << 16U);
  pair.target.resize(1U << 16U);
  Operation operation;
  operation.total_bytes = pair.source.size();
  operation.policy = SchedulerPolicy::kDqplb;
  ASSERT_NE(pair.sender->accept(operation), OperationTable::kNone);
  for (int round = 0; round < 100; ++round) {
    pair.post_all();
    for (std::size_t lane = 1; lane < 4; ++lane) {
      while (!pair.lanes[lane].to_deliver.empty()) pair.deliver_one(pair.lanes[lane]);
      while (!pair.lanes[lane].to_complete.empty()) pair.complete_one(pair.lanes[lane]);
    }
    if (pair.receiver->grant_due()) pair.grant();
  }
  EXPECT_LE(pair.sender->sequences_used(), 16U);
  EXPECT_LT(pair.receiver->reorder_high_water(), 16U);
  EXPECT_GE(pair.receiver->reorder_high_water(), 12U);
}

TEST(Halves, Failure_EveryOperationEndsOnceWithIt) {
  Pair pair(2, 16, Sequence(0));
  pair.source.resize(4096);
  pair.target.resize(4096);
  Operation operation;
  operation.total_bytes = 1024;
  for (int i = 0; i < 6; ++i) ASSERT_NE(pair.sender->accept(operation), OperationTable::kNone);
  pair.post_all();
  ASSERT_GT(pair.sender->inflight_segments(), 0U);
  const Status why(StatusCode::kNetwork);
  pair.sender->fail(why);
  Completion completion;
  std::uint32_t ended = 0;
  auto poll = [&] {
    while (pair.sender->operations().poll(completion)) {
      EXPECT_EQ(completion.status, why);
      ++ended;
    }
  };
  poll();
  EXPECT_LT(ended, 6U);  // those with segments under way still own their memory
  pair.deliver_one(pair.lanes[0]);
  pair.complete_one(pair.lanes[0], why);
  pair.sender->abandon();
  poll();
  EXPECT_EQ(ended, 6U);
  EXPECT_EQ(pair.sender->operations().active_count(), 0U);
}

// Fault: B19
TEST(Halves, CompletionsForWorkNotUnderWay_AreRefused) {
  Pair pair(2, 16, Sequence(Sequence::kMask));
  Operation operation;
  ASSERT_NE(pair.sender->accept(operation), OperationTable::kNone);
  pair.post_all();
  const Sequence first(Sequence::kMask);
  EXPECT_FALSE(pair.sender->handle_completion(first + 1, 0, Status(), kStart));
  EXPECT_FALSE(pair.sender->handle_completion(first - 1U, 0, Status(), kStart));
  EXPECT_FALSE(pair.sender->handle_completion(first, 1, Status(), kStart));  // another lane
  EXPECT_TRUE(pair.sender->handle_completion(first, 0, Status(), kStart));
  EXPECT_FALSE(pair.sender->handle_completion(first, 0, Status(), kStart));  // twice
}

TEST(Halves, ImpossibleCountsOfThePeer_AreRefused) {
  Pair pair(1, 16, Sequence(0));
  EXPECT_FALSE(pair.sender->handle_delivered(1));  // nothing was sent yet
  EXPECT_FALSE(pair.sender->handle_granted(0, 5));
  EXPECT_TRUE(pair.sender->handle_granted(0, 4));
}

}  // namespace
}  // namespace braid::channel
