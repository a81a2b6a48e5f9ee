// Any text as the impairments of a soft device.

#include <string_view>

#include "config/soft_device_env.h"
#include "fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<braid::PathImpairment> out(1);
  out[0].queue_packets = 77;
  std::string error;
  if (!braid::config::parse_impairments(text, out, error).ok()) {
    // Refused with a reason, and nothing half-applied.
    BRAID_REQUIRE(!error.empty() && out.size() == 1 && out[0].queue_packets == 77);
    return 0;
  }
  BRAID_REQUIRE(!out.empty());
  for (const braid::PathImpairment& one : out) {
    BRAID_REQUIRE(one.loss_ppm <= 1'000'000 && one.corrupt_ppm <= 1'000'000);
    BRAID_REQUIRE(one.delay >= braid::Duration(0) && one.delay <= std::chrono::seconds(60));
    BRAID_REQUIRE(one.queue_packets >= 1);
  }
  return 0;
}
