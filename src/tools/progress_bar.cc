#include "tools/progress_bar.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>

namespace braid::tools {
namespace {
constexpr Duration kRedraw = std::chrono::milliseconds(100);
constexpr std::size_t kWidth = 30;
}  // namespace

std::string human_bytes(double bytes) {
  static constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t unit = 0;
  while (bytes >= 1024 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), unit == 0 ? "%.0f %s" : "%.2f %s", bytes, kUnits[unit]);
  return out.data();
}

ProgressBar::ProgressBar(std::uint64_t total_bytes, TimePoint start)
    : total_bytes_(total_bytes),
      start_(start),
      next_draw_(start + kRedraw),
      enabled_(::isatty(STDERR_FILENO) == 1) {}

ProgressBar::~ProgressBar() {
  if (drawn_) std::fprintf(stderr, "\r\033[K");
}

void ProgressBar::update(std::uint64_t done_bytes, TimePoint now) {
  if (!enabled_ || now < next_draw_) return;
  next_draw_ = now + kRedraw;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto done = static_cast<double>(done_bytes);
  const auto total = static_cast<double>(total_bytes_);
  const double share = total_bytes_ == 0 ? 1.0 : done / total;
  const double rate = seconds > 0 ? done / seconds : 0;
  const auto filled = std::min(kWidth, static_cast<std::size_t>(share * kWidth));
  const std::string bar = std::string(filled, '=') + std::string(kWidth - filled, ' ');
  std::fprintf(stderr, "\r\033[K[%s] %3.0f %%  %s of %s  %s/s", bar.c_str(), share * 100,
               human_bytes(done).c_str(), human_bytes(total).c_str(), human_bytes(rate).c_str());
  if (rate > 0) std::fprintf(stderr, "  %.0f s left", (total - done) / rate);
  std::fflush(stderr);
  drawn_ = true;
}

}  // namespace braid::tools
