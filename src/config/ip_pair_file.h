#pragma once

#include <braid/result.h>

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "config/report.h"

namespace braid::config {

inline constexpr std::uint32_t kMaxIpPairLines = 131072;

/// An IPv4 or IPv6 address. An IPv4-mapped IPv6 address is the IPv4 address.
struct IpAddress {
  bool v6 = false;
  std::array<std::uint8_t, 16> bytes{};  // IPv4: the first four

  [[nodiscard]] bool any() const noexcept { return bytes == std::array<std::uint8_t, 16>{}; }
  friend constexpr bool operator==(const IpAddress&, const IpAddress&) = default;
  friend bool operator<(const IpAddress& one, const IpAddress& two) noexcept {
    return one.v6 != two.v6 ? two.v6 : one.bytes < two.bytes;
  }
};

/// Parses an address without zone. Empty when it is none.
[[nodiscard]] std::optional<IpAddress> parse_ip_address(std::string_view text);

/// Source ports by pair of addresses: the content of MultiQpSrcPort.cfg.
class IpPairTable {
 public:
  struct Entry {
    std::vector<std::uint16_t> ports;  // 1..32
    std::uint32_t line = 0;            // where it stands, from 1
  };

  /// Parses `src,dst=p,p,...` lines.
  ///
  /// Shape: blanks, tabs and CR anywhere do not count; '#' to the end of a line is a comment; empty
  /// lines are passed over; exactly one '=' and one ',' left of it. Addresses of one family;
  /// 0.0.0.0, :: or ::/128 is any, and takes the other address's family. Ports are decimal: 0x and
  /// leading zeros, which some readers take for hexadecimal and octal, are refused. After 131072
  /// lines it stops with a warning.
  /// Errors: kInvalidArgument, also for a pair that stands twice; the report has the fault.
  /// Source: requirements section 2.
  static Result<IpPairTable> parse(std::string_view text, std::string_view file, Report& report);

  /// The entry of the pair, else of (any, destination), (source, any), (any, any), else null.
  /// Null also for addresses of two families.
  [[nodiscard]] const Entry* find(const IpAddress& source, const IpAddress& destination) const;
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  using Pair = std::array<IpAddress, 2>;
  friend class IpPairParser;
  std::map<Pair, Entry> entries_;
};

}  // namespace braid::config
