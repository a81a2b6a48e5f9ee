#pragma once

#include <braid/time.h>

#include <cstdint>
#include <string>

namespace braid::tools {

/// "1.50 GiB", "312 KiB", "17 B".
[[nodiscard]] std::string human_bytes(double bytes);

/// One line on a terminal, redrawn ten times a second: share, rate, time left. Prints nothing when
/// stderr is not a terminal.
class ProgressBar {
 public:
  ProgressBar(std::uint64_t total_bytes, TimePoint start);
  /// Removes the line.
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  void update(std::uint64_t done_bytes, TimePoint now);

 private:
  std::uint64_t total_bytes_;
  TimePoint start_;
  TimePoint next_draw_;
  bool enabled_;
  bool drawn_ = false;
};

}  // namespace braid::tools
