#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

namespace braid {

enum class LogLevel : std::uint8_t { kTrace, kDebug, kInfo, kWarn, kError, kOff };

/// Receives each message that passes the level, without level, time or line end.
/// Called by one thread at a time; must not throw, nor log through the same Logger.
using LogSink = std::function<void(LogLevel level, std::string_view text)>;

/// Writes messages for people, one sentence each. The only door to the logging library.
///
/// Owner: handed in to whoever logs; outlives them. There is no global one.
/// Thread: any; messages of several threads do not mix.
/// Cost: enabled() is one relaxed load. log() allocates, locks and writes, so the data path calls
/// it never above trace.
class Logger {
 public:
  /// Writes to stderr as "braid: warning: text". Default level: warnings and errors.
  explicit Logger(LogLevel level = LogLevel::kWarn);
  /// Gives the messages to `sink` instead.
  explicit Logger(LogSink sink, LogLevel level = LogLevel::kWarn);
  ~Logger();
  Logger(const Logger&) = delete;
  Logger& operator=(const Logger&) = delete;

  /// Messages below `level` are dropped from now on; kOff drops all.
  void set_level(LogLevel level) noexcept;
  [[nodiscard]] LogLevel level() const noexcept;
  [[nodiscard]] bool enabled(LogLevel level) const noexcept;

  /// Replaces the sink; empty = stderr. A call of the old sink has returned when this does.
  void set_sink(LogSink sink);

  /// Writes `text` as it is: nothing in it is a format. Level kOff writes
  /// nothing.
  void log(LogLevel level, std::string_view text) noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace braid
