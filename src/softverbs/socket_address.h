#pragma once

#include <braid/result.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>

#include "roce/address.h"

namespace braid::softverbs {

/// Socket address of either family with its length.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  [[nodiscard]] sockaddr* get() noexcept { return reinterpret_cast<sockaddr*>(&storage); }
  [[nodiscard]] const sockaddr* get() const noexcept {
    return reinterpret_cast<const sockaddr*>(&storage);
  }
};

/// Address of this host that a device owns.
struct LocalAddress {
  roce::IpAddress ip;
  std::uint32_t scope_id = 0;  // interface of an IPv6 link-local address, else 0
};

/// Parses "192.0.2.1", "2001:db8::1" or "fe80::1%eth0".
/// Errors: kInvalidArgument when it is none of these.
[[nodiscard]] Result<LocalAddress> parse_local_address(const std::string& text) noexcept;

/// Fills `out` for sendmsg or bind. Cost: O(1), does not allocate.
void to_socket_address(const roce::IpAddress& ip, std::uint16_t port, std::uint32_t scope_id,
                       SocketAddress& out) noexcept;

/// Address and port of a received datagram. Cost: O(1), does not allocate.
void from_socket_address(const sockaddr_storage& storage, roce::IpAddress& ip,
                         std::uint16_t& port) noexcept;

/// "192.0.2.1:4791" or "[2001:db8::1]:4791", for messages.
[[nodiscard]] std::string to_text(const roce::IpAddress& ip, std::uint16_t port);

/// MTU in bytes of the interface that has this address, by its own address or by its prefix (all
/// of 127.0.0.0/8 belongs to the loopback interface). 0 when no interface has it.
[[nodiscard]] std::uint32_t interface_mtu_bytes(const roce::IpAddress& ip) noexcept;

/// Largest IB path MTU that fits an interface: the largest of 256 .. 4096 that leaves 80 bytes for
/// headers. 0 when none fits.
[[nodiscard]] std::uint32_t path_mtu_bytes(std::uint32_t interface_mtu_bytes) noexcept;

}  // namespace braid::softverbs
