// Any text as MultiQpSrcPort.cfg.

#include "config/ip_pair_file.h"
#include "fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  braid::config::Report report;
  const auto table = braid::config::IpPairTable::parse(text, "pairs.cfg", report);
  BRAID_REQUIRE(table.has_value() == report.fault().source.empty());
  if (!table) {
    BRAID_REQUIRE(report.fault().line != 0 && !report.fault().allowed.empty());
    return 0;
  }
  // Whatever the table holds, a search ends with an entry that is whole, or with none.
  for (const char* source : {"10.0.0.1", "2001:db8::1", "0.0.0.0", "::"}) {
    for (const char* destination : {"10.0.0.2", "2001:db8::2", "0.0.0.0", "::"}) {
      const auto* entry = table->find(*braid::config::parse_ip_address(source),
                                      *braid::config::parse_ip_address(destination));
      if (entry == nullptr) continue;
      BRAID_REQUIRE(entry->line != 0 && !entry->ports.empty() && entry->ports.size() <= 32);
    }
  }
  return 0;
}
