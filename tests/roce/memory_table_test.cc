#include "roce/memory_table.h"

#include <gtest/gtest.h>
#include <infiniband/verbs.h>

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

namespace braid::roce {
namespace {

constexpr PdId kPd{7};
constexpr PdId kOtherPd{8};
constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                           IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

class MemoryTableTest : public ::testing::Test {
 protected:
  std::uint32_t insert(std::uint64_t iova, std::uint64_t length_bytes, int access = kAllAccess) {
    const auto key = table_.insert(kPd, memory_.data(), iova, length_bytes, access);
    EXPECT_TRUE(key.has_value());
    return key.has_value() ? *key : 0;
  }
  std::uint8_t* resolve(std::uint32_t key, std::uint64_t address, std::uint64_t bytes) {
    return table_.resolve(key, kPd, 0, address, bytes);
  }

  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(4096);
  Random random_{0x3E3};
  MemoryTable table_{4, random_};
};

TEST_F(MemoryTableTest, Resolve_RangeAtBothEnds_FoundAndOnePastThemNull) {
  const std::uint32_t key = insert(0x10000, 100);
  EXPECT_EQ(resolve(key, 0x10000, 100), memory_.data());
  EXPECT_EQ(resolve(key, 0x10000, 101), nullptr);
  EXPECT_EQ(resolve(key, 0x10000 + 99, 1), memory_.data() + 99);
  EXPECT_EQ(resolve(key, 0x10000 + 99, 2), nullptr);
  EXPECT_EQ(resolve(key, 0x10000 + 100, 1), nullptr);
  EXPECT_EQ(resolve(key, 0x10000 - 1, 1), nullptr);
  EXPECT_EQ(resolve(key, 0x10000 - 1, 101), nullptr);
}

TEST_F(MemoryTableTest, Resolve_NoBytes_FoundUpToTheEndInclusive) {
  const std::uint32_t key = insert(0x10000, 100);
  EXPECT_EQ(resolve(key, 0x10000, 0), memory_.data());
  EXPECT_EQ(resolve(key, 0x10000 + 100, 0), memory_.data() + 100);
  EXPECT_EQ(resolve(key, 0x10000 + 101, 0), nullptr);
  EXPECT_EQ(resolve(key, 0x10000 - 1, 0), nullptr);
  EXPECT_EQ(resolve(key ^ 1, 0x10000, 0), nullptr);
}

TEST_F(MemoryTableTest, Resolve_LengthThatWraps_Null) {
  const std::uint32_t key = insert(0x10000, 100);
  EXPECT_EQ(resolve(key, 0x10000 + 50, kMax), nullptr);
  EXPECT_EQ(resolve(key, 0x10000 + 50, kMax - 0x10000 - 49), nullptr);
  EXPECT_EQ(resolve(key, kMax, 2), nullptr);
}

TEST_F(MemoryTableTest, Resolve_ZeroBasedRegion_CountsFromZero) {
  const std::uint32_t key = insert(0, 100);
  EXPECT_EQ(resolve(key, 0, 100), memory_.data());
  EXPECT_EQ(resolve(key, 99, 1), memory_.data() + 99);
  EXPECT_EQ(resolve(key, 100, 1), nullptr);
  EXPECT_EQ(resolve(key, kMax, 1), nullptr);
}

TEST_F(MemoryTableTest, Insert_RangeUpToTheLastAddress_TakenAndOnePastItRefused) {
  const std::uint32_t key = insert(kMax - 99, 100);
  EXPECT_EQ(resolve(key, kMax, 1), memory_.data() + 99);
  EXPECT_EQ(resolve(key, kMax, 2), nullptr);
  EXPECT_EQ(resolve(key, 0, 1), nullptr);
  const auto past = table_.insert(kPd, memory_.data(), kMax - 99, 101, kAllAccess);
  EXPECT_EQ(past.error().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(MemoryTableTest, Insert_RemoteWritingWithoutLocalWriting_Refused) {
  for (const int access : {int{IBV_ACCESS_REMOTE_WRITE}, int{IBV_ACCESS_REMOTE_ATOMIC}}) {
    const auto refused = table_.insert(kPd, memory_.data(), 0, 100, access);
    EXPECT_EQ(refused.error().code(), StatusCode::kInvalidArgument);
    insert(0, 100, access | IBV_ACCESS_LOCAL_WRITE);
  }
  insert(0, 100, IBV_ACCESS_REMOTE_READ);
  insert(0, 100, 0);
}

TEST_F(MemoryTableTest, Insert_MoreThanTheCapacity_OutOfMemoryUntilOneIsErased) {
  std::vector<std::uint32_t> keys;
  for (int i = 0; i < 4; ++i) keys.push_back(insert(0, 100));
  const auto full = table_.insert(kPd, memory_.data(), 0, 100, kAllAccess);
  EXPECT_EQ(full.error().code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(table_.size(), 4U);
  EXPECT_TRUE(table_.erase(keys[2]));
  EXPECT_EQ(table_.size(), 3U);
  insert(0, 100);
  EXPECT_EQ(table_.size(), 4U);
}

TEST_F(MemoryTableTest, Find_AccessOrDomainThatDiffers_Null) {
  const std::uint32_t key = insert(0, 100, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  EXPECT_NE(table_.find(key, kPd, 0), nullptr);
  EXPECT_NE(table_.find(key, kPd, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ), nullptr);
  EXPECT_EQ(table_.find(key, kPd, IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(table_.find(key, kPd, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE), nullptr);
  EXPECT_EQ(table_.find(key, kOtherPd, 0), nullptr);
  EXPECT_EQ(table_.resolve(key, kOtherPd, 0, 0, 1), nullptr);
  EXPECT_EQ(table_.resolve(key, kPd, IBV_ACCESS_REMOTE_WRITE, 0, 1), nullptr);
}

TEST_F(MemoryTableTest, Find_EveryOtherKeyOfTheSlotAndSlotsBeyond_Null) {
  const std::uint32_t key = insert(0, 100);
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    const std::uint32_t other = (key & ~0xFFU) | byte;
    EXPECT_EQ(table_.find(other, kPd, 0) != nullptr, other == key) << other;
  }
  for (const std::uint32_t slot : {1U, 3U, 4U, 5U, 0xFFFFFFU}) {
    EXPECT_EQ(table_.find(slot << 8 | (key & 0xFF), kPd, 0), nullptr) << slot;
  }
}

TEST_F(MemoryTableTest, Insert_SlotUsedAgain_NeverGivesTheKeyBefore) {
  std::uint32_t previous = insert(0, 100);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_TRUE(table_.erase(previous));
    ASSERT_FALSE(table_.erase(previous));
    ASSERT_EQ(table_.find(previous, kPd, 0), nullptr);
    const std::uint32_t next = insert(0, 100);
    ASSERT_NE(next, previous);
    ASSERT_EQ(next >> 8, previous >> 8);
    ASSERT_NE(next & 0xFF, 0U);
    previous = next;
  }
}

TEST_F(MemoryTableTest, Replace_NewRangeAndAccess_TakeEffectUnderANewKey) {
  const std::uint32_t key = insert(0x1000, 100);
  MemoryRegion with = *table_.find(key, kPd, 0);
  with.iova = 0x9000;
  with.length_bytes = 10;
  with.base = memory_.data() + 500;
  with.pd = kOtherPd;
  with.access = 0;
  const auto renewed = table_.replace(key, with);
  ASSERT_TRUE(renewed.has_value());
  EXPECT_NE(*renewed, key);
  EXPECT_EQ(table_.find(key, kPd, 0), nullptr);
  EXPECT_EQ(table_.find(key, kOtherPd, 0), nullptr);
  EXPECT_EQ(table_.resolve(*renewed, kOtherPd, 0, 0x9009, 1), memory_.data() + 509);
  EXPECT_EQ(table_.resolve(*renewed, kOtherPd, 0, 0x900A, 1), nullptr);
  EXPECT_EQ(table_.size(), 1U);
}

TEST_F(MemoryTableTest, Replace_Refused_KeepsTheRegistration) {
  const std::uint32_t key = insert(0x1000, 100);
  MemoryRegion with = *table_.find(key, kPd, 0);
  with.length_bytes = kMax;
  EXPECT_EQ(table_.replace(key, with).error().code(), StatusCode::kInvalidArgument);
  with.length_bytes = 50;
  with.access = IBV_ACCESS_REMOTE_WRITE;
  EXPECT_EQ(table_.replace(key, with).error().code(), StatusCode::kInvalidArgument);
  with.access = 0;
  EXPECT_EQ(table_.replace(key ^ 1, with).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(table_.replace(0x400U << 8 | 1, with).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(resolve(key, 0x1000, 100), memory_.data());
  ASSERT_TRUE(table_.erase(key));
  EXPECT_EQ(table_.replace(key, with).error().code(), StatusCode::kNotFound);
}

/// What a table must know, in the plainest form.
struct ModelRegion {
  std::uint64_t iova;
  std::uint64_t length_bytes;
  std::uint8_t* base;
  PdId pd;
  int access;
};

std::uint8_t* model_resolve(const std::map<std::uint32_t, ModelRegion>& model, std::uint32_t key,
                            PdId pd, int access, std::uint64_t address, std::uint64_t bytes) {
  const auto found = model.find(key);
  if (found == model.end()) return nullptr;
  const ModelRegion& region = found->second;
  if (region.pd != pd || (access & ~region.access) != 0) return nullptr;
  __extension__ using Wide = unsigned __int128;
  const bool inside =
      address >= region.iova && Wide{address} + bytes <= Wide{region.iova} + region.length_bytes;
  return inside ? region.base + (address - region.iova) : nullptr;
}

class MemoryTableModelTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kCapacity = 16;

  ModelRegion random_region() {
    const std::uint64_t length = random_.below(2049);
    const bool last = random_.below(8) == 0 && length != 0;
    return {last ? kMax - length + 1 : random_.below(64) * 1024, length,
            memory_.data() + random_.below(2048), random_pd(),
            static_cast<int>(random_.below(16)) | IBV_ACCESS_LOCAL_WRITE};
  }
  PdId random_pd() { return PdId{static_cast<std::uint32_t>(random_.below(2))}; }
  /// One of the latest keys, registered still or not.
  std::uint32_t random_key() {
    return keys_[keys_.size() - 1 - random_.below(std::min<std::size_t>(keys_.size(), 40))];
  }
  void remember(std::uint32_t key, const ModelRegion& region) {
    ASSERT_TRUE(model_.emplace(key, region).second);
    keys_.push_back(key);
  }

  void insert() {
    const ModelRegion region = random_region();
    const auto key =
        table_.insert(region.pd, region.base, region.iova, region.length_bytes, region.access);
    ASSERT_EQ(key.has_value(), model_.size() < kCapacity);
    if (key.has_value()) remember(*key, region);
  }
  void replace() {
    const ModelRegion region = random_region();
    MemoryRegion with;
    with.iova = region.iova;
    with.length_bytes = region.length_bytes;
    with.base = region.base;
    with.pd = region.pd;
    with.access = region.access;
    const std::uint32_t key = random_key();
    const auto renewed = table_.replace(key, with);
    ASSERT_EQ(renewed.has_value(), model_.erase(key) == 1);
    if (renewed.has_value()) remember(*renewed, region);
  }
  void erase() {
    const std::uint32_t key = random_key();
    ASSERT_EQ(table_.erase(key), model_.erase(key) == 1);
  }
  void resolve() {
    const std::uint32_t key = random_key();
    const auto known = model_.find(key);
    const std::uint64_t start = known == model_.end() ? 0 : known->second.iova;
    const std::uint64_t address = start + random_.below(2100) - 20;
    const std::uint64_t bytes = random_.below(20) == 0 ? random_.next() : random_.below(600);
    int access = static_cast<int>(random_.below(16));
    PdId pd = random_pd();
    if (known != model_.end() && random_.below(2) == 0) {  // as it should be, so that ranges decide
      access &= known->second.access;
      pd = known->second.pd;
    }
    std::uint8_t* const expected = model_resolve(model_, key, pd, access, address, bytes);
    ASSERT_EQ(table_.resolve(key, pd, access, address, bytes), expected);
    if (expected != nullptr) ++found_count_;
  }

  Random random_{0x7AB1E};
  std::vector<std::uint8_t> memory_ = std::vector<std::uint8_t>(4096);
  MemoryTable table_{kCapacity, random_};
  std::map<std::uint32_t, ModelRegion> model_;
  std::vector<std::uint32_t> keys_{0};
  int found_count_ = 0;
};

TEST_F(MemoryTableModelTest, RandomOperations_AgreeWithModel) {
  for (int step = 0; step < 60'000; ++step) {
    switch (random_.below(10)) {
      case 0:
      case 1: ASSERT_NO_FATAL_FAILURE(insert()); break;
      case 2: ASSERT_NO_FATAL_FAILURE(erase()); break;
      case 3: ASSERT_NO_FATAL_FAILURE(replace()); break;
      default: ASSERT_NO_FATAL_FAILURE(resolve());
    }
    ASSERT_EQ(table_.size(), model_.size());
  }
  EXPECT_GT(found_count_, 1000);
}

}  // namespace
}  // namespace braid::roce
