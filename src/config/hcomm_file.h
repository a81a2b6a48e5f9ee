#pragma once

#include <braid/result.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "config/report.h"

namespace braid::config {

inline constexpr std::uint64_t kMaxConfiguredQps = 32;

/// What hcomm.cfg says about one physical device.
struct HcommDevice {
  std::uint32_t device = 0;
  std::uint32_t qp_count = 1;             // 1..32
  std::vector<std::uint16_t> ports = {};  // 1..32; their number need not be qp_count
  std::uint32_t count_line = 0;           // where it stands, from 1
  std::uint32_t ports_line = 0;
};

/// Parses the text of /etc/hcomm.cfg.
///
/// Shape: lines `key=value`; the keys per device id, all three required once one is there:
///   udp_port_mode_<id>=multi_qp, multi_qp_count_<id>=1..32, multi_qp_udp_ports_<id>=p,p,...
/// Blanks, tabs, CR around key and value do not count; '#' in the first column makes a comment;
/// lines without '=' and other keys are ignored; the id is decimal without leading zero.
/// Of a key that stands twice the first holds, with a warning.
/// Errors: kInvalidArgument; the report has the fault.
/// Source: requirements section 2.
Result<std::vector<HcommDevice>> parse_hcomm_file(std::string_view text, std::string_view file,
                                                  Report& report);

/// The device's entry, or null.
[[nodiscard]] const HcommDevice* find_device(const std::vector<HcommDevice>& devices,
                                             std::uint32_t device) noexcept;

}  // namespace braid::config
