#include <algorithm>

#include "verbs/conformance/conformance_fixture.h"

// Messages around a gigabyte, in one WR. Needs twice that memory and a bed that is quick enough.
namespace braid::verbs::conformance {
namespace {

constexpr std::uint64_t kGigabyte = 1U << 30U;

/// The largest of the sizes around a gigabyte that the port takes; 0 when it takes none.
std::uint64_t size_for(const Endpoint& endpoint) {
  const std::uint64_t limit = endpoint.port.max_msg_sz;
  return limit > kGigabyte ? kGigabyte + 1 : limit == kGigabyte ? kGigabyte : 0;
}

// Fault: A14
TEST_P(HugeMessages, WriteOfAGigabyteAndReadBack_ExactBytes) {
  if (!bed_->carries_huge_messages()) GTEST_SKIP() << "the bed does not carry huge messages";
  connect();
  const std::uint64_t bytes = size_for(*a_);
  if (bytes == 0) GTEST_SKIP() << "the port takes " << a_->port.max_msg_sz << " bytes at most";
  const auto local = a_->memory(bytes);
  const auto remote = b_->memory(bytes);
  // In place and compared in place: copies would double the memory.
  for (std::uint64_t i = 0; i < bytes; ++i) {
    local->data()[i] = static_cast<std::uint8_t>(i * 0x9E3779B1U >> 24U);
  }
  SendWr write(IBV_WR_RDMA_WRITE);
  ASSERT_EQ(run(write.from(*local, 0, bytes).to(*remote)), IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(local->data(), local->data() + bytes, remote->data()));

  local->fill(0);
  SendWr read(IBV_WR_RDMA_READ);
  ASSERT_EQ(run(read.from(*local, 0, bytes).to(*remote)), IBV_WC_SUCCESS);
  EXPECT_TRUE(std::equal(local->data(), local->data() + bytes, remote->data()));
}

}  // namespace
}  // namespace braid::verbs::conformance
