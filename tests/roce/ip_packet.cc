#include "roce/ip_packet.h"

#include <algorithm>

namespace braid::roce::testing {
namespace {

constexpr std::size_t kUdpHeaderBytes = 8;

void append_be(Bytes& out, std::uint64_t value, unsigned bytes) {
  for (unsigned shift = 8 * bytes; shift != 0; shift -= 8) {
    out.push_back(static_cast<std::uint8_t>(value >> (shift - 8)));
  }
}

std::uint32_t read_be(std::span<const std::uint8_t> bytes) {
  std::uint32_t value = 0;
  for (const std::uint8_t byte : bytes) value = value << 8 | byte;
  return value;
}

std::uint16_t internet_checksum(std::span<const std::uint8_t> header) {
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < header.size(); i += 2) sum += read_be(header.subspan(i, 2));
  while (sum > 0xFFFF) sum = (sum & 0xFFFF) + (sum >> 16);
  return static_cast<std::uint16_t>(~sum);
}

void append_ipv4(Bytes& out, const IpFields& fields, std::size_t udp_bytes) {
  append_be(out, 0x45, 1);
  append_be(out, fields.traffic_class, 1);
  append_be(out, 20 + udp_bytes, 2);
  append_be(out, fields.ip_id, 2);
  append_be(out, fields.dont_fragment ? 0x4000 : 0, 2);
  append_be(out, fields.hop_limit, 1);
  append_be(out, 17, 1);
  append_be(out, 0, 2);
  out.insert(out.end(), fields.source.v4(), fields.source.v4() + 4);
  out.insert(out.end(), fields.destination.v4(), fields.destination.v4() + 4);
  const std::uint16_t checksum = internet_checksum(out);
  out[10] = static_cast<std::uint8_t>(checksum >> 8);
  out[11] = static_cast<std::uint8_t>(checksum);
}

void append_ipv6(Bytes& out, const IpFields& fields, std::size_t udp_bytes) {
  append_be(out, 6U << 28 | std::uint32_t{fields.traffic_class} << 20 | fields.flow_label, 4);
  append_be(out, udp_bytes, 2);
  append_be(out, 17, 1);
  append_be(out, fields.hop_limit, 1);
  out.insert(out.end(), fields.source.bytes.begin(), fields.source.bytes.end());
  out.insert(out.end(), fields.destination.bytes.begin(), fields.destination.bytes.end());
}

}  // namespace

Bytes random_bytes(Random& random, std::size_t count) {
  Bytes out(count);
  for (std::uint8_t& byte : out) byte = static_cast<std::uint8_t>(random.next());
  return out;
}

IpFields random_fields(Random& random, bool v4) {
  IpFields fields;
  for (IpAddress* address : {&fields.source, &fields.destination}) {
    if (v4) {
      *address = IpAddress::from_v4(static_cast<std::uint32_t>(random.next()));
    } else {
      const Bytes bytes = random_bytes(random, 15);
      address->bytes[0] = 0xFD;  // never a mapped IPv4 address
      std::copy(bytes.begin(), bytes.end(), address->bytes.begin() + 1);
    }
  }
  fields.source_port = static_cast<std::uint16_t>(random.next());
  fields.traffic_class = static_cast<std::uint8_t>(random.next());
  fields.hop_limit = static_cast<std::uint8_t>(random.next());
  fields.flow_label = static_cast<std::uint32_t>(random.below(1U << 20));
  return fields;
}

Bytes from_hex(std::string_view hex) {
  const auto digit = [](char c) {
    return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
  };
  Bytes out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    out.push_back(static_cast<std::uint8_t>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  }
  return out;
}

Bytes serialize(const IpFields& fields, std::span<const std::uint8_t> udp_payload) {
  Bytes out;
  const std::size_t udp_bytes = kUdpHeaderBytes + udp_payload.size();
  if (fields.source.is_v4()) {
    append_ipv4(out, fields, udp_bytes);
  } else {
    append_ipv6(out, fields, udp_bytes);
  }
  append_be(out, fields.source_port, 2);
  append_be(out, 4791, 2);
  append_be(out, udp_bytes, 2);
  append_be(out, 0, 2);
  out.insert(out.end(), udp_payload.begin(), udp_payload.end());
  return out;
}

std::uint32_t crc_register(std::uint32_t state, std::span<const std::uint8_t> bytes) {
  for (const std::uint8_t byte : bytes) {
    state ^= byte;
    for (int bit = 0; bit < 8; ++bit) {
      state = (state & 1) != 0 ? state >> 1 ^ 0xEDB88320U : state >> 1;
    }
  }
  return state;
}

std::uint32_t reference_icrc(std::span<const std::uint8_t> ip_packet) {
  Bytes covered(ip_packet.begin(), ip_packet.end() - 4);
  const bool v4 = covered[0] >> 4 == 4;
  std::size_t udp = 40;
  if (v4) {
    udp = 20;
    covered[1] = 0xFF;                 // type of service
    covered[8] = 0xFF;                 // time to live
    covered[10] = covered[11] = 0xFF;  // header checksum
  } else {
    covered[0] |= 0x0F;                           // traffic class
    covered[1] = covered[2] = covered[3] = 0xFF;  // and flow label
    covered[7] = 0xFF;                            // hop limit
  }
  covered[udp + 6] = covered[udp + 7] = 0xFF;  // UDP checksum
  covered[udp + kUdpHeaderBytes + 4] = 0xFF;   // FECN, BECN, reserved
  // 0xDEBB20E3 is the register after the eight bytes of ones that stand for the LRH.
  return ~crc_register(0xDEBB20E3U, covered);
}

void store_icrc(std::span<std::uint8_t> udp_payload, std::uint32_t icrc) {
  const std::span<std::uint8_t> out = udp_payload.last(4);
  for (std::size_t i = 0; i < 4; ++i) out[i] = static_cast<std::uint8_t>(icrc >> (8 * i));
}

std::uint32_t load_icrc(std::span<const std::uint8_t> udp_payload) {
  return __builtin_bswap32(read_be(udp_payload.last(4)));
}

void seal(const IpFields& fields, std::span<std::uint8_t> udp_payload) {
  store_icrc(udp_payload, reference_icrc(serialize(fields, udp_payload)));
}

RxDatagram datagram_of(const IpFields& fields, std::span<const std::uint8_t> udp_payload) {
  RxDatagram datagram;
  datagram.payload = udp_payload;
  datagram.source = fields.source;
  datagram.destination = fields.destination;
  datagram.source_port = fields.source_port;
  datagram.ip_id = fields.ip_id;
  datagram.dont_fragment = fields.dont_fragment;
  return datagram;
}

ParsedIp parse_ip(std::span<const std::uint8_t> ip) {
  ParsedIp out;
  IpFields& fields = out.fields;
  std::size_t udp = 40;
  if (ip[0] >> 4 == 4) {
    udp = 20;
    fields.traffic_class = ip[1];
    fields.ip_id = static_cast<std::uint16_t>(read_be(ip.subspan(4, 2)));
    fields.dont_fragment = (ip[6] & 0x40) != 0;
    fields.hop_limit = ip[8];
    fields.source = IpAddress::from_v4(read_be(ip.subspan(12, 4)));
    fields.destination = IpAddress::from_v4(read_be(ip.subspan(16, 4)));
  } else {
    const std::uint32_t word = read_be(ip.first(4));
    fields.traffic_class = static_cast<std::uint8_t>(word >> 20);
    fields.flow_label = word & 0xFFFFF;
    fields.hop_limit = ip[7];
    std::copy_n(ip.begin() + 8, 16, fields.source.bytes.begin());
    std::copy_n(ip.begin() + 24, 16, fields.destination.bytes.begin());
  }
  fields.source_port = static_cast<std::uint16_t>(read_be(ip.subspan(udp, 2)));
  out.udp_payload = ip.subspan(udp + kUdpHeaderBytes);
  return out;
}

}  // namespace braid::roce::testing
