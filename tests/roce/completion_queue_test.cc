#include "roce/completion_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <deque>
#include <functional>
#include <iterator>
#include <thread>
#include <vector>

#include "base/random.h"

namespace braid::roce {
namespace {

ibv_wc completion_of(std::uint64_t wr_id, std::uint32_t qpn = 1,
                     ibv_wc_status status = IBV_WC_SUCCESS) {
  ibv_wc out{};
  out.wr_id = wr_id;
  out.qp_num = qpn;
  out.status = status;
  return out;
}

bool push(CompletionQueue& queue, std::uint64_t wr_id, std::uint32_t qpn = 1) {
  bool event = true;
  const bool pushed = queue.push(completion_of(wr_id, qpn), false, event);
  EXPECT_FALSE(event);  // unarmed
  return pushed;
}

bool raises_event(CompletionQueue& queue, bool solicited, ibv_wc_status status = IBV_WC_SUCCESS) {
  bool event = false;
  EXPECT_TRUE(queue.push(completion_of(0, 1, status), solicited, event));
  return event;
}

std::vector<std::uint64_t> drain(CompletionQueue& queue) {
  std::vector<std::uint64_t> out;
  std::array<ibv_wc, 3> some;
  for (std::size_t taken; (taken = queue.poll(some.size(), some.data())) != 0;) {
    for (std::size_t i = 0; i < taken; ++i) out.push_back(some[i].wr_id);
  }
  return out;
}

using Ids = std::vector<std::uint64_t>;

TEST(CompletionQueue, Poll_FewerThanQueued_TakesTheOldestInOrder) {
  CompletionQueue queue(8, nullptr);
  std::array<ibv_wc, 8> out;
  EXPECT_EQ(queue.poll(out.size(), out.data()), 0U);
  for (std::uint64_t id = 0; id < 5; ++id) ASSERT_TRUE(push(queue, id));
  EXPECT_EQ(queue.poll(0, out.data()), 0U);
  ASSERT_EQ(queue.poll(2, out.data()), 2U);
  EXPECT_EQ(out[0].wr_id, 0U);
  EXPECT_EQ(out[1].wr_id, 1U);
  EXPECT_EQ(queue.size(), 3U);
  EXPECT_EQ(drain(queue), (Ids{2, 3, 4}));
}

TEST(CompletionQueue, Push_AtCapacity_TakenAndOnePastItIsAnErrorForGood) {
  CompletionQueue queue(8, nullptr);
  ASSERT_EQ(queue.capacity(), 8U);
  for (std::uint64_t id = 0; id < 8; ++id) ASSERT_TRUE(push(queue, id));
  EXPECT_FALSE(queue.in_error());
  EXPECT_FALSE(push(queue, 8));
  EXPECT_TRUE(queue.in_error());
  EXPECT_EQ(drain(queue), (Ids{0, 1, 2, 3, 4, 5, 6, 7}));  // what was there can still be read
  EXPECT_FALSE(push(queue, 9));                            // room again, but no longer usable
  EXPECT_TRUE(queue.in_error());
  EXPECT_EQ(queue.size(), 0U);
}

TEST(CompletionQueue, Push_InError_RaisesNoEvent) {
  CompletionQueue queue(1, nullptr);
  ASSERT_TRUE(push(queue, 0));
  queue.arm(false);
  bool event = true;
  EXPECT_FALSE(queue.push(completion_of(1), true, event));
  EXPECT_FALSE(event);
}

TEST(CompletionQueue, Capacity_OfAnyRequest_HoldsAtLeastThat) {
  for (std::size_t wanted = 1; wanted <= 70; ++wanted) {
    CompletionQueue queue(wanted, nullptr);
    for (std::uint64_t id = 0; id < wanted; ++id) ASSERT_TRUE(push(queue, id)) << wanted;
  }
  int owner = 0;
  EXPECT_EQ(CompletionQueue(1, &owner).owner(), &owner);
}

TEST(CompletionQueue, ArmForAny_NextPush_RaisesOneEvent) {
  CompletionQueue queue(64, nullptr);
  EXPECT_FALSE(raises_event(queue, true));
  queue.arm(false);
  EXPECT_TRUE(raises_event(queue, false));
  EXPECT_FALSE(raises_event(queue, true));
  queue.arm(false);
  queue.arm(false);  // still one
  EXPECT_TRUE(raises_event(queue, true));
  EXPECT_FALSE(raises_event(queue, true));
}

TEST(CompletionQueue, ArmForSolicited_OnlyASolicitedOrFailedPush_RaisesOneEvent) {
  CompletionQueue queue(64, nullptr);
  queue.arm(true);
  EXPECT_FALSE(raises_event(queue, false));
  EXPECT_FALSE(raises_event(queue, false));
  EXPECT_TRUE(raises_event(queue, true));
  EXPECT_FALSE(raises_event(queue, true));
  queue.arm(true);
  EXPECT_FALSE(raises_event(queue, false));
  EXPECT_TRUE(raises_event(queue, false, IBV_WC_WR_FLUSH_ERR));
  EXPECT_FALSE(raises_event(queue, false, IBV_WC_WR_FLUSH_ERR));
}

TEST(CompletionQueue, ArmTwice_InEitherOrder_TheWiderArmingHolds) {
  CompletionQueue queue(64, nullptr);
  queue.arm(false);
  queue.arm(true);
  EXPECT_TRUE(raises_event(queue, false));
  queue.arm(true);
  queue.arm(false);
  EXPECT_TRUE(raises_event(queue, false));
}

TEST(CompletionQueue, Disarm_OfAnArmingForAny_TakesItBackAndNoOther) {
  CompletionQueue queue(64, nullptr);
  EXPECT_FALSE(queue.disarm());
  queue.arm(true);
  EXPECT_FALSE(queue.armed_for_any());
  EXPECT_FALSE(queue.disarm());
  EXPECT_TRUE(raises_event(queue, true));
  queue.arm(false);
  EXPECT_TRUE(queue.armed_for_any());
  EXPECT_TRUE(queue.disarm());
  EXPECT_FALSE(queue.armed_for_any());
  EXPECT_FALSE(raises_event(queue, true));
}

TEST(CompletionQueue, RemoveQp_AcrossTheRingsEnd_KeepsTheOthersInOrder) {
  CompletionQueue queue(8, nullptr);
  for (std::uint64_t id = 0; id < 5; ++id) ASSERT_TRUE(push(queue, id));
  ASSERT_EQ(drain(queue).size(), 5U);
  for (std::uint64_t id = 0; id < 8; ++id) {
    ASSERT_TRUE(push(queue, id, static_cast<std::uint32_t>(id % 3)));
  }
  queue.remove_qp(1);
  EXPECT_EQ(queue.size(), 5U);
  queue.remove_qp(99);
  for (std::uint64_t id = 8; id < 11; ++id) ASSERT_TRUE(push(queue, id, 2));  // the room is back
  EXPECT_EQ(drain(queue), (Ids{0, 2, 3, 5, 6, 8, 9, 10}));
}

TEST(CompletionQueue, RemoveQp_OfEverything_LeavesNothing) {
  CompletionQueue queue(4, nullptr);
  for (std::uint64_t id = 0; id < 4; ++id) ASSERT_TRUE(push(queue, id));
  queue.remove_qp(1);
  EXPECT_EQ(queue.size(), 0U);
  EXPECT_TRUE(drain(queue).empty());
}

TEST(CompletionQueue, Resize_ToWhatIsQueued_KeepsItAndOneLessIsRefused) {
  CompletionQueue queue(16, nullptr);
  for (std::uint64_t id = 0; id < 13; ++id) ASSERT_TRUE(push(queue, id));
  std::array<ibv_wc, 8> out;
  ASSERT_EQ(queue.poll(out.size(), out.data()), 8U);
  EXPECT_EQ(queue.resize(4), EINVAL);
  EXPECT_EQ(queue.capacity(), 16U);
  EXPECT_EQ(queue.resize(0), EINVAL);
  ASSERT_EQ(queue.resize(5), 0);
  EXPECT_GE(queue.capacity(), 5U);
  EXPECT_LT(queue.capacity(), 16U);
  EXPECT_EQ(queue.size(), 5U);
  ASSERT_EQ(queue.resize(32), 0);
  for (std::uint64_t id = 13; id < 40; ++id) ASSERT_TRUE(push(queue, id));
  const Ids all = drain(queue);
  ASSERT_EQ(all.size(), 32U);
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], i + 8);
}

/// One step of random operations on a queue and on a plain list of the same.
void step_against_model(Random& random, CompletionQueue& queue, std::deque<ibv_wc>& model,
                        std::uint64_t& next_id) {
  switch (random.below(12)) {
    case 0: {
      const auto qpn = static_cast<std::uint32_t>(random.below(4));
      queue.remove_qp(qpn);
      std::erase_if(model, [qpn](const ibv_wc& wc) { return wc.qp_num == qpn; });
      break;
    }
    case 1: {
      const std::size_t capacity = 1 + random.below(40);
      ASSERT_EQ(queue.resize(capacity), model.size() <= capacity ? 0 : EINVAL);
      break;
    }
    case 2:
    case 3:
    case 4: {
      std::array<ibv_wc, 8> out;
      const std::size_t count = random.below(out.size() + 1);
      ASSERT_EQ(queue.poll(count, out.data()), std::min(count, model.size()));
      for (std::size_t i = 0; i < std::min(count, model.size()); ++i) {
        ASSERT_EQ(out[i].wr_id, model[i].wr_id);
        ASSERT_EQ(out[i].qp_num, model[i].qp_num);
      }
      model.erase(model.begin(),
                  model.begin() + static_cast<std::ptrdiff_t>(std::min(count, model.size())));
      break;
    }
    default:
      if (model.size() == queue.capacity()) break;
      const ibv_wc wc = completion_of(next_id++, static_cast<std::uint32_t>(random.below(4)));
      bool event = true;
      ASSERT_TRUE(queue.push(wc, false, event));
      ASSERT_FALSE(event);
      model.push_back(wc);
  }
  ASSERT_EQ(queue.size(), model.size());
}

TEST(CompletionQueue, RandomOperations_AgreeWithModel) {
  Random random(0xC0);
  CompletionQueue queue(16, nullptr);
  std::deque<ibv_wc> model;
  std::uint64_t next_id = 0;
  for (int step = 0; step < 50'000; ++step) {
    ASSERT_NO_FATAL_FAILURE(step_against_model(random, queue, model, next_id));
  }
  EXPECT_FALSE(queue.in_error());
  EXPECT_GT(next_id, 10'000U);
}

TEST(CompletionQueue, ConcurrentConsumers_EveryCompletionGoesToOneOfThemInOrder) {
  constexpr std::uint64_t kCount = 60'000;
  constexpr std::uint32_t kDestroyedQpn = 77;
  constexpr std::uint64_t kIdOfDestroyed = ~std::uint64_t{0};  // taken or removed, as it happens
  CompletionQueue queue(32, nullptr);
  std::atomic<bool> produced{false};
  std::array<Ids, 2> taken;
  const auto consume = [&](Ids& into) {
    std::array<ibv_wc, 5> some;
    for (;;) {
      const bool last_look = produced.load(std::memory_order_acquire);
      const std::size_t count = queue.poll(some.size(), some.data());
      for (std::size_t i = 0; i < count; ++i) {
        if (some[i].wr_id != kIdOfDestroyed) into.push_back(some[i].wr_id);
      }
      if (count == 0 && last_look) return;
      if (count == 0) std::this_thread::yield();
    }
  };
  std::thread first(consume, std::ref(taken[0]));
  std::thread second(consume, std::ref(taken[1]));
  // This thread stands for all that hold the device's mutex.
  Random random(0x7EAD);
  for (std::uint64_t id = 0; id < kCount;) {
    if (queue.size() + 2 > queue.capacity()) {
      std::this_thread::yield();
      continue;
    }
    bool event = false;
    EXPECT_TRUE(queue.push(completion_of(id++), false, event));
    if (random.below(10) == 0) {
      // Between completions that stay, so that removal has to move them.
      EXPECT_TRUE(queue.push(completion_of(kIdOfDestroyed, kDestroyedQpn), false, event));
    }
    if (random.below(50) == 0) queue.remove_qp(kDestroyedQpn);
    if (random.below(500) == 0) static_cast<void>(queue.resize(16 + random.below(48)));
  }
  produced.store(true, std::memory_order_release);
  first.join();
  second.join();
  for (const Ids& ids : taken) EXPECT_TRUE(std::is_sorted(ids.begin(), ids.end()));
  Ids all;
  std::merge(taken[0].begin(), taken[0].end(), taken[1].begin(), taken[1].end(),
             std::back_inserter(all));
  ASSERT_EQ(all.size(), kCount);
  for (std::uint64_t id = 0; id < kCount; ++id) ASSERT_EQ(all[id], id);
}

}  // namespace
}  // namespace braid::roce
