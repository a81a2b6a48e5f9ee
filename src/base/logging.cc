#include "base/logging.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/base_sink.h>

#include <cstdio>
#include <mutex>
#include <string>
#include <utility>

namespace braid {
namespace {

constexpr spdlog::level::level_enum to_spdlog(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kTrace: return spdlog::level::trace;
    case LogLevel::kDebug: return spdlog::level::debug;
    case LogLevel::kInfo: return spdlog::level::info;
    case LogLevel::kWarn: return spdlog::level::warn;
    case LogLevel::kError: return spdlog::level::err;
    case LogLevel::kOff: return spdlog::level::off;
  }
  return spdlog::level::off;
}

constexpr LogLevel from_spdlog(spdlog::level::level_enum level) noexcept {
  switch (level) {
    case spdlog::level::trace: return LogLevel::kTrace;
    case spdlog::level::debug: return LogLevel::kDebug;
    case spdlog::level::info: return LogLevel::kInfo;
    case spdlog::level::warn: return LogLevel::kWarn;
    case spdlog::level::err:
    case spdlog::level::critical: return LogLevel::kError;
    default: return LogLevel::kOff;
  }
}

constexpr std::string_view name_of(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::kTrace: return "trace";
    case LogLevel::kDebug: return "debug";
    case LogLevel::kInfo: return "info";
    case LogLevel::kWarn: return "warning";
    case LogLevel::kError: return "error";
    case LogLevel::kOff: break;
  }
  return "";
}

// base_sink holds its mutex around sink_it_() and flush_().
class CallbackSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  void replace(LogSink callback) {
    const std::lock_guard lock(mutex_);
    callback_ = std::move(callback);
  }

 protected:
  void sink_it_(const spdlog::details::log_msg& message) override {
    const LogLevel level = from_spdlog(message.level);
    const std::string_view text(message.payload.data(), message.payload.size());
    if (callback_) {
      callback_(level, text);
      return;
    }
    std::string line("braid: ");
    line.append(name_of(level)).append(": ").append(text).append("\n");
    // One call, so that lines of other processes on the same terminal stay whole.
    (void)std::fwrite(line.data(), 1, line.size(), stderr);
  }
  void flush_() override { (void)std::fflush(stderr); }

 private:
  LogSink callback_;
};

}  // namespace

struct Logger::Impl {
  std::shared_ptr<CallbackSink> sink = std::make_shared<CallbackSink>();
  spdlog::logger logger{"braid", sink};
};

Logger::Logger(LogLevel level) : Logger(LogSink(), level) {}

Logger::Logger(LogSink sink, LogLevel level) : impl_(std::make_unique<Impl>()) {
  impl_->sink->replace(std::move(sink));
  impl_->logger.set_level(to_spdlog(level));
}

Logger::~Logger() = default;

void Logger::set_level(LogLevel level) noexcept { impl_->logger.set_level(to_spdlog(level)); }

LogLevel Logger::level() const noexcept { return from_spdlog(impl_->logger.level()); }

bool Logger::enabled(LogLevel level) const noexcept {
  return level != LogLevel::kOff && impl_->logger.should_log(to_spdlog(level));
}

void Logger::set_sink(LogSink sink) { impl_->sink->replace(std::move(sink)); }

void Logger::log(LogLevel level, std::string_view text) noexcept {
  if (!enabled(level)) return;
  impl_->logger.log(to_spdlog(level), spdlog::string_view_t(text.data(), text.size()));
}

}  // namespace braid
