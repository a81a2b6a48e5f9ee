#include "softverbs/socket_address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/ioctl.h>

#include <cstring>

#include "softverbs/file_descriptor.h"

namespace braid::softverbs {
namespace {

/// True when `ip` lies in the prefix of an interface's address. A loopback prefix is local as a
/// whole; of any other prefix only the address itself is.
bool covers(const ifaddrs& entry, const roce::IpAddress& ip) noexcept {
  if (entry.ifa_addr == nullptr) return false;
  sockaddr_storage storage{};
  const int family = entry.ifa_addr->sa_family;
  if (family != AF_INET && family != AF_INET6) return false;
  std::memcpy(&storage, entry.ifa_addr,
              family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  roce::IpAddress own;
  std::uint16_t port = 0;
  from_socket_address(storage, own, port);
  if (own == ip) return true;
  if ((entry.ifa_flags & IFF_LOOPBACK) == 0 || family != AF_INET || !ip.is_v4()) return false;
  if (entry.ifa_netmask == nullptr) return false;
  sockaddr_in mask{};
  std::memcpy(&mask, entry.ifa_netmask, sizeof(mask));
  std::uint32_t own_bits = 0;
  std::uint32_t ip_bits = 0;
  std::memcpy(&own_bits, own.v4(), 4);
  std::memcpy(&ip_bits, ip.v4(), 4);
  return ((own_bits ^ ip_bits) & mask.sin_addr.s_addr) == 0;
}

}  // namespace

Result<LocalAddress> parse_local_address(const std::string& text) noexcept {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(text.c_str(), nullptr, &hints, &found) != 0) {
    return Status(StatusCode::kInvalidArgument);
  }
  LocalAddress out;
  sockaddr_storage storage{};
  std::memcpy(&storage, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  std::uint16_t port = 0;
  from_socket_address(storage, out.ip, port);
  if (storage.ss_family == AF_INET6) {
    sockaddr_in6 v6{};
    std::memcpy(&v6, &storage, sizeof(v6));
    out.scope_id = v6.sin6_scope_id;
  }
  return out;
}

void to_socket_address(const roce::IpAddress& ip, std::uint16_t port, std::uint32_t scope_id,
                       SocketAddress& out) noexcept {
  if (ip.is_v4()) {
    sockaddr_in v4{};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, ip.v4(), 4);
    std::memcpy(&out.storage, &v4, sizeof(v4));
    out.bytes = sizeof(v4);
    return;
  }
  sockaddr_in6 v6{};
  v6.sin6_family = AF_INET6;
  v6.sin6_port = htons(port);
  std::memcpy(&v6.sin6_addr, ip.bytes.data(), ip.bytes.size());
  v6.sin6_scope_id = IN6_IS_ADDR_LINKLOCAL(&v6.sin6_addr) ? scope_id : 0;
  std::memcpy(&out.storage, &v6, sizeof(v6));
  out.bytes = sizeof(v6);
}

void from_socket_address(const sockaddr_storage& storage, roce::IpAddress& ip,
                         std::uint16_t& port) noexcept {
  if (storage.ss_family == AF_INET) {
    sockaddr_in v4{};
    std::memcpy(&v4, &storage, sizeof(v4));
    ip = roce::IpAddress::from_v4(ntohl(v4.sin_addr.s_addr));
    port = ntohs(v4.sin_port);
    return;
  }
  sockaddr_in6 v6{};
  std::memcpy(&v6, &storage, sizeof(v6));
  std::memcpy(ip.bytes.data(), &v6.sin6_addr, ip.bytes.size());
  port = ntohs(v6.sin6_port);
}

std::string to_text(const roce::IpAddress& ip, std::uint16_t port) {
  char text[INET6_ADDRSTRLEN] = {};
  if (ip.is_v4()) {
    ::inet_ntop(AF_INET, ip.v4(), text, sizeof(text));
    return std::string(text) + ":" + std::to_string(port);
  }
  ::inet_ntop(AF_INET6, ip.bytes.data(), text, sizeof(text));
  return "[" + std::string(text) + "]:" + std::to_string(port);
}

std::uint32_t interface_mtu_bytes(const roce::IpAddress& ip) noexcept {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return 0;
  std::uint32_t mtu = 0;
  for (const ifaddrs* entry = list; entry != nullptr && mtu == 0; entry = entry->ifa_next) {
    if (!covers(*entry, ip)) continue;
    const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ifreq request{};
    std::strncpy(request.ifr_name, entry->ifa_name, IFNAMSIZ - 1);
    if (socket.valid() && ::ioctl(socket.get(), SIOCGIFMTU, &request) == 0) {
      mtu = static_cast<std::uint32_t>(request.ifr_mtu);
    }
  }
  ::freeifaddrs(list);
  return mtu;
}

std::uint32_t path_mtu_bytes(std::uint32_t interface_mtu_bytes) noexcept {
  constexpr std::uint32_t kHeaderRoomBytes = 80;  // rxe's allowance: IPv6, UDP, BTH and the rest
  for (std::uint32_t mtu = 4096; mtu >= 256; mtu /= 2) {
    if (interface_mtu_bytes >= mtu + kHeaderRoomBytes) return mtu;
  }
  return 0;
}

}  // namespace braid::softverbs
