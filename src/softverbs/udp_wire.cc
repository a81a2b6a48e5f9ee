#include "softverbs/udp_wire.h"

#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/random.h"

namespace braid::softverbs {
namespace {

// Newer than the C library's headers of the oldest distribution we build on.
constexpr int kUdpNoCheck6Tx = 101;
constexpr int kUdpNoCheck6Rx = 102;

constexpr std::size_t kCoalescedBufferBytes = 65536;
constexpr std::size_t kPlainBufferBytes = 8192;  // one packet of the largest path MTU

bool set_int(int fd, int level, int name, int value) noexcept {
  return ::setsockopt(fd, level, name, &value, sizeof(value)) == 0;
}

bool has_option(int fd, int level, int name) noexcept {
  int value = 0;
  socklen_t bytes = sizeof(value);
  return ::getsockopt(fd, level, name, &value, &bytes) == 0;
}

/// The privileged call ignores net.core.?mem_max; without CAP_NET_ADMIN the limit applies.
void set_buffer(int fd, int forced, int plain, std::uint32_t bytes) noexcept {
  const int value = static_cast<int>(std::min<std::uint32_t>(bytes, 1U << 30U));
  if (!set_int(fd, SOL_SOCKET, forced, value)) (void)set_int(fd, SOL_SOCKET, plain, value);
}

Status socket_error(int error) noexcept {
  const bool denied = error == EACCES || error == EPERM;
  return Status::from_errno(denied ? StatusCode::kPermission : StatusCode::kIo, error);
}

void explain(std::string* out, std::string text) noexcept {
  if (out != nullptr) *out = std::move(text);
}

std::string bind_failure(const std::string& where, int error) {
  std::string head = "cannot receive on UDP " + where + ": " + std::strerror(error);
  switch (error) {
    case EADDRINUSE:
      return head +
             "; another device or the kernel's rdma_rxe module has it: choose another "
             "address for the soft device, or leave the address empty";
    case EADDRNOTAVAIL:
      return head + "; no interface of this host has the address: see `ip address`";
    case EACCES: return head + "; the system forbids it: see net.ipv4.ip_unprivileged_port_start";
    default: return head;
  }
}

}  // namespace

UdpWire::UdpWire(const SoftDeviceOptions& options)
    : socket_buffer_bytes_(options.socket_buffer_bytes),
      segmentation_(options.segmentation_offload),
      // Of coalesced packets only the first one's header can be seen.
      coalescing_(options.segmentation_offload && !options.raw_receive),
      receive_buffer_bytes_(coalescing_ ? kCoalescedBufferBytes : kPlainBufferBytes),
      slot_of_port_(std::make_unique<std::uint16_t[]>(65536)) {
  receive_.buffers =
      std::make_unique_for_overwrite<std::uint8_t[]>(kMaxReceiveMessages * receive_buffer_bytes_);
  for (std::size_t i = 0; i < kMaxReceiveMessages; ++i) {
    receive_.iovs[i] = {receive_.buffers.get() + i * receive_buffer_bytes_, receive_buffer_bytes_};
    msghdr& header = receive_.headers[i].msg_hdr;
    header.msg_name = &receive_.sources[i];
    header.msg_iov = &receive_.iovs[i];
    header.msg_iovlen = 1;
    header.msg_control = receive_.control[i].data();
  }
}

Result<std::unique_ptr<UdpWire>> UdpWire::create(const SoftDeviceOptions& options,
                                                 std::string* error) noexcept {
  std::unique_ptr<UdpWire> wire(new UdpWire(options));
  if (const Status status = wire->bind_receive_socket(options, error); !status.ok()) return status;
  if (const Status status = wire->resolve_mtu(options.mtu_bytes, error); !status.ok()) {
    return status;
  }
  wire->set_receive_options();
  if (options.raw_receive && wire->local_.ip.is_v4()) {
    auto tap = IdentificationTap::create(wire->local_.ip);
    if (!tap) {
      explain(error, "cannot open a raw socket on " + to_text(wire->local_.ip, 0) + ": " +
                         std::strerror(tap.error().detail()) +
                         "; raw_receive needs CAP_NET_RAW: grant it or turn raw_receive off");
      return tap.error();
    }
    wire->tap_ = std::move(*tap);
  }
  return wire;
}

Status UdpWire::bind_receive_socket(const SoftDeviceOptions& options, std::string* error) noexcept {
  if (options.address.empty()) return choose_loopback_address(error);
  const Result<LocalAddress> parsed = parse_local_address(options.address);
  if (!parsed) {
    explain(error, "\"" + options.address + "\" is not a numeric IPv4 or IPv6 address");
    return parsed.error();
  }
  local_ = *parsed;
  const Status status = make_socket(roce::kRoceUdpPort, receive_socket_);
  if (!status.ok()) {
    explain(error, bind_failure(to_text(local_.ip, roce::kRoceUdpPort), status.detail()));
  }
  return status;
}

Status UdpWire::choose_loopback_address(std::string* error) noexcept {
  // Starting where the process id says keeps neighbours apart without asking; a taken address just
  // leads to the next. 127.0.0.0/16 is left alone: resolvers and host names live there.
  constexpr int kMaxAttempts = 4096;
  Random random(static_cast<std::uint64_t>(::getpid()));
  Status status(StatusCode::kIo);
  for (int attempt = 0; attempt < kMaxAttempts; ++attempt) {
    const auto second = static_cast<std::uint32_t>(1 + random.below(254));
    const auto third = static_cast<std::uint32_t>(random.below(256));
    const auto fourth = static_cast<std::uint32_t>(1 + random.below(254));
    local_.ip = roce::IpAddress::from_v4(127U << 24 | second << 16 | third << 8 | fourth);
    status = make_socket(roce::kRoceUdpPort, receive_socket_);
    if (status.ok() || status.detail() != EADDRINUSE) break;
  }
  if (!status.ok()) {
    explain(error, bind_failure(to_text(local_.ip, roce::kRoceUdpPort), status.detail()) +
                       (status.detail() == EADDRINUSE
                            ? " (no address of 127.0.0.0/8 is free: something is bound to port "
                              "4791 of all addresses)"
                            : ""));
  }
  return status;
}

Status UdpWire::resolve_mtu(std::uint32_t requested_bytes, std::string* error) noexcept {
  constexpr std::uint32_t kEthernetMtuBytes = 1500;
  const std::uint32_t found = interface_mtu_bytes(local_.ip);
  const std::uint32_t interface = found != 0 ? found : kEthernetMtuBytes;
  mtu_bytes_ = path_mtu_bytes(interface);
  const bool valid = requested_bytes == 0 || (requested_bytes >= 256 && requested_bytes <= 4096 &&
                                              (requested_bytes & (requested_bytes - 1)) == 0);
  if (!valid || mtu_bytes_ == 0 || requested_bytes > mtu_bytes_) {
    explain(error, "path MTU of " + std::to_string(requested_bytes) +
                       " bytes is not possible: it is 256, 512, 1024, 2048 or 4096, and the "
                       "interface's MTU of " +
                       std::to_string(interface) + " less 80 bytes of headers carries " +
                       std::to_string(mtu_bytes_) + "; lower mtu_bytes or set it to 0");
    return Status(StatusCode::kInvalidArgument);
  }
  if (requested_bytes != 0) mtu_bytes_ = requested_bytes;
  return Status();
}

Status UdpWire::make_socket(std::uint16_t port, FileDescriptor& out) const noexcept {
  const bool v4 = local_.ip.is_v4();
  FileDescriptor socket(
      ::socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.valid()) return socket_error(errno);
  const int fd = socket.get();
  bool set = false;
  if (v4) {
    // DF, which on an unconnected socket also makes the kernel write identification 0.
    set = set_int(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO) &&
          set_int(fd, IPPROTO_IP, IP_TTL, kDefaultHopLimit);
  } else {
    // RoCE peers send UDP checksum 0, which IPv6 sockets drop unless told otherwise.
    set = set_int(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1) &&
          set_int(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_DO) &&
          set_int(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, kDefaultHopLimit) &&
          set_int(fd, IPPROTO_UDP, kUdpNoCheck6Rx, 1);
  }
  if (!set) return socket_error(errno);
  set_buffer(fd, SO_SNDBUFFORCE, SO_SNDBUF, socket_buffer_bytes_);

  SocketAddress address;
  to_socket_address(local_.ip, port, local_.scope_id, address);
  if (::bind(fd, address.get(), address.bytes) != 0) return socket_error(errno);
  out = std::move(socket);
  return Status();
}

void UdpWire::set_receive_options() noexcept {
  const int fd = receive_socket_.get();
  set_buffer(fd, SO_RCVBUFFORCE, SO_RCVBUF, socket_buffer_bytes_);
  segmentation_ = segmentation_ && has_option(fd, IPPROTO_UDP, UDP_SEGMENT);
  // Without it the kernel cuts coalesced packets up again, so a refusal costs speed only.
  if (coalescing_) (void)set_int(fd, IPPROTO_UDP, UDP_GRO, 1);
}

Status UdpWire::open_source_port(std::uint16_t port) noexcept {
  if (PortSocket* const open = find_socket(port); open != nullptr) {
    ++open->users;
    return Status();
  }
  if (port == 0) return Status(StatusCode::kInvalidArgument);
  PortSocket socket;
  socket.users = 1;
  socket.segmentation = segmentation_;
  if (port == roce::kRoceUdpPort) {
    socket.fd = receive_socket_.get();
  } else {
    if (const Status status = make_socket(port, socket.owned); !status.ok()) return status;
    socket.fd = socket.owned.get();
    // Nobody sends to these ports; what comes all the same must not pile up in kernel memory.
    (void)set_int(socket.fd, SOL_SOCKET, SO_RCVBUF, 0);
  }
  if (!segmentation_) disable_checksum(socket.fd);

  auto slot = std::find_if(sockets_.begin(), sockets_.end(),
                           [](const PortSocket& candidate) { return candidate.users == 0; });
  if (slot == sockets_.end()) slot = sockets_.emplace(sockets_.end());
  *slot = std::move(socket);
  slot_of_port_[port] = static_cast<std::uint16_t>(slot - sockets_.begin() + 1);
  return Status();
}

void UdpWire::close_source_port(std::uint16_t port) noexcept {
  PortSocket* const socket = find_socket(port);
  assert(socket != nullptr);
  if (socket == nullptr || --socket->users != 0) return;
  socket->owned.reset();
  socket->fd = -1;
  slot_of_port_[port] = 0;
}

void UdpWire::disable_checksum(int fd) const noexcept {
  // RoCE packets carry UDP checksum 0. UDP_SEGMENT refuses such sockets, and there the checksum is
  // left to the network card, so this is for sockets that do not segment. Either kind is valid to
  // every receiver; a refusal changes nothing but cost.
  if (local_.ip.is_v4()) {
    (void)set_int(fd, SOL_SOCKET, SO_NO_CHECK, 1);
  } else {
    (void)set_int(fd, IPPROTO_UDP, kUdpNoCheck6Tx, 1);
  }
}

WireCounters UdpWire::counters() const noexcept {
  WireCounters out = counters_;
  std::array<std::uint32_t, SK_MEMINFO_VARS> memory{};
  socklen_t bytes = sizeof(memory);
  if (::getsockopt(receive_socket_.get(), SOL_SOCKET, SO_MEMINFO, memory.data(), &bytes) == 0) {
    out.rx_overflow_drops = memory[SK_MEMINFO_DROPS];
  }
  return out;
}

}  // namespace braid::softverbs
