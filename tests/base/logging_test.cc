#include "base/logging.h"

#include <braid/version.h>
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace braid {
namespace {

using Messages = std::vector<std::pair<LogLevel, std::string>>;

LogSink record(Messages& messages) {
  return [&messages](LogLevel level, std::string_view text) { messages.emplace_back(level, text); };
}

constexpr std::array<LogLevel, 5> kLevels = {LogLevel::kTrace, LogLevel::kDebug, LogLevel::kInfo,
                                             LogLevel::kWarn, LogLevel::kError};

TEST(Logger, EveryLevel_PassesItselfAndWorse_AndNothingBelow) {
  for (const LogLevel limit : kLevels) {
    Messages messages;
    Logger logger(record(messages), limit);
    EXPECT_EQ(logger.level(), limit);
    Messages expected;
    for (const LogLevel level : kLevels) {
      EXPECT_EQ(logger.enabled(level), level >= limit);
      logger.log(level, "text");
      if (level >= limit) expected.emplace_back(level, "text");
    }
    EXPECT_EQ(messages, expected);
  }
}

TEST(Logger, Off_DropsAllAndIsNoLevelToLogAt) {
  Messages messages;
  Logger logger(record(messages), LogLevel::kOff);
  for (const LogLevel level : kLevels) logger.log(level, "text");
  logger.set_level(LogLevel::kTrace);
  logger.log(LogLevel::kOff, "text");
  EXPECT_TRUE(messages.empty());
}

TEST(Logger, Text_IsNotAFormat) {
  Messages messages;
  Logger logger(record(messages));
  logger.log(LogLevel::kError, "100% {} {0} %s");
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].second, "100% {} {0} %s");
}

TEST(Logger, Default_WritesWarningsToStderr) {
  ::testing::internal::CaptureStderr();
  Logger logger;
  logger.log(LogLevel::kInfo, "not this");
  logger.log(LogLevel::kWarn, "the port is taken");
  logger.log(LogLevel::kError, "gone");
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "braid: warning: the port is taken\nbraid: error: gone\n");
}

TEST(Logger, ReplacedSink_GetsNothingMore) {
  Messages first;
  Messages second;
  Logger logger(record(first));
  logger.log(LogLevel::kWarn, "1");
  logger.set_sink(record(second));
  logger.log(LogLevel::kWarn, "2");
  EXPECT_EQ(first, (Messages{{LogLevel::kWarn, "1"}}));
  EXPECT_EQ(second, (Messages{{LogLevel::kWarn, "2"}}));
}

TEST(Logger, SeveralThreads_LoseNothing) {
  constexpr std::size_t kThreads = 4;
  constexpr std::size_t kEach = 500;
  Messages messages;
  Logger logger(record(messages));
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&logger] {
      for (std::size_t n = 0; n < kEach; ++n) logger.log(LogLevel::kWarn, "a whole sentence");
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(messages.size(), kThreads * kEach);
  for (const auto& message : messages) ASSERT_EQ(message.second, "a whole sentence");
}

TEST(Version, LibraryAndHeader_Agree) { EXPECT_EQ(library_version(), kHeaderVersion); }

}  // namespace
}  // namespace braid
