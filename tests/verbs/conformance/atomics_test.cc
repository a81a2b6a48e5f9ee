#include "verbs/conformance/conformance_fixture.h"

// CMP_SWAP and FETCH_ADD. The original value comes back in the requester's host byte order.
namespace braid::verbs::conformance {
namespace {

SendWr compare_swap(const Memory& result, const Memory& target, std::uint64_t compare,
                    std::uint64_t swap, std::size_t offset = 0) {
  SendWr wr(IBV_WR_ATOMIC_CMP_AND_SWP);
  wr.from(result, 0, 8).to(target, offset).compare_add(compare).swap(swap);
  return wr;
}

SendWr fetch_add(const Memory& result, const Memory& target, std::uint64_t add,
                 std::size_t offset = 0) {
  SendWr wr(IBV_WR_ATOMIC_FETCH_AND_ADD);
  wr.from(result, 0, 8).to(target, offset).compare_add(add);
  return wr;
}

TEST_P(Atomics, CompareSwap_Equal_Swaps) {
  connect();
  const auto result = a_->memory(8);
  const auto target = b_->memory(24);
  target->fill(0x11);
  target->set_word(8, 0x0123456789ABCDEF);
  SendWr wr = compare_swap(*result, *target, 0x0123456789ABCDEF, 0xFEDCBA9876543210, 8);
  ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
  EXPECT_EQ(a_->sends.back().opcode, IBV_WC_COMP_SWAP);
  EXPECT_EQ(a_->sends.back().byte_len, 8U);
  EXPECT_EQ(result->word(0), 0x0123456789ABCDEFU);
  EXPECT_EQ(target->word(8), 0xFEDCBA9876543210U);
  EXPECT_EQ(target->word(0), 0x1111111111111111U);
  EXPECT_EQ(target->word(16), 0x1111111111111111U);
}

TEST_P(Atomics, CompareSwap_Different_LeavesAndReports) {
  connect();
  const auto result = a_->memory(8);
  const auto target = b_->memory(8);
  target->set_word(0, 5);
  SendWr wr = compare_swap(*result, *target, 6, 7);
  ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
  EXPECT_EQ(result->word(0), 5U);
  EXPECT_EQ(target->word(0), 5U);
}

TEST_P(Atomics, FetchAdd_AddsAndReturnsTheOriginal) {
  connect();
  const auto result = a_->memory(8);
  const auto target = b_->memory(8);
  target->set_word(0, 40);
  SendWr wr = fetch_add(*result, *target, 2);
  ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
  EXPECT_EQ(a_->sends.back().opcode, IBV_WC_FETCH_ADD);
  EXPECT_EQ(result->word(0), 40U);
  EXPECT_EQ(target->word(0), 42U);
}

TEST_P(Atomics, FetchAdd_WrapsAt64Bits) {
  connect();
  const auto result = a_->memory(8);
  const auto target = b_->memory(8);
  target->set_word(0, ~std::uint64_t{0});
  SendWr wr = fetch_add(*result, *target, 3);
  ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
  EXPECT_EQ(result->word(0), ~std::uint64_t{0});
  EXPECT_EQ(target->word(0), 2U);
}

TEST_P(Atomics, ManyInFlight_EachSeesTheOneBefore) {
  connect();
  constexpr std::size_t kCount = 64;
  const auto results = a_->memory(8 * kCount);
  const auto target = b_->memory(8);
  target->set_word(0, 1000);
  for (std::size_t i = 0; i < kCount; ++i) {
    SendWr wr(IBV_WR_ATOMIC_FETCH_AND_ADD, i);
    ASSERT_EQ(wr.from(*results, 8 * i, 8).to(*target).compare_add(1).post(a_->qp), 0);
  }
  ASSERT_TRUE(wait_sends(*a_, kCount));
  for (std::size_t i = 0; i < kCount; ++i) {
    EXPECT_EQ(a_->sends[i].status, IBV_WC_SUCCESS);
    EXPECT_EQ(a_->sends[i].wr_id, i);
    EXPECT_EQ(results->word(8 * i), 1000 + i);
  }
  EXPECT_EQ(target->word(0), 1000 + kCount);
}

TEST_P(Atomics, MisalignedAddress_InvalidRequestAndUntouched) {
  connect();
  const auto result = a_->memory(8);
  const auto target = b_->memory(32);
  target->fill(0x22);
  // The first aligned address of the region plus one is never aligned.
  SendWr wr = fetch_add(*result, *target, 1, 1 + (8 - target->address() % 8) % 8);
  EXPECT_EQ(run(wr), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(target->get(0, 32), Bytes(32, 0x22));
}

TEST_P(Atomics, RegionWithoutRemoteAtomic_AccessError) {
  connect();
  const auto result = a_->memory(8);
  const auto target =
      b_->memory(8, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
  target->set_word(0, 9);
  SendWr wr = fetch_add(*result, *target, 1);
  EXPECT_EQ(run(wr), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(target->word(0), 9U);
}

TEST_P(Atomics, QpWithoutRemoteAtomic_InvalidRequest) {
  RcOptions rc = patient();
  rc.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
  connect({}, rc);
  const auto result = a_->memory(8);
  const auto target = b_->memory(8);
  target->set_word(0, 9);
  SendWr wr = compare_swap(*result, *target, 9, 1);
  EXPECT_EQ(run(wr), IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(target->word(0), 9U);
}

TEST_P(Atomics, PastTheRegion_AccessError) {
  connect();
  const auto result = a_->memory(8);
  const auto target = b_->memory(16);
  SendWr wr = fetch_add(*result, *target, 1, 16);
  EXPECT_EQ(run(wr), IBV_WC_REM_ACCESS_ERR);
}

}  // namespace
}  // namespace braid::verbs::conformance
