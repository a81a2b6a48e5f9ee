#pragma once

#include <braid/config.h>
#include <braid/result.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "config/report.h"

namespace braid::config {

inline constexpr std::size_t kMaxPortRanges = 64;

/// Parses the ports that a listening socket may take: "auto", or `a,b-c`.
///
/// Shape: 1..64 elements between ',', each a port or FIRST-LAST with FIRST <= LAST, decimal,
/// 1..65535, without blanks, none overlapping another. "auto" gives an empty list: the system
/// chooses.
/// Errors: kInvalidArgument; the report has the fault.
/// Source: requirements section 2 (HOST_SOCKET_PORT_RANGE).
Result<std::vector<PortRange>> parse_port_ranges(std::string_view text, std::string_view name,
                                                 Report& report);

}  // namespace braid::config
