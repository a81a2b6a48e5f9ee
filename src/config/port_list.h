#pragma once

#include <braid/result.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "config/report.h"

namespace braid::config {

inline constexpr std::size_t kMaxPortsPerList = 32;
inline constexpr std::size_t kMaxPortListChars = 32768;

/// UDP source ports of the lanes of one physical device, in the order they were given.
struct DevicePorts {
  std::uint32_t device = 0;
  std::vector<std::uint16_t> ports = {};
};

/// Parses `p,p,...`: 1..32 decimal ports from 1 to 65535, without blanks.
///
/// `where` says what the text is (source, line, key); a fault in the report has it, with the
/// element that is wrong as its value.
Result<std::vector<std::uint16_t>> parse_ports(std::string_view text, const Fault& where,
                                               Report& report);

/// Parses `id:p,p,...;id:p,...`, the value of variable `name`.
///
/// Shape: empty, or entries between ';' with one colon each; no blanks; nothing empty between two
/// separators; ids decimal, 0..2^32-1, each at most once; at most 32768 characters.
/// Errors: kInvalidArgument; the report has the fault. Warns of ports below 1024.
/// Source: S0, the rules of HCCL_HOST_RDMA_UDP_PORTS_LIST.
Result<std::vector<DevicePorts>> parse_device_ports(std::string_view text, std::string_view name,
                                                    Report& report);

}  // namespace braid::config
