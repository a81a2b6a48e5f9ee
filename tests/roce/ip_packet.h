#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "roce/datagram.h"

namespace braid::roce::testing {

using Bytes = std::vector<std::uint8_t>;

/// What a packet carries in front of the UDP payload.
struct IpFields {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 64;
  std::uint16_t ip_id = 0;       // IPv4
  bool dont_fragment = true;     // IPv4
  std::uint32_t flow_label = 0;  // IPv6
};

/// Both addresses IPv4, or both IPv6, all of it random.
[[nodiscard]] IpFields random_fields(Random& random, bool v4);
[[nodiscard]] Bytes random_bytes(Random& random, std::size_t count);
[[nodiscard]] Bytes from_hex(std::string_view hex);

/// The whole IP packet, with a real IPv4 header checksum and UDP checksum 0.
[[nodiscard]] Bytes serialize(const IpFields& fields, std::span<const std::uint8_t> udp_payload);

/// CRC-32, bit by bit: reflected, polynomial 0x04C11DB7, without initial ones and complement.
[[nodiscard]] std::uint32_t crc_register(std::uint32_t state, std::span<const std::uint8_t> bytes);

/// The ICRC of a whole IP packet by the letter of the specification. Shares nothing with the code
/// under test. The last four bytes, where the ICRC stands, are not read.
[[nodiscard]] std::uint32_t reference_icrc(std::span<const std::uint8_t> ip_packet);

/// The UDP payload with `icrc` in its last four bytes, least significant byte first.
void store_icrc(std::span<std::uint8_t> udp_payload, std::uint32_t icrc);
[[nodiscard]] std::uint32_t load_icrc(std::span<const std::uint8_t> udp_payload);

/// Gives the UDP payload the ICRC that it has behind these headers.
void seal(const IpFields& fields, std::span<std::uint8_t> udp_payload);

/// What a wire hands to the engine that sees the IP header.
[[nodiscard]] RxDatagram datagram_of(const IpFields& fields,
                                     std::span<const std::uint8_t> udp_payload);

/// Takes an IP packet apart. The spans of the result point into it.
struct ParsedIp {
  IpFields fields;
  std::span<const std::uint8_t> udp_payload;
};
[[nodiscard]] ParsedIp parse_ip(std::span<const std::uint8_t> ip_packet);

}  // namespace braid::roce::testing
