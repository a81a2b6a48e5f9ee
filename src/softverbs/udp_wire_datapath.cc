#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "roce/icrc.h"
#include "softverbs/udp_wire.h"

namespace braid::softverbs {
namespace {

bool same_path(const roce::FlowAddress& a, const roce::FlowAddress& b) noexcept {
  return a.source_port == b.source_port && a.traffic_class == b.traffic_class &&
         a.hop_limit == b.hop_limit && a.destination == b.destination && a.source == b.source;
}

/// Appends control data to a message. The buffer holds all three kinds that build_message() adds.
template <typename T>
void add_control(msghdr& header, int level, int type, T value) noexcept {
  auto* const cmsg = reinterpret_cast<cmsghdr*>(static_cast<std::uint8_t*>(header.msg_control) +
                                                header.msg_controllen);
  cmsg->cmsg_level = level;
  cmsg->cmsg_type = type;
  cmsg->cmsg_len = CMSG_LEN(sizeof(T));
  std::memcpy(CMSG_DATA(cmsg), &value, sizeof(T));
  header.msg_controllen += CMSG_SPACE(sizeof(T));
}

/// Size of the datagrams that the kernel coalesced into this message, or 0.
std::size_t coalesced_size(msghdr& header) noexcept {
  for (cmsghdr* cmsg = CMSG_FIRSTHDR(&header); cmsg != nullptr; cmsg = CMSG_NXTHDR(&header, cmsg)) {
    if (cmsg->cmsg_level != IPPROTO_UDP || cmsg->cmsg_type != UDP_GRO) continue;
    int size = 0;
    std::memcpy(&size, CMSG_DATA(cmsg), sizeof(size));
    return size > 0 ? static_cast<std::size_t>(size) : 0;
  }
  return 0;
}

bool refuses_segmentation(int error) noexcept {
  return error == EIO || error == EINVAL || error == EOPNOTSUPP;
}

}  // namespace

UdpWire::PortSocket* UdpWire::find_socket(std::uint16_t port) noexcept {
  const std::uint16_t slot = slot_of_port_[port];
  return slot == 0 ? nullptr : &sockets_[slot - 1U];
}

void UdpWire::send(std::span<roce::TxPacket> packets, std::span<iovec> iovs) noexcept {
  std::size_t next = 0;
  while (next < packets.size()) {
    PortSocket* const socket = find_socket(packets[next].flow->source_port);
    if (socket == nullptr) {
      ++counters_.tx_dropped_packets;
      ++next;
      continue;
    }
    build_messages(packets, iovs, next, *socket);
    next = flush_messages(packets, *socket);
  }
}

std::size_t UdpWire::message_end(std::span<const roce::TxPacket> packets, std::size_t first,
                                 bool segmentation) const noexcept {
  if (!segmentation) return first + 1;
  const roce::TxPacket& head = packets[first];
  std::size_t bytes = head.bytes;
  std::size_t pieces = head.iov_count;
  std::size_t end = first + 1;
  for (; end < packets.size() && end - first < kMaxSegments; ++end) {
    const roce::TxPacket& packet = packets[end];
    const roce::TxPacket& before = packets[end - 1];
    bytes += packet.bytes;
    pieces += packet.iov_count;
    const bool adjacent = packet.first_iov == before.first_iov + before.iov_count;
    if (!adjacent || before.bytes != head.bytes || packet.bytes > head.bytes ||
        bytes > kMaxSendBytes || pieces > kMaxSendPieces ||
        (packet.flow != head.flow && !same_path(*packet.flow, *head.flow))) {
      break;
    }
  }
  return end;
}

void UdpWire::build_messages(std::span<roce::TxPacket> packets, std::span<iovec> iovs,
                             std::size_t first, const PortSocket& socket) noexcept {
  const std::uint16_t port = packets[first].flow->source_port;
  transmit_.count = 0;
  std::size_t next = first;
  while (next < packets.size() && transmit_.count < kMaxMessages &&
         packets[next].flow->source_port == port) {
    transmit_.first[transmit_.count] = next;
    next = message_end(packets, next, socket.segmentation);
    transmit_.first[transmit_.count + 1] = next;
    build_message(packets, iovs, transmit_.count);
    ++transmit_.count;
  }
}

void UdpWire::build_message(std::span<roce::TxPacket> packets, std::span<iovec> iovs,
                            std::size_t index) noexcept {
  const std::size_t first = transmit_.first[index];
  const std::size_t end = transmit_.first[index + 1];
  const roce::TxPacket& head = packets[first];
  const roce::TxPacket& tail = packets[end - 1];
  const roce::FlowAddress& flow = *head.flow;
  const bool v4 = flow.destination.is_v4();

  SocketAddress& destination = transmit_.destinations[index];
  to_socket_address(flow.destination, roce::kRoceUdpPort, local_.scope_id, destination);
  msghdr& header = transmit_.headers[index].msg_hdr;
  header.msg_name = destination.get();
  header.msg_namelen = destination.bytes;
  header.msg_iov = &iovs[head.first_iov];
  header.msg_iovlen = tail.first_iov + tail.iov_count - head.first_iov;
  header.msg_control = transmit_.control[index].data();
  header.msg_controllen = 0;
  if (end - first > 1) {
    add_control<std::uint16_t>(header, IPPROTO_UDP, UDP_SEGMENT, head.bytes);
    ++counters_.tx_segmented_sends;
    for (std::size_t i = first + 1; v4 && i < end; ++i) {
      roce::adjust_icrc_for_ip_id(packets[i], static_cast<std::uint16_t>(i - first));
    }
  }
  if (flow.traffic_class != 0) {
    add_control<int>(header, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TOS : IPV6_TCLASS,
                     flow.traffic_class);
  }
  if (flow.hop_limit != kDefaultHopLimit) {
    add_control<int>(header, v4 ? IPPROTO_IP : IPPROTO_IPV6, v4 ? IP_TTL : IPV6_HOPLIMIT,
                     flow.hop_limit);
  }
  if (header.msg_controllen == 0) header.msg_control = nullptr;
}

std::size_t UdpWire::flush_messages(std::span<roce::TxPacket> packets,
                                    PortSocket& socket) noexcept {
  const std::size_t count = transmit_.count;
  std::size_t done = 0;
  while (done < count) {
    ++counters_.tx_syscalls;
    const int sent = ::sendmmsg(socket.fd, transmit_.headers.data() + done,
                                static_cast<unsigned>(count - done), MSG_DONTWAIT);
    if (sent > 0) {
      const std::size_t before = transmit_.first[done];
      done += static_cast<std::size_t>(sent);
      counters_.tx_packets += transmit_.first[done] - before;
      continue;
    }
    if (errno == EINTR) continue;
    const std::size_t in_message = transmit_.first[done + 1] - transmit_.first[done];
    if (in_message > 1 && refuses_segmentation(errno)) {
      fall_back_to_single_packets(packets, done, socket);
      return transmit_.first[done];
    }
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
      // The kernel is out of buffers for all of them. RC sends them again; waiting here would hold
      // up everything else.
      counters_.tx_dropped_packets += transmit_.first[count] - transmit_.first[done];
      break;
    }
    counters_.tx_dropped_packets += in_message;  // no route, refused by a filter, too long
    ++done;
  }
  return transmit_.first[count];
}

void UdpWire::fall_back_to_single_packets(std::span<roce::TxPacket> packets, std::size_t message,
                                          PortSocket& socket) noexcept {
  ++counters_.tx_segmentation_refusals;
  socket.segmentation = false;
  disable_checksum(socket.fd);
  // Each of the unsent packets will leave with identification 0 after all. The adjustment is an
  // exclusive or, so that a second one takes it back.
  for (std::size_t index = message; index < transmit_.count; ++index) {
    const std::size_t first = transmit_.first[index];
    if (!packets[first].flow->destination.is_v4()) continue;
    for (std::size_t i = first + 1; i < transmit_.first[index + 1]; ++i) {
      roce::adjust_icrc_for_ip_id(packets[i], static_cast<std::uint16_t>(i - first));
    }
  }
}

std::size_t UdpWire::receive(RxSink& sink, TimePoint now, std::size_t max_messages) noexcept {
  const std::size_t wanted = std::min(max_messages, kMaxReceiveMessages);
  for (std::size_t i = 0; i < wanted; ++i) {
    receive_.headers[i].msg_hdr.msg_namelen = sizeof(sockaddr_storage);
    receive_.headers[i].msg_hdr.msg_controllen = kControlBytes;
  }
  ++counters_.rx_syscalls;
  const int got = ::recvmmsg(receive_socket_.get(), receive_.headers.data(),
                             static_cast<unsigned>(wanted), MSG_DONTWAIT, nullptr);
  if (got < 0) {
    if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) ++counters_.rx_errors;
    return 0;
  }
  const auto count = static_cast<std::size_t>(got);
  for (std::size_t i = 0; i < count; ++i) take_message(sink, now, i);
  flush_pieces(sink, now);
  return count;
}

void UdpWire::take_message(RxSink& sink, TimePoint now, std::size_t index) noexcept {
  msghdr& header = receive_.headers[index].msg_hdr;
  if ((header.msg_flags & MSG_TRUNC) != 0) {
    ++counters_.rx_truncated;
    return;
  }
  const std::span<const std::uint8_t> message(
      static_cast<const std::uint8_t*>(receive_.iovs[index].iov_base),
      receive_.headers[index].msg_len);
  const std::size_t coalesced = coalesced_size(header);
  const std::size_t piece_bytes =
      coalesced != 0 ? coalesced : std::max<std::size_t>(message.size(), 1);
  if (message.size() > piece_bytes) ++counters_.rx_coalesced_messages;

  roce::RxDatagram datagram;
  datagram.destination = local_.ip;
  datagram.ip_id = roce::kUnknownIpId;
  from_socket_address(receive_.sources[index], datagram.source, datagram.source_port);
  if (tap_ != nullptr) {
    const IdentificationTap::Identity identity =
        tap_->identify(datagram.source, datagram.source_port, message);
    datagram.ip_id = identity.ip_id;
    datagram.dont_fragment = identity.dont_fragment;
  }
  std::size_t offset = 0;
  do {
    if (receive_.piece_count == kMaxPieces) flush_pieces(sink, now);
    datagram.payload = message.subspan(offset, std::min(piece_bytes, message.size() - offset));
    receive_.pieces[receive_.piece_count++] = datagram;
    offset += piece_bytes;
  } while (offset < message.size());
}

void UdpWire::flush_pieces(RxSink& sink, TimePoint now) noexcept {
  if (receive_.piece_count == 0) return;
  counters_.rx_datagrams += receive_.piece_count;
  sink.on_datagrams({receive_.pieces.data(), receive_.piece_count}, now);
  receive_.piece_count = 0;
}

}  // namespace braid::softverbs
