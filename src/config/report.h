#pragma once

#include <braid/status.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace braid::config {

/// One thing that is wrong, or odd, in what was configured.
struct Fault {
  std::string source = {};  // a file's path, or the name of a variable
  std::uint32_t line = 0;   // from 1; 0 where there are no lines
  std::string key = {};     // empty where the source has none
  std::string value = {};
  std::string allowed = {};  // what is taken there, as the end of "allowed is ..."

  /// Renders "SOURCE:LINE: KEY is 'VALUE'; allowed is ALLOWED", without what is empty. A long value
  /// is cut, and what cannot be printed becomes '?'.
  [[nodiscard]] std::string to_string() const;
};

/// What a parser has to say apart from its result: the first fault, and the warnings before it.
class Report {
 public:
  /// Keeps the fault. Returns kInvalidArgument, for `return report.refuse(...)`.
  Status refuse(Fault fault);
  /// Keeps a sentence about something that is taken all the same; beyond 64 they are only counted.
  void warn(std::string sentence);

  /// Says what was refused; empty when nothing was.
  [[nodiscard]] const Fault& fault() const noexcept { return fault_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const noexcept { return warnings_; }
  [[nodiscard]] std::uint32_t warning_count() const noexcept { return warning_count_; }

 private:
  Fault fault_;
  std::vector<std::string> warnings_;
  std::uint32_t warning_count_ = 0;
};

/// Text in quotes, cut to 80 characters, with '?' in place of what cannot be printed.
[[nodiscard]] std::string quoted(std::string_view text);

}  // namespace braid::config
