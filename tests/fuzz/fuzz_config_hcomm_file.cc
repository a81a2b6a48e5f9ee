// Any text as hcomm.cfg.

#include <algorithm>
#include <set>

#include "config/hcomm_file.h"
#include "fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto lines = static_cast<std::uint32_t>(std::count(text.begin(), text.end(), '\n') + 1);
  braid::config::Report report;
  const auto devices = braid::config::parse_hcomm_file(text, "hcomm.cfg", report);
  BRAID_REQUIRE(devices.has_value() == report.fault().source.empty());
  BRAID_REQUIRE(report.fault().line <= lines && report.warning_count() <= 2 * lines);
  if (!devices) {
    BRAID_REQUIRE(!report.fault().key.empty() && !report.fault().allowed.empty());
    return 0;
  }
  std::set<std::uint32_t> seen;
  for (const auto& each : *devices) {
    BRAID_REQUIRE(seen.insert(each.device).second);
    BRAID_REQUIRE(each.qp_count >= 1 && each.qp_count <= braid::config::kMaxConfiguredQps);
    BRAID_REQUIRE(!each.ports.empty() && each.ports.size() <= 32);
    BRAID_REQUIRE(each.count_line != 0 && each.ports_line != 0 && each.count_line <= lines);
    BRAID_REQUIRE(braid::config::find_device(*devices, each.device) == &each);
  }
  return 0;
}
