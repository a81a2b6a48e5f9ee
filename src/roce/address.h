#pragma once

#include <array>
#include <cstdint>
#include <cstring>

namespace braid::roce {

/// IPv4 or IPv6 address in GID form: 16 bytes, network order, IPv4 mapped as ::ffff:a.b.c.d.
struct IpAddress {
  std::array<std::uint8_t, 16> bytes{};

  [[nodiscard]] bool is_v4() const noexcept {
    static constexpr std::array<std::uint8_t, 12> kMapped{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF};
    return std::memcmp(bytes.data(), kMapped.data(), kMapped.size()) == 0;
  }
  /// The four bytes of a mapped IPv4 address, network order.
  [[nodiscard]] const std::uint8_t* v4() const noexcept { return bytes.data() + 12; }

  static IpAddress from_v4(std::uint32_t host_order) noexcept {
    IpAddress out;
    out.bytes[10] = out.bytes[11] = 0xFF;
    for (std::size_t i = 0; i < 4; ++i) {
      out.bytes[12 + i] = static_cast<std::uint8_t>(host_order >> (24 - 8 * i));
    }
    return out;
  }
  friend bool operator==(const IpAddress&, const IpAddress&) noexcept = default;
};

/// Everything that a QP's packets carry outside the UDP payload, hence what the network hashes.
struct FlowAddress {
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;   // UDP, host order; the destination port is always 4791
  std::uint8_t traffic_class = 0;  // IPv4 TOS / IPv6 traffic class; DSCP is the upper six bits
  std::uint8_t hop_limit = 64;
};

inline constexpr std::uint16_t kRoceUdpPort = 4791;

}  // namespace braid::roce
