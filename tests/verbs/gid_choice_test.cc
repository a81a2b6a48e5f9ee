#include "verbs/gid_choice.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

#include "verbs/fake_verbs.h"

namespace braid::verbs {
namespace {

ibv_gid gid_of(const char* text) {
  ibv_gid gid{};
  EXPECT_EQ(inet_pton(AF_INET6, text, gid.raw), 1) << text;
  return gid;
}

FakeGid roce2(const char* text) { return {gid_of(text), IBV_GID_TYPE_ROCE_V2, 0}; }
FakeGid roce1(const char* text) { return {gid_of(text), IBV_GID_TYPE_ROCE_V1, 0}; }

Result<GidChoice> choose(std::vector<FakeGid> table, const GidRequest& request = {}) {
  FakeVerbs api({.gids = std::move(table)});
  ibv_device** list = api.get_device_list(nullptr);
  ibv_context* context = api.open_device(list[0]);
  api.free_device_list(list);
  Result<GidChoice> choice = choose_gid(api, context, request);
  api.close_device(context);
  return choice;
}

// Fault: A1, A2, B25
TEST(ChooseGid, TypicalTable_TakesIpv4RoceV2) {
  const auto choice = choose({roce1("fe80::1"), roce2("fe80::1"), roce1("::ffff:10.0.0.1"),
                              roce2("2001:db8::1"), roce2("::ffff:10.0.0.1")});
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->chosen.index, 4U);
  EXPECT_EQ(choice->chosen.rank, GidRank::kIpv4Mapped);
  EXPECT_EQ(choice->considered.size(), 5U);
}

// Fault: A2, B25
TEST(ChooseGid, NoIpv4_TakesGlobalIpv6) {
  const auto choice = choose({roce2("fe80::1"), roce2("2001:db8::1")});
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->chosen.index, 1U);
}

// Fault: A2
TEST(ChooseGid, NothingElse_TakesLinkLocal) {
  const auto choice = choose({roce1("::ffff:10.0.0.1"), roce2("febf::1")});
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->chosen.index, 1U);
  EXPECT_EQ(choice->chosen.rank, GidRank::kLinkLocal);
}

TEST(ChooseGid, JustOutsideLinkLocal_IsGlobal) {
  const auto choice = choose({roce2("fec0::1")});
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->chosen.rank, GidRank::kGlobalIpv6);
}

TEST(ChooseGid, Equals_TakesLowestIndex) {
  const auto choice = choose({roce2("::ffff:10.0.0.2"), roce2("::ffff:10.0.0.1")});
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->chosen.index, 0U);
}

// Fault: A3
TEST(ChooseGid, UnreadableEntry_SkippedAndReported) {
  FakeGid broken = roce2("::ffff:10.0.0.1");
  broken.error = EIO;
  const auto choice = choose({broken, roce2("2001:db8::1")});
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->chosen.index, 1U);
  ASSERT_EQ(choice->considered.size(), 2U);
  EXPECT_EQ(choice->considered[0].rank, GidRank::kUnreadable);
  EXPECT_EQ(choice->considered[0].error, EIO);
  EXPECT_EQ(choice->to_string(),
            "GID index 1 2001:db8::1 (global IPv6, RoCE v2); not 0 (cannot be read, errno 5)");
}

TEST(ChooseGid, UnsetEntries_NotReported) {
  FakeGid unset;
  unset.error = ENODATA;
  const auto choice = choose({unset, FakeGid{}, roce2("::ffff:10.0.0.1")});
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->chosen.index, 2U);
  EXPECT_EQ(choice->considered.size(), 1U);
}

TEST(ChooseGid, NothingUsable_NotFound) {
  EXPECT_EQ(choose({roce1("::ffff:10.0.0.1")}).error().code(), StatusCode::kNotFound);
  EXPECT_EQ(choose({}).error().code(), StatusCode::kNotFound);
}

// Fault: A4
TEST(ChooseGid, ByValue_FollowsTheEntryToItsNewIndex) {
  GidRequest request;
  request.value = gid_of("::ffff:10.0.0.2");
  const auto choice = choose(
      {roce2("::ffff:10.0.0.1"), roce1("::ffff:10.0.0.2"), roce2("::ffff:10.0.0.2")}, request);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->chosen.index, 2U);
  request.value = gid_of("::ffff:10.0.0.3");
  EXPECT_FALSE(choose({roce2("::ffff:10.0.0.1")}, request).has_value());
}

TEST(ChooseGid, ByIndex_TakenAsItIs) {
  GidRequest request;
  request.index = 0;
  const auto choice = choose({roce1("fe80::1"), roce2("::ffff:10.0.0.1")}, request);
  ASSERT_TRUE(choice.has_value());
  EXPECT_EQ(choice->chosen.index, 0U);
  request.index = 2;
  EXPECT_FALSE(choose({roce1("fe80::1"), roce2("::ffff:10.0.0.1")}, request).has_value());
}

TEST(ChooseGid, PortCannotBeQueried_SaysWhy) {
  FakeVerbs api({.gids = {}, .query_port_error = EIO});
  ibv_context context{};
  EXPECT_EQ(choose_gid(api, &context, {}).error(), Status::from_verbs(StatusCode::kInternal, EIO));
}

TEST(GidToString, BothFamilies) {
  EXPECT_EQ(gid_to_string(gid_of("::ffff:127.1.2.3")), "127.1.2.3");
  EXPECT_EQ(gid_to_string(gid_of("fe80::1")), "fe80::1");
}

}  // namespace
}  // namespace braid::verbs
