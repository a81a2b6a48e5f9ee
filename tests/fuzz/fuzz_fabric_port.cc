// Any text as device:port:fabricID, the first byte as the number of rails.

#include <string>

#include "channel/connection_class.h"
#include "fuzz/require.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::uint32_t max_rails = data[0];
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto port = braid::channel::parse_fabric_port(text, max_rails);
  if (!port) return 0;
  BRAID_REQUIRE(!port->device.empty() && port->port != 0);
  BRAID_REQUIRE(port->device.find_first_of(": \t\r\n") == std::string_view::npos);
  BRAID_REQUIRE(port->fabric.rail < max_rails);
  const auto number = braid::channel::encode_fabric_id(port->fabric, max_rails);
  BRAID_REQUIRE(number.has_value());
  // What was read, written again, is read as the same.
  const std::string again =
      std::string(port->device) + ':' + std::to_string(port->port) + ':' + std::to_string(*number);
  const auto second = braid::channel::parse_fabric_port(again, max_rails);
  BRAID_REQUIRE(second && second->fabric == port->fabric && second->port == port->port);
  return 0;
}
