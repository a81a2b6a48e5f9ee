#include "roce/scatter.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include "base/random.h"

namespace braid::roce {
namespace {

constexpr PdId kPd{7};
constexpr PdId kOtherPd{8};
constexpr std::uint64_t kIova = 0x10000;
constexpr std::size_t kBytes = 64;

class ScatterTest : public ::testing::Test {
 protected:
  ScatterTest() { std::iota(payload_.begin(), payload_.end(), std::uint8_t{1}); }

  std::uint32_t insert(int access = IBV_ACCESS_LOCAL_WRITE) {
    const auto key = table_.insert(kPd, memory_.data(), kIova, kBytes, access);
    EXPECT_TRUE(key.has_value());
    return key.has_value() ? *key : 0;
  }
  bool scatter_into(const std::vector<ibv_sge>& sges, std::uint64_t offset, std::size_t bytes,
                    PdId pd = kPd) {
    return scatter(table_, pd, sges, offset, {payload_.data(), bytes});
  }
  bool untouched() const { return memory_ == std::array<std::uint8_t, kBytes>{}; }

  std::array<std::uint8_t, kBytes> memory_{};
  std::array<std::uint8_t, kBytes> payload_{};
  Random random_{0x5CA};
  MemoryTable table_{8, random_};
};

TEST_F(ScatterTest, TotalBytes_OfLongEntries_PassesThirtyTwoBits) {
  const std::vector<ibv_sge> sges{{0, 0xFFFFFFFF, 0}, {0, 0xFFFFFFFF, 0}, {0, 2, 0}};
  EXPECT_EQ(total_bytes(sges), std::uint64_t{1} << 33);
  EXPECT_EQ(total_bytes({}), 0U);
}

TEST_F(ScatterTest, Scatter_AcrossEntries_FillsEachFromTheOffsetOn) {
  const std::uint32_t key = insert();
  const std::vector<ibv_sge> sges{{kIova + 10, 3, key}, {kIova + 40, 5, key}, {kIova, 4, key}};
  ASSERT_TRUE(scatter_into(sges, 2, 8));
  std::array<std::uint8_t, kBytes> wanted{};
  wanted[12] = 1;
  for (std::size_t i = 0; i < 5; ++i) wanted[40 + i] = static_cast<std::uint8_t>(2 + i);
  wanted[0] = 7;
  wanted[1] = 8;
  EXPECT_EQ(memory_, wanted);
}

TEST_F(ScatterTest, Scatter_EntryUpToTheRegionsEnd_FilledAndOnePastRefused) {
  const std::uint32_t key = insert();
  EXPECT_TRUE(scatter_into({{kIova + kBytes - 8, 8, key}}, 0, 8));
  EXPECT_EQ(memory_[kBytes - 1], 8);
  memory_.fill(0);
  EXPECT_FALSE(scatter_into({{kIova + kBytes - 7, 8, key}}, 0, 8));
  EXPECT_FALSE(scatter_into({{kIova - 1, 8, key}}, 0, 8));
  EXPECT_TRUE(untouched());
}

TEST_F(ScatterTest, Scatter_OnlyWhatIsWrittenMustBeInTheRegion) {
  const std::uint32_t key = insert();
  EXPECT_TRUE(scatter_into({{kIova + kBytes - 8, 100, key}}, 0, 8));
  memory_.fill(0);
  EXPECT_FALSE(scatter_into({{kIova + kBytes - 8, 100, key}}, 1, 8));
  EXPECT_TRUE(untouched());
}

TEST_F(ScatterTest, Scatter_WrongKeyDomainOrAccess_RefusedAndNothingWritten) {
  const std::uint32_t key = insert();
  const std::uint32_t read_only = insert(IBV_ACCESS_REMOTE_READ);
  EXPECT_FALSE(scatter_into({{kIova, 8, key ^ 1}}, 0, 8));
  EXPECT_FALSE(scatter_into({{kIova, 8, key}}, 0, 8, kOtherPd));
  EXPECT_FALSE(scatter_into({{kIova, 8, read_only}}, 0, 8));
  EXPECT_TRUE(untouched());
}

TEST_F(ScatterTest, Scatter_SecondEntryWrong_FirstIsWrittenAndTheThirdIsNot) {
  const std::uint32_t key = insert();
  EXPECT_FALSE(
      scatter_into({{kIova, 2, key}, {kIova + 8, 2, key ^ 1}, {kIova + 16, 2, key}}, 0, 6));
  std::array<std::uint8_t, kBytes> wanted{};
  wanted[0] = 1;
  wanted[1] = 2;
  EXPECT_EQ(memory_, wanted);
}

TEST_F(ScatterTest, Scatter_EntriesThatTakeNoByte_AreNotLookedAt) {
  const std::uint32_t key = insert();
  const std::uint32_t wrong = key ^ 1;
  const std::vector<ibv_sge> sges{{0, 0, wrong}, {0, 4, wrong},       {kIova, 2, key},
                                  {0, 0, wrong}, {kIova + 2, 2, key}, {0, 9, wrong}};
  EXPECT_TRUE(scatter_into(sges, 4, 4)) << "before the offset, empty, or behind the payload";
  EXPECT_EQ(memory_[0], 1);
  EXPECT_EQ(memory_[3], 4);
  EXPECT_TRUE(scatter_into({{0, 4, wrong}}, 0, 0));
  EXPECT_FALSE(scatter_into(sges, 3, 4));
}

TEST_F(ScatterTest, Accessible_EveryEntryMustAllow_ButEmptyOnes) {
  const std::uint32_t key = insert();
  const std::uint32_t read_only = insert(0);
  const std::vector<ibv_sge> both{{kIova, kBytes, key}, {kIova, kBytes, read_only}};
  EXPECT_TRUE(accessible(table_, kPd, both, 0));
  EXPECT_FALSE(accessible(table_, kPd, both, IBV_ACCESS_LOCAL_WRITE));
  EXPECT_TRUE(accessible(table_, kPd, {both.data(), 1}, IBV_ACCESS_LOCAL_WRITE));
  EXPECT_FALSE(accessible(table_, kOtherPd, both, 0));
  const std::vector<ibv_sge> past{{kIova + 1, kBytes, key}};
  EXPECT_FALSE(accessible(table_, kPd, past, 0));
  const std::vector<ibv_sge> empty_with_wrong_key{{kIova, 8, key}, {0, 0, key ^ 1}};
  EXPECT_TRUE(accessible(table_, kPd, empty_with_wrong_key, 0));
  EXPECT_TRUE(accessible(table_, kPd, {}, IBV_ACCESS_LOCAL_WRITE));
}

TEST_F(ScatterTest, RandomListsAndPieces_AgreeWithModel) {
  Random random(0x5CA7);
  std::vector<std::uint8_t> memory(1024);
  // Two regions side by side: an entry stays within one, the bytes of both are compared.
  const std::array<std::uint32_t, 2> keys{
      *table_.insert(kPd, memory.data(), 0, 512, IBV_ACCESS_LOCAL_WRITE),
      *table_.insert(kPd, memory.data() + 512, kIova, 512, IBV_ACCESS_LOCAL_WRITE)};
  for (int round = 0; round < 500; ++round) {
    std::vector<ibv_sge> sges(random.below(6));
    std::vector<std::size_t> places;  // where each byte of the list lies in `memory`
    for (ibv_sge& sge : sges) {
      const std::size_t region = random.below(2);
      const std::size_t start = random.below(512);
      const std::size_t bytes = random.below(std::min<std::size_t>(513 - start, 90));
      sge = {(region == 0 ? 0 : kIova) + start, static_cast<std::uint32_t>(bytes), keys[region]};
      for (std::size_t i = 0; i < bytes; ++i) places.push_back(region * 512 + start + i);
    }
    ASSERT_EQ(total_bytes(sges), places.size());
    std::vector<std::uint8_t> wanted = memory;
    std::vector<std::uint8_t> message(places.size());
    for (std::size_t i = 0; i < message.size(); ++i) {
      message[i] = static_cast<std::uint8_t>(random.next());
      wanted[places[i]] = message[i];
    }
    // As packets bring it: piece by piece, in order.
    for (std::size_t at = 0; at < message.size();) {
      const std::size_t bytes = std::min(message.size() - at, 1 + random.below(64));
      ASSERT_TRUE(scatter(table_, kPd, sges, at, {message.data() + at, bytes}));
      at += bytes;
    }
    ASSERT_EQ(memory, wanted) << "round " << round;
  }
}

}  // namespace
}  // namespace braid::roce
