// Any text as the list of source ports by device.

#include <set>

#include "config/port_list.h"
#include "fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  braid::config::Report report;
  const auto list = braid::config::parse_device_ports(text, "PORTS", report);
  BRAID_REQUIRE(list.has_value() == report.fault().source.empty());
  if (!list) {
    BRAID_REQUIRE(!report.fault().allowed.empty() && report.fault().to_string().size() < 400);
    return 0;
  }
  BRAID_REQUIRE(size <= braid::config::kMaxPortListChars);
  std::set<std::uint32_t> seen;
  std::string canonical;
  for (const auto& each : *list) {
    BRAID_REQUIRE(seen.insert(each.device).second);
    BRAID_REQUIRE(!each.ports.empty() && each.ports.size() <= braid::config::kMaxPortsPerList);
    canonical += (canonical.empty() ? "" : ";") + std::to_string(each.device);
    char separator = ':';
    for (const std::uint16_t port : each.ports) {
      BRAID_REQUIRE(port != 0);
      canonical += separator + std::to_string(port);
      separator = ',';
    }
  }
  // What was understood, written down and read again, is the same.
  braid::config::Report again;
  const auto twice = braid::config::parse_device_ports(canonical, "PORTS", again);
  BRAID_REQUIRE(twice && twice->size() == list->size());
  for (std::size_t i = 0; i < list->size(); ++i) {
    BRAID_REQUIRE((*twice)[i].device == (*list)[i].device && (*twice)[i].ports == (*list)[i].ports);
  }
  return 0;
}
