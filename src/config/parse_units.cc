#include "config/parse_units.h"

#include <charconv>
#include <cmath>
#include <utility>

namespace braid::config {
namespace {

/// A plain decimal number at the front of the text, with an optional fraction; the rest is left.
std::optional<double> take_number(std::string_view& text) {
  const std::size_t end = text.find_first_not_of("0123456789.");
  const std::string_view digits = text.substr(0, end);
  if (digits.empty() || digits.front() == '.' || digits.back() == '.') return std::nullopt;
  double value = 0;
  const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value,
                                             std::chars_format::fixed);
  if (error != std::errc() || stop != digits.data() + digits.size()) return std::nullopt;
  text.remove_prefix(digits.size());
  return value;
}

template <std::size_t Count>
std::optional<double> scaled(std::string_view text,
                             const std::pair<std::string_view, double> (&units)[Count]) {
  const auto number = take_number(text);
  if (!number) return std::nullopt;
  for (const auto& [unit, scale] : units) {
    if (text == unit) return *number * scale;
  }
  return std::nullopt;
}

constexpr double kLargest = 9e18;  // below 2^63, so that both integer types hold it

}  // namespace

std::optional<std::uint64_t> parse_integer(std::string_view text, std::uint64_t least,
                                           std::uint64_t most) {
  std::uint64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size()) return std::nullopt;
  if (value < least || value > most) return std::nullopt;
  return value;
}

std::optional<std::uint64_t> parse_rate(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"bit", 1}, {"Kbit", 1e3}, {"Mbit", 1e6}, {"Gbit", 1e9}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}};
  const auto bits = scaled(text, kUnits);
  if (!bits || *bits > kLargest) return std::nullopt;
  return static_cast<std::uint64_t>(std::llround(*bits));
}

std::optional<Duration> parse_duration(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {
      {"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
  const auto nanoseconds = scaled(text, kUnits);
  if (!nanoseconds || *nanoseconds > kLargest) return std::nullopt;
  return Duration(std::llround(*nanoseconds));
}

std::optional<std::uint32_t> parse_ppm(std::string_view text) {
  static constexpr std::pair<std::string_view, double> kUnits[] = {{"%", 1e4}};
  const auto ppm = scaled(text, kUnits);
  if (!ppm || *ppm > 1e6) return std::nullopt;
  return static_cast<std::uint32_t>(std::lround(*ppm));
}

}  // namespace braid::config
