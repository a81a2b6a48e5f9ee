#include "softverbs/identification_tap.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "roce/datagram.h"
#include "softverbs/socket_address.h"

namespace braid::softverbs {
namespace {

std::uint16_t load_u16(const std::uint8_t* bytes) noexcept {
  return static_cast<std::uint16_t>(bytes[0] << 8 | bytes[1]);
}

}  // namespace

IdentificationTap::IdentificationTap(FileDescriptor socket)
    : socket_(std::move(socket)), records_(kCapacity) {}

Result<std::unique_ptr<IdentificationTap>> IdentificationTap::create(
    const roce::IpAddress& address) noexcept {
  FileDescriptor socket(::socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_UDP));
  if (!socket.valid()) {
    const bool denied = errno == EPERM || errno == EACCES;
    return Status::from_errno(denied ? StatusCode::kPermission : StatusCode::kIo, errno);
  }
  SocketAddress bound;
  to_socket_address(address, 0, 0, bound);
  if (::bind(socket.get(), bound.get(), bound.bytes) != 0) {
    return Status::from_errno(StatusCode::kIo, errno);
  }
  // Held until the matching datagram is read, payload included: as large as the UDP socket's.
  const int bytes = 16 << 20;
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)) != 0) {
    (void)::setsockopt(socket.get(), SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
  }
  return std::unique_ptr<IdentificationTap>(new IdentificationTap(std::move(socket)));
}

void IdentificationTap::drain() noexcept {
  std::array<std::array<std::uint8_t, kHeaderBytes>, kBatch> buffers;
  std::array<iovec, kBatch> iovs;
  std::array<mmsghdr, kBatch> headers{};
  for (;;) {
    const std::size_t room = records_.capacity() - records_.size();
    const std::size_t wanted = std::min(room, kBatch);
    if (wanted == 0) return;
    for (std::size_t i = 0; i < wanted; ++i) {
      iovs[i] = iovec{buffers[i].data(), kHeaderBytes};
      headers[i].msg_hdr.msg_iov = &iovs[i];
      headers[i].msg_hdr.msg_iovlen = 1;
    }
    const int got = ::recvmmsg(socket_.get(), headers.data(), static_cast<unsigned>(wanted),
                               MSG_DONTWAIT, nullptr);
    if (got <= 0) return;
    for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) {
      take({buffers[i].data(), headers[i].msg_len});
    }
    if (static_cast<std::size_t>(got) < wanted) return;
  }
}

void IdentificationTap::take(std::span<const std::uint8_t> packet) noexcept {
  constexpr std::size_t kUdpBytes = 8;
  if (packet.size() < sizeof(std::uint32_t) * 5) return;
  const std::size_t ip_bytes = static_cast<std::size_t>(packet[0] & 0x0F) * 4;
  if (packet.size() < ip_bytes + kUdpBytes) return;
  const std::uint8_t* const udp = packet.data() + ip_bytes;
  if (load_u16(udp + 2) != roce::kRoceUdpPort) return;

  Record record;
  std::uint32_t source = 0;
  std::memcpy(&source, packet.data() + 12, sizeof(source));
  record.source = roce::IpAddress::from_v4(ntohl(source));
  record.source_port = load_u16(udp);
  record.payload_bytes = static_cast<std::uint16_t>(load_u16(udp + 4) - kUdpBytes);
  record.ip_id = load_u16(packet.data() + 4);
  record.dont_fragment = (packet[6] & 0x40) != 0;
  const std::size_t prefix = std::min({packet.size() - ip_bytes - kUdpBytes, kPrefixBytes,
                                       static_cast<std::size_t>(record.payload_bytes)});
  record.prefix_count = static_cast<std::uint8_t>(prefix);
  std::memcpy(record.prefix.data(), udp + kUdpBytes, prefix);
  (void)records_.push(record);  // drain() asks for no more than there is room for
}

IdentificationTap::Identity IdentificationTap::identify(
    const roce::IpAddress& source, std::uint16_t source_port,
    std::span<const std::uint8_t> payload) noexcept {
  drain();
  for (std::size_t i = 0; i < records_.size(); ++i) {
    const Record& record = records_.at(i);
    if (record.source_port != source_port || record.payload_bytes != payload.size() ||
        record.source != source ||
        std::memcmp(record.prefix.data(), payload.data(), record.prefix_count) != 0) {
      continue;
    }
    const Identity found{record.ip_id, record.dont_fragment};
    // What came before the match was dropped on its way to the UDP socket.
    for (std::size_t skipped = 0; skipped <= i; ++skipped) records_.pop();
    return found;
  }
  // Lost by the tap. A full ring without a match is out of step for good: start over.
  if (records_.full()) records_.clear();
  return Identity{roce::kUnknownIpId, true};
}

}  // namespace braid::softverbs
