#pragma once

#include <braid/result.h>

#include <cstdint>
#include <string_view>

#include "config/report.h"

namespace braid::config {

/// Whose ranges and defaults hold for the values of a queue pair.
enum class Profile : std::uint8_t {
  kBraid,       // this library's own
  kHcomm,       // S0: Ascend 950 with Hi1825
  kHcomm950,    // the public documentation and code for 950
  kHcommA2,     // the public documentation for A2 and A3
  kDescriptor,  // what the channel descriptor's own check takes
};

[[nodiscard]] Result<Profile> parse_profile(std::string_view text, std::string_view name,
                                            Report& report);
[[nodiscard]] std::string_view to_string(Profile profile) noexcept;

/// Numbers that are taken: low..high in whole multiples of `step`.
struct NumberRange {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  std::uint64_t default_value = 0;
  std::uint64_t step = 1;
  const char* unit = "";
};

/// Parses a decimal number within the range. The fault says name, value, range, step and default.
Result<std::uint64_t> parse_number(std::string_view text, std::string_view name,
                                   const NumberRange& range, Report& report);

// Traffic class: DSCP is a quarter of it, so it is a multiple of 4. 132 is DSCP 33.
inline constexpr NumberRange kTrafficClass = {0, 255, 132, 4, ""};
inline constexpr NumberRange kServiceLevel = {0, 7, 4, 1, ""};
inline constexpr NumberRange kQpsPerConnection = {1, 32, 1, 1, ""};
inline constexpr NumberRange kMultiQpThresholdKib = {1, 8192, 512, 1, "KiB"};
inline constexpr NumberRange kExecTimeoutS = {0, 2147483647, 1836, 1, "s"};
inline constexpr NumberRange kBasePort = {1024, 65520, 60000, 1, ""};

/// Retries of a queue pair: 1..7. Default 7; kBraid has 6, because rdma_rxe takes 7 for "without
/// end" and would never notice a dead peer.
[[nodiscard]] NumberRange retry_count_range(Profile profile) noexcept;
/// Time that connecting may take, in seconds: 120..7200, default 120; kBraid has 1..7200, default
/// 10.
[[nodiscard]] NumberRange connect_timeout_range(Profile profile) noexcept;
/// Exponent t of the acknowledgement timeout 4.096 us * 2^t; 0 in the result is "never".
[[nodiscard]] NumberRange ack_timeout_range(Profile profile) noexcept;

/// Parses the acknowledgement timeout as the profile does:
///   kBraid       1..31, default 16
///   kHcomm       18..31, default 20; another number counts as 18, with a warning
///   kHcomm950    0..31, default 20; 0 and numbers from 32 on mean never, with a warning
///   kHcommA2     5..20, default 20
///   kDescriptor  5..24, default 20
/// Source: requirement 38, which tells how the sources disagree.
Result<std::uint8_t> parse_ack_timeout(std::string_view text, std::string_view name,
                                       Profile profile, Report& report);

}  // namespace braid::config
