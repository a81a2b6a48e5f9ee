#pragma once

#include <braid/time.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace braid::config {

// Strict parsers of values with units: the whole text is the value, without blanks or signs.
// Empty when the text is anything else or does not fit.

/// Decimal digits, within [least, most].
[[nodiscard]] std::optional<std::uint64_t> parse_integer(std::string_view text, std::uint64_t least,
                                                         std::uint64_t most);
/// A number and bit, Kbit, Mbit, Gbit, K, M or G (powers of 1000). Returns bits per second.
[[nodiscard]] std::optional<std::uint64_t> parse_rate(std::string_view text);
/// A number and ns, us, ms or s.
[[nodiscard]] std::optional<Duration> parse_duration(std::string_view text);
/// A number from 0 to 100 and %. Returns parts per million.
[[nodiscard]] std::optional<std::uint32_t> parse_ppm(std::string_view text);

}  // namespace braid::config
