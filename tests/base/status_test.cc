#include <braid/result.h>
#include <braid/status.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <memory>
#include <set>
#include <string>
#include <utility>

namespace braid {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::array<StatusCode, 15> kAllCodes = {
    StatusCode::kOk,          StatusCode::kWouldBlock, StatusCode::kInvalidArgument,
    StatusCode::kOutOfMemory, StatusCode::kInternal,   StatusCode::kNotSupported,
    StatusCode::kNotFound,    StatusCode::kTimeout,    StatusCode::kConnectionFailed,
    StatusCode::kNetwork,     StatusCode::kPermission, StatusCode::kIo,
    StatusCode::kProtocol,    StatusCode::kAborted,    StatusCode::kUnknownOutcome};

TEST(Status, Default_IsOk) {
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().to_string(), "ok");
  EXPECT_EQ(Status(), Status(StatusCode::kOk));
}

TEST(Status, EveryCode_HasItsOwnNameAndSaysWhatToDo) {
  std::set<std::string_view> names;
  for (const StatusCode code : kAllCodes) {
    EXPECT_TRUE(names.insert(to_string(code)).second) << to_string(code);
    EXPECT_NE(to_string(code), "unknown");
    if (code != StatusCode::kOk) {
      EXPECT_THAT(Status(code).to_string(), HasSubstr(": ")) << to_string(code);
    }
  }
  // The table is whole: the code after the last has no name.
  EXPECT_EQ(to_string(static_cast<StatusCode>(kAllCodes.size())), "unknown");
}

// Requirement: 40
TEST(Status, HcommNumbers_AreThoseOfRequirement40) {
  EXPECT_EQ(hcomm_error_number(StatusCode::kOk), 0);
  EXPECT_EQ(hcomm_error_number(StatusCode::kInvalidArgument), 1);
  EXPECT_EQ(hcomm_error_number(StatusCode::kOutOfMemory), 3);
  EXPECT_EQ(hcomm_error_number(StatusCode::kInternal), 4);
  EXPECT_EQ(hcomm_error_number(StatusCode::kNotSupported), 5);
  EXPECT_EQ(hcomm_error_number(StatusCode::kNotFound), 6);
  EXPECT_EQ(hcomm_error_number(StatusCode::kTimeout), 9);
  EXPECT_EQ(hcomm_error_number(StatusCode::kConnectionFailed), 12);
  EXPECT_EQ(hcomm_error_number(StatusCode::kNetwork), 19);
  EXPECT_EQ(hcomm_error_number(StatusCode::kWouldBlock), 20);
}

TEST(Status, Origins_RenderTheirDetail) {
  EXPECT_THAT(Status::from_errno(StatusCode::kIo, ENOSPC).to_string(),
              StartsWith("io (No space left on device, errno 28): "));
  EXPECT_THAT(Status::from_verbs(StatusCode::kInternal, EINVAL).to_string(),
              StartsWith("internal (verbs: Invalid argument, errno 22): "));
  EXPECT_THAT(Status::from_completion(12).to_string(),
              StartsWith("network (work completion status 12): "));
  EXPECT_THAT(Status(StatusCode::kAborted, StatusOrigin::kPeer,
                     static_cast<std::int32_t>(StatusCode::kOutOfMemory))
                  .to_string(),
              StartsWith("aborted (reported by the peer: out_of_memory): "));
  EXPECT_THAT(Status(StatusCode::kTimeout).to_string(), Not(HasSubstr("(")));
}

TEST(Status, Equality_LooksAtEveryField) {
  const Status status = Status::from_errno(StatusCode::kIo, ENOSPC);
  EXPECT_EQ(status, Status(StatusCode::kIo, StatusOrigin::kSystem, ENOSPC));
  EXPECT_NE(status, Status::from_errno(StatusCode::kIo, EIO));
  EXPECT_NE(status, Status::from_verbs(StatusCode::kIo, ENOSPC));
  EXPECT_NE(status, Status::from_errno(StatusCode::kPermission, ENOSPC));
}

TEST(Result, Value_IsReachedAndMovedOut) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(5));
  ASSERT_TRUE(result.has_value());
  EXPECT_TRUE(static_cast<bool>(result));
  EXPECT_EQ(**result, 5);
  EXPECT_EQ(*result->get(), 5);
  EXPECT_TRUE(result.error().ok());
  const std::unique_ptr<int> taken = std::move(result).value();
  EXPECT_EQ(*taken, 5);
}

TEST(Result, Error_IsKept) {
  const Result<int> result(Status::from_errno(StatusCode::kPermission, EACCES));
  EXPECT_FALSE(result.has_value());
  EXPECT_EQ(result.error(), Status::from_errno(StatusCode::kPermission, EACCES));
}

TEST(Result, OfAStatusLikeType_TellsValueFromError) {
  const Result<StatusCode> result(StatusCode::kTimeout);
  ASSERT_TRUE(result.has_value());
  EXPECT_EQ(*result, StatusCode::kTimeout);
}

#ifndef NDEBUG
TEST(ResultDeathTest, MisuseIsAProgrammerError) {
  EXPECT_DEATH((void)Result<int>(Status()), "");
  EXPECT_DEATH((void)Result<int>(Status(StatusCode::kIo)).value(), "");
}
#endif

}  // namespace
}  // namespace braid
