// Any text as the range of listening ports.

#include <bitset>

#include "config/port_range.h"
#include "fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  braid::config::Report report;
  const auto ranges = braid::config::parse_port_ranges(text, "RANGE", report);
  BRAID_REQUIRE(ranges.has_value() == report.fault().source.empty());
  if (!ranges) return 0;
  BRAID_REQUIRE(ranges->empty() == (text == "auto"));
  std::bitset<65536> used;
  for (const auto& each : *ranges) {
    BRAID_REQUIRE(each.first != 0 && each.first <= each.last);
    for (std::uint32_t port = each.first; port <= each.last; ++port) {
      BRAID_REQUIRE(!used[port]);
      used.set(port);
    }
  }
  return 0;
}
