#include <algorithm>

#include "verbs/conformance/conformance_fixture.h"

// Memory regions: addresses of the caller's choice, access rules, re-registration.
namespace braid::verbs::conformance {
namespace {

TEST_P(Registration, ZeroBased_BothSidesCountFromZero) {
  connect();
  Memory source(a_->api, a_->pd, 5000, kAllAccess | IBV_ACCESS_ZERO_BASED, 0);
  Memory target(b_->api, b_->pd, 5000, kAllAccess | IBV_ACCESS_ZERO_BASED, 0);
  source.set(0, pattern(5000, 1));
  target.fill(0);
  SendWr wr(IBV_WR_RDMA_WRITE);
  wr.sge(100, 4000, source.lkey()).to_address(900, target.rkey());
  ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
  EXPECT_EQ(target.get(900, 4000), source.get(100, 4000));
  EXPECT_EQ(target.get(0, 900), Bytes(900, 0));
  SendWr read(IBV_WR_RDMA_READ);
  read.sge(0, 50, source.lkey()).to_address(4950, target.rkey());
  ASSERT_EQ(run(read), IBV_WC_SUCCESS);
  EXPECT_EQ(source.get(0, 50), target.get(4950, 50));
  SendWr beyond(IBV_WR_RDMA_WRITE);
  beyond.sge(0, 1, source.lkey()).to_address(5000, target.rkey());
  EXPECT_EQ(run(beyond), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Registration, AddressOfChoice_IsWhatWrsUse) {
  connect();
  constexpr std::uint64_t kIova = 0x7000'0000'0000;
  const auto source = a_->memory(64);
  Memory target(b_->api, b_->pd, 8192, kAllAccess, kIova);
  source->set(0, pattern(64, 2));
  SendWr wr(IBV_WR_RDMA_WRITE);
  wr.from(*source, 0, 64).to_address(kIova + 8192 - 64, target.rkey());
  ASSERT_EQ(run(wr), IBV_WC_SUCCESS);
  EXPECT_EQ(target.get(8192 - 64, 64), source->get(0, 64));
  SendWr by_pointer(IBV_WR_RDMA_WRITE);
  by_pointer.from(*source, 0, 64)
      .to_address(reinterpret_cast<std::uint64_t>(target.data()), target.rkey());
  EXPECT_EQ(run(by_pointer), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Registration, RemoteWriteWithoutLocalWrite_Refused) {
  make();
  alignas(8) std::uint8_t bytes[64] = {};
  const auto address = reinterpret_cast<std::uint64_t>(bytes);
  errno = 0;
  EXPECT_EQ(a_->api.reg_mr_iova(a_->pd, bytes, 64, address, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(a_->api.reg_mr_iova(a_->pd, bytes, 64, address, IBV_ACCESS_REMOTE_ATOMIC), nullptr);
  ibv_mr* read_only = a_->api.reg_mr_iova(a_->pd, bytes, 64, address, IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(read_only, nullptr);
  EXPECT_EQ(a_->api.dereg_mr(read_only), 0);
}

TEST_P(Registration, Fields_SayWhatWasRegistered) {
  make();
  const auto memory = a_->memory(777);
  EXPECT_EQ(memory->mr()->addr, memory->data());
  EXPECT_EQ(memory->mr()->length, 777U);
  EXPECT_EQ(memory->mr()->pd, a_->pd);
  EXPECT_EQ(memory->mr()->context, a_->side.context);
}

TEST_P(Registration, SameBytesTwice_TwoKeysEachWithItsRights) {
  connect();
  const auto source = a_->memory(64);
  source->fill(0x21);
  const auto writable = b_->memory(64);
  ibv_mr* readable = b_->api.reg_mr_iova(b_->pd, writable->data(), 64, writable->address(),
                                         IBV_ACCESS_REMOTE_READ);
  ASSERT_NE(readable, nullptr);
  EXPECT_NE(readable->rkey, writable->rkey());
  SendWr by_writable(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(by_writable.from(*source, 0, 64).to(*writable)), IBV_WC_SUCCESS);
  SendWr by_readable(IBV_WR_RDMA_WRITE);
  by_readable.from(*source, 0, 64).to_address(writable->address(), readable->rkey);
  EXPECT_EQ(run(by_readable), IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b_->api.dereg_mr(readable), 0);
}

TEST_P(Registration, RegisteredAgain_OldKeyDoesNotWork) {
  connect();
  const auto source = a_->memory(64);
  const auto first = b_->memory(64);
  const std::uint32_t old_key = first->rkey();
  first->deregister();
  ibv_mr* second = b_->api.reg_mr_iova(b_->pd, first->data(), 64, first->address(), kAllAccess);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(second->rkey, old_key);
  SendWr fresh(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(fresh.from(*source, 0, 64).to_address(first->address(), second->rkey)),
            IBV_WC_SUCCESS);
  SendWr stale(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(stale.from(*source, 0, 64).to_address(first->address(), old_key)),
            IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(b_->api.dereg_mr(second), 0);
}

TEST_P(Registration, Rereg_NewRightsHold) {
  connect();
  const auto source = a_->memory(64);
  const auto target = b_->memory(64);
  const int error = b_->api.rereg_mr(target->mr(), IBV_REREG_MR_CHANGE_ACCESS, nullptr, nullptr, 0,
                                     IBV_ACCESS_REMOTE_READ);
  if (error != 0 && (errno == ENOSYS || errno == EOPNOTSUPP)) {
    GTEST_SKIP() << "rereg_mr is not supported";
  }
  ASSERT_EQ(error, 0);
  SendWr read(IBV_WR_RDMA_READ);
  EXPECT_EQ(run(read.from(*source, 0, 64).to(*target)), IBV_WC_SUCCESS);
  SendWr write(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(write.from(*source, 0, 64).to(*target)), IBV_WC_REM_ACCESS_ERR);
}

TEST_P(Registration, ManyRegions_AllReachable) {
  connect();
  const auto source = a_->memory(8);
  source->set_word(0, 0x1122334455667788);
  std::vector<std::unique_ptr<Memory>> regions;
  for (std::size_t i = 0; i < 100; ++i) regions.push_back(b_->memory(8));
  for (std::size_t i = 0; i < 100; ++i) {
    SendWr wr(IBV_WR_RDMA_WRITE);
    ASSERT_EQ(wr.from(*source, 0, 8).to(*regions[i]).post(a_->qp), 0);
  }
  ASSERT_TRUE(wait_sends(*a_, 100));
  for (const auto& region : regions) EXPECT_EQ(region->word(0), 0x1122334455667788U);
}

TEST_P(Registration, TargetDeregisteredInFlight_NothingIsWrittenAfterwards) {
  connect();
  constexpr std::size_t kBytes = 4U << 20U;
  const auto source = a_->memory(kBytes);
  const auto target = b_->memory(kBytes);
  source->fill(0x11);
  SendWr wr(IBV_WR_RDMA_WRITE);
  ASSERT_EQ(wr.from(*source, 0, kBytes).to(*target).post(a_->qp), 0);
  target->deregister();
  target->fill(0x99);
  ASSERT_TRUE(wait_sends(*a_, 1));
  // Real time may have let the whole message through before.
  EXPECT_TRUE(a_->sends[0].status == IBV_WC_REM_ACCESS_ERR || a_->sends[0].status == IBV_WC_SUCCESS)
      << ibv_wc_status_str(a_->sends[0].status);
  EXPECT_EQ(target->get(0, kBytes), Bytes(kBytes, 0x99));
}

TEST_P(Registration, SourceDeregisteredInFlight_ItsLaterBytesAreNotSent) {
  connect();
  constexpr std::size_t kBytes = 4U << 20U;
  const auto source = a_->memory(kBytes);
  const auto target = b_->memory(kBytes);
  source->fill(0x11);
  target->fill(0);
  SendWr wr(IBV_WR_RDMA_WRITE);
  ASSERT_EQ(wr.from(*source, 0, kBytes).to(*target).post(a_->qp), 0);
  source->deregister();
  source->fill(0x99);
  ASSERT_TRUE(wait_sends(*a_, 1));
  EXPECT_TRUE(a_->sends[0].status == IBV_WC_LOC_PROT_ERR || a_->sends[0].status == IBV_WC_SUCCESS)
      << ibv_wc_status_str(a_->sends[0].status);
  settle();
  const Bytes arrived = target->get(0, kBytes);
  EXPECT_EQ(std::count(arrived.begin(), arrived.end(), std::uint8_t{0x99}), 0);
}

TEST_P(Registration, ReadSourceDeregisteredInFlight_AccessErrorOrTheOldBytes) {
  connect();
  constexpr std::size_t kBytes = 4U << 20U;
  const auto target = a_->memory(kBytes);
  const auto source = b_->memory(kBytes);
  target->fill(0);
  source->fill(0x11);
  SendWr wr(IBV_WR_RDMA_READ);
  ASSERT_EQ(wr.from(*target, 0, kBytes).to(*source).post(a_->qp), 0);
  source->deregister();
  source->fill(0x99);
  ASSERT_TRUE(wait_sends(*a_, 1));
  EXPECT_TRUE(a_->sends[0].status == IBV_WC_REM_ACCESS_ERR || a_->sends[0].status == IBV_WC_SUCCESS)
      << ibv_wc_status_str(a_->sends[0].status);
  const Bytes arrived = target->get(0, kBytes);
  EXPECT_EQ(std::count(arrived.begin(), arrived.end(), std::uint8_t{0x99}), 0);
}

}  // namespace
}  // namespace braid::verbs::conformance
