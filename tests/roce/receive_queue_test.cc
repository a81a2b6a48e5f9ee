#include "roce/receive_queue.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <deque>
#include <vector>

#include "base/random.h"

namespace braid::roce {
namespace {

struct Receive {
  std::uint64_t wr_id = 0;
  std::vector<ibv_sge> sges;
};

int post(ReceiveQueue& queue, Receive receive) {
  ibv_recv_wr wr{};
  wr.wr_id = receive.wr_id;
  wr.sg_list = receive.sges.data();
  wr.num_sge = static_cast<int>(receive.sges.size());
  const int error = queue.post(wr);
  // The queue keeps copies: what the caller does to its list afterwards changes nothing.
  for (ibv_sge& sge : receive.sges) sge = ibv_sge{};
  return error;
}

void expect_equal(const PostedReceive& taken, const Receive& wanted) {
  EXPECT_EQ(taken.wr_id, wanted.wr_id);
  ASSERT_EQ(taken.sges.size(), wanted.sges.size());
  for (std::size_t i = 0; i < wanted.sges.size(); ++i) {
    EXPECT_EQ(taken.sges[i].addr, wanted.sges[i].addr);
    EXPECT_EQ(taken.sges[i].length, wanted.sges[i].length);
    EXPECT_EQ(taken.sges[i].lkey, wanted.sges[i].lkey);
  }
}

TEST(ReceiveQueue, Post_DepthExactlyTaken_OnePastIsNoMemoryUntilOneIsTaken) {
  for (const std::uint32_t depth : {1U, 2U, 3U, 5U, 8U, 129U}) {
    ReceiveQueue queue(PdId{1}, depth, 1, nullptr);
    for (std::uint32_t i = 0; i < depth; ++i) EXPECT_EQ(post(queue, {i, {}}), 0) << depth;
    EXPECT_EQ(post(queue, {depth, {}}), ENOMEM) << depth;
    EXPECT_EQ(queue.take().wr_id, 0U);
    EXPECT_EQ(post(queue, {depth, {}}), 0) << depth;
    EXPECT_EQ(post(queue, {depth + 1, {}}), ENOMEM) << depth;
    for (std::uint32_t i = 1; i <= depth; ++i) EXPECT_EQ(queue.take().wr_id, i) << depth;
    EXPECT_TRUE(queue.empty());
  }
}

TEST(ReceiveQueue, Post_DepthZero_NeverTakesAny) {
  ReceiveQueue queue(PdId{1}, 0, 1, nullptr);
  EXPECT_EQ(post(queue, {1, {}}), ENOMEM);
  EXPECT_TRUE(queue.empty());
}

TEST(ReceiveQueue, Post_EntriesExactlyTaken_OnePastOrFewerThanNoneInvalid) {
  ReceiveQueue queue(PdId{1}, 4, 3, nullptr);
  EXPECT_EQ(post(queue, {1, std::vector<ibv_sge>(4)}), EINVAL);
  ibv_recv_wr negative{};
  negative.num_sge = -1;
  EXPECT_EQ(queue.post(negative), EINVAL);
  EXPECT_TRUE(queue.empty()) << "what is refused takes no slot";
  const Receive full{2, {{10, 1, 100}, {20, 2, 200}, {30, 3, 300}}};
  EXPECT_EQ(post(queue, full), 0);
  expect_equal(queue.take(), full);
}

TEST(ReceiveQueue, Limit_ReachedOnceWhenBelow_AndNotAtTheLimit) {
  ReceiveQueue queue(PdId{1}, 4, 1, nullptr);
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(post(queue, {i, {}}), 0);
  EXPECT_FALSE(queue.limit_reached()) << "not armed";
  queue.set_limit(3);
  EXPECT_FALSE(queue.limit_reached());
  static_cast<void>(queue.take());
  EXPECT_FALSE(queue.limit_reached()) << "three are not below three";
  static_cast<void>(queue.take());
  EXPECT_TRUE(queue.limit_reached());
  EXPECT_EQ(queue.limit(), 0U);
  static_cast<void>(queue.take());
  EXPECT_FALSE(queue.limit_reached()) << "disarmed by the first time";
}

TEST(ReceiveQueue, Clear_DropsAllAndTakesNewOnes) {
  ReceiveQueue queue(PdId{1}, 3, 1, nullptr);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_EQ(post(queue, {i, {}}), 0);
  queue.clear();
  EXPECT_TRUE(queue.empty());
  for (std::uint64_t i = 10; i < 13; ++i) EXPECT_EQ(post(queue, {i, {}}), 0);
  EXPECT_EQ(queue.take().wr_id, 10U);
}

TEST(ReceiveQueue, RandomOperations_AgreeWithModel) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    const auto depth = static_cast<std::uint32_t>(1 + random.below(12));
    const auto max_sge = static_cast<std::uint32_t>(random.below(5));
    ReceiveQueue queue(PdId{1}, depth, max_sge, nullptr);
    std::deque<Receive> model;
    for (std::uint64_t step = 0; step < 500; ++step) {
      ASSERT_EQ(queue.empty(), model.empty());
      if (random.below(2) == 0) {
        Receive receive{step, std::vector<ibv_sge>(random.below(max_sge + 2))};
        for (ibv_sge& sge : receive.sges) {
          sge = {random.next(), static_cast<std::uint32_t>(random.next()),
                 static_cast<std::uint32_t>(random.next())};
        }
        const bool fits = receive.sges.size() <= max_sge;
        ASSERT_EQ(post(queue, receive), !fits ? EINVAL : model.size() == depth ? ENOMEM : 0);
        if (fits && model.size() < depth) model.push_back(receive);
      } else if (!model.empty()) {
        expect_equal(queue.take(), model.front());
        model.pop_front();
      }
    }
  }
}

}  // namespace
}  // namespace braid::roce
