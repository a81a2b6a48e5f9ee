// Any bytes as a UDP payload: the parser takes or refuses them, and what it takes encodes back.

#include <cstring>
#include <vector>

#include "fuzz/require.h"
#include "roce/icrc.h"
#include "roce/packet.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace braid::roce;
  RxDatagram datagram;
  datagram.payload = {data, size};
  datagram.source = IpAddress::from_v4(0x0A000001);
  datagram.destination = IpAddress::from_v4(0x0A000002);
  datagram.source_port = 0xC000;
  datagram.ip_id = kUnknownIpId;
  static_cast<void>(verify_icrc(datagram));

  Packet packet;
  if (parse_packet(datagram.payload, packet) != DropReason::kNone) return 0;
  BRAID_REQUIRE(packet.payload.data() >= data && packet.payload.size() <= 4096);
  BRAID_REQUIRE(packet.payload.data() + packet.payload.size() <= data + size - kIcrcBytes);
  std::uint8_t again[64];
  const std::size_t bytes = encode_headers(packet.headers, again);
  BRAID_REQUIRE(bytes <= sizeof again && data + bytes == packet.payload.data());
  // Bits that the engine neither reads nor sends: Mig, FECN, BECN, reserved.
  std::vector<std::uint8_t> seen(data, data + bytes);
  seen[1] &= 0xB0;
  seen[4] = 0;
  seen[8] &= 0x80;
  BRAID_REQUIRE(std::memcmp(seen.data(), again, bytes) == 0);
  return 0;
}
