#include "roce/send_queue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <vector>

#include "base/random.h"

namespace braid::roce {
namespace {

/// A send WR with its gather list, so that the list lives as long as the WR.
struct Request {
  explicit Request(std::vector<ibv_sge> list, ibv_wr_opcode opcode = IBV_WR_SEND,
                   unsigned flags = 0)
      : sges(std::move(list)) {
    wr.opcode = opcode;
    wr.send_flags = flags;
  }
  int post_to(SendQueue& queue, bool signal_all = false) {
    wr.sg_list = sges.data();
    wr.num_sge = static_cast<int>(sges.size());
    return queue.post(wr, signal_all);
  }
  std::vector<ibv_sge> sges;
  ibv_send_wr wr{};
};

ibv_sge entry_of(const std::vector<std::uint8_t>& bytes) {
  return {reinterpret_cast<std::uint64_t>(bytes.data()), static_cast<std::uint32_t>(bytes.size()),
          0};
}

TEST(SendQueue, Post_DepthExactlyTaken_OnePastIsNoMemoryUntilOneCompletes) {
  for (const std::uint32_t depth : {1U, 2U, 3U, 5U, 8U, 129U}) {
    SendQueue queue(depth, 1, 0);
    for (std::uint32_t i = 0; i < depth; ++i) {
      EXPECT_EQ(queue.room(), depth - i);
      EXPECT_EQ(Request({}).post_to(queue), 0) << depth;
    }
    EXPECT_EQ(queue.room(), 0U);
    EXPECT_EQ(Request({}).post_to(queue), ENOMEM) << depth;
    EXPECT_EQ(queue.posted(), depth) << "what is refused takes no slot";
    queue.pop_oldest();
    EXPECT_EQ(queue.room(), 1U);
    EXPECT_EQ(Request({}).post_to(queue), 0) << depth;
    EXPECT_EQ(Request({}).post_to(queue), ENOMEM) << depth;
  }
}

TEST(SendQueue, Post_EntriesExactlyTaken_OnePastOrFewerThanNoneInvalid) {
  SendQueue queue(4, 3, 0);
  EXPECT_EQ(Request(std::vector<ibv_sge>(4)).post_to(queue), EINVAL);
  ibv_send_wr negative{};
  negative.opcode = IBV_WR_SEND;
  negative.num_sge = -1;
  EXPECT_EQ(queue.post(negative, false), EINVAL);
  EXPECT_TRUE(queue.empty());
  EXPECT_EQ(Request({{10, 1, 100}, {20, 2, 200}, {30, 3, 300}}).post_to(queue), 0);
  EXPECT_EQ(queue.oldest().length_bytes, 6U);
  const auto kept = queue.sges(queue.completed());
  ASSERT_EQ(kept.size(), 3U);
  EXPECT_EQ(kept[2].addr, 30U);
  EXPECT_EQ(kept[2].length, 3U);
  EXPECT_EQ(kept[2].lkey, 300U);
}

TEST(SendQueue, Post_NoEntriesAndNoInlineData_TakesEmptyMessagesOnly) {
  SendQueue queue(4, 0, 0);
  EXPECT_EQ(Request({}).post_to(queue), 0);
  EXPECT_EQ(queue.oldest().length_bytes, 0U);
  EXPECT_EQ(Request({}, IBV_WR_SEND, IBV_SEND_INLINE).post_to(queue), 0);
  EXPECT_EQ(Request(std::vector<ibv_sge>(1)).post_to(queue), EINVAL);
}

TEST(SendQueue, Post_InlineDataAtTheLimit_CopiedAndOnePastInvalid) {
  SendQueue queue(4, 2, 60);
  std::vector<std::uint8_t> first(33, 0xA1);
  std::vector<std::uint8_t> second(27, 0xB2);
  EXPECT_EQ(
      Request({entry_of(first), entry_of(second)}, IBV_WR_SEND, IBV_SEND_INLINE).post_to(queue), 0);
  std::vector<std::uint8_t> wanted(first);
  wanted.insert(wanted.end(), second.begin(), second.end());
  std::fill(first.begin(), first.end(), std::uint8_t{0});  // the caller's again at once
  EXPECT_TRUE(queue.oldest().inline_data);
  EXPECT_EQ(queue.oldest().length_bytes, 60U);
  EXPECT_TRUE(queue.sges(queue.completed()).empty());
  EXPECT_EQ(std::memcmp(queue.inline_data(queue.completed()), wanted.data(), 60), 0);
  second.push_back(0xB2);
  EXPECT_EQ(
      Request({entry_of(first), entry_of(second)}, IBV_WR_SEND, IBV_SEND_INLINE).post_to(queue),
      EINVAL);
  EXPECT_EQ(queue.posted(), 1U);
}

TEST(SendQueue, Post_InlineEmptyEntryWithoutAddress_IsSkipped) {
  SendQueue queue(1, 2, 16);
  const std::vector<std::uint8_t> bytes{5, 6, 7};
  EXPECT_EQ(Request({{0, 0, 0}, entry_of(bytes)}, IBV_WR_SEND, IBV_SEND_INLINE).post_to(queue), 0);
  EXPECT_EQ(std::memcmp(queue.inline_data(0), bytes.data(), 3), 0);
}

TEST(SendQueue, Post_InlineForWhatBringsDataBack_Invalid) {
  SendQueue queue(4, 1, 64);
  const std::vector<std::uint8_t> bytes(8);
  for (const ibv_wr_opcode opcode :
       {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    EXPECT_EQ(Request({entry_of(bytes)}, opcode, IBV_SEND_INLINE).post_to(queue), EINVAL) << opcode;
    EXPECT_EQ(Request({entry_of(bytes)}, opcode).post_to(queue), 0) << opcode;
  }
}

TEST(SendQueue, Post_MessageOfTwoGibibytes_TakenAndOneByteMoreInvalid) {
  SendQueue queue(2, 2, 0);
  EXPECT_EQ(Request({{0, 0x7FFFFFFF, 0}, {0, 1, 0}}).post_to(queue), 0);
  EXPECT_EQ(queue.oldest().length_bytes, 0x80000000U);
  EXPECT_EQ(Request({{0, 0x7FFFFFFF, 0}, {0, 2, 0}}).post_to(queue), EINVAL);
  EXPECT_EQ(Request({{0, 0xFFFFFFFF, 0}, {0, 1, 0}}).post_to(queue), EINVAL) << "wraps in 32 bits";
}

TEST(SendQueue, Post_AtomicOfEightBytes_TakenAndOfOneMoreOrLessInvalid) {
  SendQueue queue(4, 2, 0);
  for (const ibv_wr_opcode opcode : {IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD}) {
    EXPECT_EQ(Request({{0, 7, 0}}, opcode).post_to(queue), EINVAL);
    EXPECT_EQ(Request({{0, 9, 0}}, opcode).post_to(queue), EINVAL);
    EXPECT_EQ(Request({}, opcode).post_to(queue), EINVAL);
    EXPECT_EQ(Request({{0, 8, 0}}, opcode).post_to(queue), 0);
    EXPECT_EQ(Request({{0, 3, 0}, {8, 5, 0}}, opcode).post_to(queue), 0);
  }
}

TEST(SendQueue, Post_OpcodesOfOtherKinds_Invalid) {
  SendQueue queue(4, 1, 0);
  for (const ibv_wr_opcode opcode :
       {IBV_WR_LOCAL_INV, IBV_WR_BIND_MW, IBV_WR_SEND_WITH_INV, IBV_WR_TSO}) {
    EXPECT_EQ(Request({}, opcode).post_to(queue), EINVAL) << opcode;
  }
  EXPECT_TRUE(queue.empty());
}

TEST(SendQueue, Post_EveryField_ComesBackFromTheSlot) {
  SendQueue queue(2, 1, 0);
  Request write({}, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
  write.wr.wr_id = 0x1111222233334444;
  write.wr.imm_data = 0x55667788;
  write.wr.wr.rdma.remote_addr = 0x9999AAAABBBBCCCC;
  write.wr.wr.rdma.rkey = 0xDDEE;
  ASSERT_EQ(write.post_to(queue), 0);
  const SendWqe& wqe = queue.at(0);
  EXPECT_EQ(wqe.wr_id, 0x1111222233334444U);
  EXPECT_EQ(wqe.imm_network, 0x55667788U);
  EXPECT_EQ(wqe.remote_address, 0x9999AAAABBBBCCCCU);
  EXPECT_EQ(wqe.rkey, 0xDDEEU);
  EXPECT_TRUE(wqe.signaled && wqe.fence && !wqe.solicited && !wqe.inline_data && !wqe.sequenced);

  Request swap({{0, 8, 0}}, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_SEND_SOLICITED);
  swap.wr.wr.atomic.remote_addr = 0x1000;
  swap.wr.wr.atomic.rkey = 0x77;
  swap.wr.wr.atomic.compare_add = 3;
  swap.wr.wr.atomic.swap = 4;
  ASSERT_EQ(swap.post_to(queue), 0);
  const SendWqe& atomic = queue.at(1);
  EXPECT_EQ(atomic.remote_address, 0x1000U);
  EXPECT_EQ(atomic.rkey, 0x77U);
  EXPECT_EQ(atomic.compare_add, 3U);
  EXPECT_EQ(atomic.swap, 4U);
  EXPECT_TRUE(atomic.solicited && !atomic.signaled && !atomic.fence);
}

TEST(SendQueue, Post_QueueThatSignalsAll_SignalsWithoutTheFlag) {
  SendQueue queue(2, 1, 0);
  ASSERT_EQ(Request({}).post_to(queue, true), 0);
  ASSERT_EQ(Request({}).post_to(queue, false), 0);
  EXPECT_TRUE(queue.at(0).signaled);
  EXPECT_FALSE(queue.at(1).signaled);
}

TEST(SendQueue, Post_SlotUsedAgain_KeepsNothingOfItsLastRequest) {
  SendQueue queue(1, 1, 0);
  ASSERT_EQ(Request({{1, 2, 3}}, IBV_WR_SEND, IBV_SEND_FENCE).post_to(queue), 0);
  queue.oldest().sequenced = true;
  queue.oldest().status = IBV_WC_LOC_PROT_ERR;
  queue.pop_oldest();
  ASSERT_EQ(Request({}).post_to(queue), 0);
  const SendWqe& wqe = queue.oldest();
  EXPECT_FALSE(wqe.sequenced || wqe.fence);
  EXPECT_EQ(wqe.status, IBV_WC_SUCCESS);
  EXPECT_EQ(wqe.length_bytes, 0U);
  EXPECT_TRUE(queue.sges(queue.completed()).empty());
}

TEST(SendQueue, RandomOperations_EverySlotKeepsItsOwnPayload) {
  struct Kept {
    std::uint64_t wr_id;
    std::vector<ibv_sge> sges;
    std::vector<std::uint8_t> bytes;
  };
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    Random random(seed);
    const auto depth = static_cast<std::uint32_t>(1 + random.below(9));
    const auto max_sge = static_cast<std::uint32_t>(1 + random.below(4));
    const auto max_inline = static_cast<std::uint32_t>(random.below(100));
    SendQueue queue(depth, max_sge, max_inline);
    std::deque<Kept> model;
    for (std::uint64_t step = 0; step < 400; ++step) {
      if (random.below(5) < 3) {
        std::vector<std::uint8_t> bytes(random.below(max_inline + 2));
        for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.next());
        const bool inlined = random.below(2) == 0;
        Request request({entry_of(bytes)}, IBV_WR_SEND, inlined ? unsigned{IBV_SEND_INLINE} : 0U);
        request.wr.wr_id = step;
        while (request.sges.size() < random.below(max_sge + 1))
          request.sges.push_back({step, 0, 9});
        const bool full = model.size() == depth;
        const bool too_long = inlined && bytes.size() > max_inline;
        ASSERT_EQ(request.post_to(queue), full ? ENOMEM : too_long ? EINVAL : 0);
        if (full || too_long) continue;
        model.push_back({step, inlined ? std::vector<ibv_sge>() : request.sges,
                         inlined ? bytes : std::vector<std::uint8_t>()});
      } else if (!model.empty()) {
        queue.pop_oldest();
        model.pop_front();
      }
      ASSERT_EQ(queue.posted() - queue.completed(), model.size());
      for (std::uint32_t i = 0; i < model.size(); ++i) {
        const std::uint32_t index = queue.completed() + i;
        ASSERT_EQ(queue.at(index).wr_id, model[i].wr_id);
        const auto sges = queue.sges(index);
        ASSERT_EQ(sges.size(), model[i].sges.size());
        for (std::size_t k = 0; k < sges.size(); ++k) {
          ASSERT_EQ(sges[k].addr, model[i].sges[k].addr);
          ASSERT_EQ(sges[k].length, model[i].sges[k].length);
        }
        if (model[i].bytes.empty()) continue;
        ASSERT_EQ(
            std::memcmp(queue.inline_data(index), model[i].bytes.data(), model[i].bytes.size()), 0);
      }
    }
  }
}

}  // namespace
}  // namespace braid::roce
