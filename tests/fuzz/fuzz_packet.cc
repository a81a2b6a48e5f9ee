// Any bytes as a UDP payload: the parser takes or refuses them, and what it takes encodes back.
// The first five bytes of the input choose what the wire says about the datagram.

#include <array>
#include <cstring>
#include <vector>

#include "fuzz/require.h"
#include "roce/icrc.h"
#include "roce/packet.h"

namespace {

using namespace braid::roce;

constexpr std::size_t kChoiceBytes = 5;
constexpr std::uint8_t kIpv6 = 1;
constexpr std::uint8_t kUnknownId = 2;
constexpr std::uint8_t kMayFragment = 4;

std::uint16_t number(const std::uint8_t* in) {
  return static_cast<std::uint16_t>(in[0] << 8 | in[1]);
}

void encode_back(std::span<const std::uint8_t> bytes) {
  Packet packet;
  if (parse_packet(bytes, packet) != DropReason::kNone) return;
  BRAID_REQUIRE(packet.payload.size() <= 4096);
  std::array<std::uint8_t, 64> again;
  const std::size_t header_bytes = encode_headers(packet.headers, again.data());
  BRAID_REQUIRE(bytes.data() + header_bytes == packet.payload.data());
  BRAID_REQUIRE(header_bytes + packet.payload.size() + packet.headers.pad_bytes + kIcrcBytes ==
                bytes.size());
  // Bits that the engine neither reads nor sends: Mig, FECN, BECN, reserved.
  std::vector<std::uint8_t> seen(bytes.begin(), bytes.end());
  seen[1] &= 0xB0;
  seen[4] = 0;
  seen[8] &= 0x80;
  BRAID_REQUIRE(std::memcmp(seen.data(), again.data(), header_bytes) == 0);
}

/// A packet that carries the ICRC computed for it verifies, and not with one bit of it changed.
void seal_and_verify(RxDatagram datagram) {
  constexpr std::size_t kLongest = 4096 + 64;  // see icrc.h
  if (datagram.payload.size() < kBthBytes + kIcrcBytes || datagram.payload.size() > kLongest)
    return;
  std::vector<std::uint8_t> bytes(datagram.payload.begin(), datagram.payload.end());
  const FlowAddress flow{datagram.source, datagram.destination, datagram.source_port};
  const iovec piece{bytes.data(), bytes.size() - kIcrcBytes};
  const std::uint32_t icrc = compute_icrc(flow, {&piece, 1});
  std::memcpy(bytes.data() + piece.iov_len, &icrc, sizeof icrc);
  datagram.payload = bytes;
  datagram.ip_id = 0;
  datagram.dont_fragment = true;
  BRAID_REQUIRE(verify_icrc(datagram));
  bytes.back() ^= 1;
  BRAID_REQUIRE(!verify_icrc(datagram));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < kChoiceBytes) return 0;
  RxDatagram datagram;
  datagram.payload = {data + kChoiceBytes, size - kChoiceBytes};
  datagram.source = IpAddress::from_v4(0x0A000001);
  datagram.destination = IpAddress::from_v4(0x0A000002);
  if ((data[0] & kIpv6) != 0) datagram.source.bytes[0] = datagram.destination.bytes[0] = 0xFD;
  datagram.source_port = number(data + 1);
  datagram.ip_id = (data[0] & kUnknownId) != 0 ? kUnknownIpId : number(data + 3);
  datagram.dont_fragment = (data[0] & kMayFragment) == 0;
  static_cast<void>(verify_icrc(datagram));
  encode_back(datagram.payload);
  seal_and_verify(datagram);
  return 0;
}
