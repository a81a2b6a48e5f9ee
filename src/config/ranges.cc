#include "config/ranges.h"

#include <array>
#include <limits>
#include <string>
#include <utility>

#include "config/parse_units.h"

namespace braid::config {
namespace {

constexpr std::uint64_t kAnyNumber = std::numeric_limits<std::uint64_t>::max();
constexpr std::array<std::pair<std::string_view, Profile>, 5> kProfiles = {
    {{"braid", Profile::kBraid},
     {"hcomm", Profile::kHcomm},
     {"hcomm-950", Profile::kHcomm950},
     {"hcomm-a2", Profile::kHcommA2},
     {"descriptor", Profile::kDescriptor}}};

std::string describe(const NumberRange& range) {
  std::string out =
      "a whole number from " + std::to_string(range.low) + " to " + std::to_string(range.high);
  if (range.unit[0] != '\0') out += std::string(" ") + range.unit;
  if (range.step != 1) out += ", a multiple of " + std::to_string(range.step);
  return out + " (default " + std::to_string(range.default_value) + ")";
}

}  // namespace

Result<Profile> parse_profile(std::string_view text, std::string_view name, Report& report) {
  for (const auto& [word, profile] : kProfiles) {
    if (text == word) return profile;
  }
  return report.refuse({.source = std::string(name),
                        .value = std::string(text),
                        .allowed = "braid, hcomm, hcomm-950, hcomm-a2 or descriptor"});
}

std::string_view to_string(Profile profile) noexcept {
  for (const auto& [word, each] : kProfiles) {
    if (profile == each) return word;
  }
  return "";
}

Result<std::uint64_t> parse_number(std::string_view text, std::string_view name,
                                   const NumberRange& range, Report& report) {
  const auto value = parse_integer(text, range.low, range.high);
  if (value && *value % range.step == 0) return *value;
  return report.refuse(
      {.source = std::string(name), .value = std::string(text), .allowed = describe(range)});
}

NumberRange retry_count_range(Profile profile) noexcept {
  return {1, 7, profile == Profile::kBraid ? 6U : 7U, 1, ""};
}

NumberRange connect_timeout_range(Profile profile) noexcept {
  if (profile == Profile::kBraid) return {1, 7200, 10, 1, "s"};
  return {120, 7200, 120, 1, "s"};
}

NumberRange ack_timeout_range(Profile profile) noexcept {
  switch (profile) {
    case Profile::kBraid: return {1, 31, 16, 1, ""};
    case Profile::kHcomm: return {18, 31, 20, 1, ""};
    case Profile::kHcomm950: return {0, 31, 20, 1, ""};
    case Profile::kHcommA2: return {5, 20, 20, 1, ""};
    case Profile::kDescriptor: return {5, 24, 20, 1, ""};
  }
  return {};
}

Result<std::uint8_t> parse_ack_timeout(std::string_view text, std::string_view name,
                                       Profile profile, Report& report) {
  const NumberRange range = ack_timeout_range(profile);
  const auto any = parse_integer(text, 0, kAnyNumber);
  if (any && profile == Profile::kHcomm && (*any < range.low || *any > range.high)) {
    report.warn(std::string(name) + " is " + quoted(text) + ", outside 18..31; taken as 18");
    return std::uint8_t{18};
  }
  if (any && profile == Profile::kHcomm950 && (*any == 0 || *any > range.high)) {
    report.warn(std::string(name) + " is " + quoted(text) +
                ": packets are never sent again, so a lost one stops the lane");
    return std::uint8_t{0};
  }
  Result<std::uint64_t> value = parse_number(text, name, range, report);
  if (!value) return value.error();
  return static_cast<std::uint8_t>(*value);
}

}  // namespace braid::config
