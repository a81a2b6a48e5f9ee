#include "config/report.h"

#include <utility>

namespace braid::config {
namespace {

constexpr std::size_t kMaxShown = 80;
constexpr std::size_t kMaxWarnings = 64;

std::string printable(std::string_view text) {
  std::string out(text.substr(0, kMaxShown));
  for (char& each : out) {
    if (each < ' ' || each > '~') each = '?';
  }
  if (text.size() > kMaxShown) out += "...";
  return out;
}

}  // namespace

std::string quoted(std::string_view text) { return "'" + printable(text) + "'"; }

std::string Fault::to_string() const {
  std::string out = source;
  if (line != 0) out += ":" + std::to_string(line);
  if (!key.empty()) out += ": " + printable(key);
  out += " is " + quoted(value);
  if (!allowed.empty()) out += "; allowed is " + allowed;
  return out;
}

Status Report::refuse(Fault fault) {
  fault_ = std::move(fault);
  return Status(StatusCode::kInvalidArgument);
}

void Report::warn(std::string sentence) {
  ++warning_count_;
  if (warnings_.size() < kMaxWarnings) warnings_.push_back(std::move(sentence));
}

}  // namespace braid::config
