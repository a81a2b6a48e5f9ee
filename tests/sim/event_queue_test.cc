#include "sim/event_queue.h"

#include <gtest/gtest.h>

#include <set>
#include <tuple>

#include "base/random.h"
#include "sim/audit_hash.h"
#include "sim/packet_pool.h"

namespace braid::sim {
namespace {

TEST(EventQueue, RandomPushesAndPops_ComeInTheOrderOfASet) {
  Random random(7);
  EventQueue queue;
  std::set<std::tuple<std::int64_t, std::uint64_t, std::uint32_t>> model;
  std::uint64_t order = 0;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    if (model.empty() || random.below(5) < 3) {
      // Few different times, so that ties are common.
      const auto at = static_cast<std::int64_t>(random.below(50));
      queue.push(at, EventKind::kWake, i);
      model.insert({at, order++, i});
    } else {
      ASSERT_EQ(queue.top().at_ns, std::get<0>(*model.begin()));
      ASSERT_EQ(queue.top().subject, std::get<2>(*model.begin()));
      queue.pop();
      model.erase(model.begin());
    }
    ASSERT_EQ(queue.size(), model.size());
  }
}

TEST(AuditHash, OrderOfWords_Matters) {
  AuditHash one, two;
  one.add(1);
  one.add(2);
  two.add(2);
  two.add(1);
  EXPECT_NE(one.value(), two.value());
}

TEST(AuditHash, KnownWords_KnownValue) {
  // Golden: it must not differ between machines and compilers.
  AuditHash hash;
  hash.add(1);
  hash.add(0xFFFFFFFFFFFFFFFFU);
  EXPECT_EQ(hash.value(), 0x33B62A9E5B7A1DD6U);
}

TEST(PacketPool, AtTheLimit_GivesOneMoreOnlyAfterARelease) {
  PacketPool pool(2);
  const std::uint32_t small = pool.allocate(PacketPool::kSmallBytes);
  const std::uint32_t large = pool.allocate(PacketPool::kSmallBytes + 1);
  ASSERT_NE(small, kNone);
  ASSERT_NE(large, kNone);
  EXPECT_FALSE(pool[small].is_large);
  EXPECT_TRUE(pool[large].is_large);
  EXPECT_EQ(pool.allocate(1), kNone);
  pool.release(small);
  EXPECT_EQ(pool.allocate(1), small);
  EXPECT_EQ(pool.high_water(), 2U);
}

TEST(PacketPool, SizeBeyondTheLargest_IsRefused) {
  PacketPool pool(4);
  EXPECT_NE(pool.allocate(PacketPool::kLargeBytes), kNone);
  EXPECT_EQ(pool.allocate(PacketPool::kLargeBytes + 1), kNone);
}

TEST(PacketPool, Clone_CopiesBytesIntoItsOwnBuffer) {
  PacketPool pool(2);
  const std::uint32_t one = pool.allocate(3);
  pool[one].payload[2] = 9;
  pool[one].source_port = 77;
  const std::uint32_t two = pool.clone(one);
  ASSERT_NE(two, kNone);
  EXPECT_NE(pool[one].payload, pool[two].payload);
  EXPECT_EQ(pool[two].payload[2], 9);
  EXPECT_EQ(pool[two].source_port, 77);
  EXPECT_EQ(pool.clone(one), kNone);
}

}  // namespace
}  // namespace braid::sim
