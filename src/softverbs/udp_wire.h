#pragma once

#include <braid/result.h>
#include <braid/soft_device.h>
#include <braid/time.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "roce/address.h"
#include "roce/datagram.h"
#include "softverbs/file_descriptor.h"
#include "softverbs/identification_tap.h"
#include "softverbs/socket_address.h"

namespace braid::softverbs {

/// Takes what a wire received.
class RxSink {
 public:
  /// Handed the datagrams of one system call, in the order of arrival. Never empty. The payloads
  /// are valid during the call only.
  virtual void on_datagrams(std::span<const roce::RxDatagram> datagrams,
                            TimePoint now) noexcept = 0;

 protected:
  ~RxSink() = default;
};

/// What a wire did. Plain integers: read them where the wire is driven.
struct WireCounters {
  std::uint64_t tx_syscalls = 0;
  std::uint64_t tx_packets = 0;                // taken by the kernel
  std::uint64_t tx_segmented_sends = 0;        // messages of more than one packet (UDP_SEGMENT)
  std::uint64_t tx_dropped_packets = 0;        // no buffer, no route, port not open
  std::uint64_t tx_segmentation_refusals = 0;  // sockets that fell back to one packet a message
  std::uint64_t rx_syscalls = 0;               // includes those that found nothing
  std::uint64_t rx_datagrams = 0;              // as sent: coalesced ones are counted apart
  std::uint64_t rx_coalesced_messages = 0;     // messages of more than one datagram (UDP_GRO)
  std::uint64_t rx_truncated = 0;              // longer than any packet of the wire; dropped
  std::uint64_t rx_errors = 0;
  std::uint64_t rx_overflow_drops = 0;  // dropped by the kernel: receive buffer full
};

/// UDP sockets of one RoCEv2 device: one that receives on (address, 4791), and one per distinct
/// source port to send from.
///
/// The transmit sockets are never connected. The kernel gives the packets of a connected socket a
/// per-socket hash which routers on the same host use in place of the ports, so that the path would
/// change from run to run; and it numbers their IPv4 identification unpredictably, which the ICRC
/// covers. From an unconnected socket with IP_PMTUDISC_DO a packet leaves with identification 0 and
/// DF, or 0, 1, 2 ... within one UDP_SEGMENT send.
///
/// Thread: none; the owner serialises. receive_fd() may be waited on by any thread.
/// Cost: send() and receive() do not allocate.
class UdpWire {
 public:
  /// Opens the receiving socket. With an empty options.address the device gets a free address of
  /// 127.0.0.0/8.
  ///
  /// Errors: kInvalidArgument (address not numeric, MTU out of range or larger than the interface
  /// carries), kIo or kPermission with the errno of the call that failed. `error`, if not null,
  /// then says in a sentence which address and port, why, and what to do.
  static Result<std::unique_ptr<UdpWire>> create(const SoftDeviceOptions& options,
                                                 std::string* error) noexcept;
  UdpWire(const UdpWire&) = delete;
  UdpWire& operator=(const UdpWire&) = delete;
  ~UdpWire() = default;

  [[nodiscard]] const roce::IpAddress& address() const noexcept { return local_.ip; }
  [[nodiscard]] std::uint32_t max_mtu_bytes() const noexcept { return mtu_bytes_; }
  /// Full packets of a path MTU that one segmented send takes.
  [[nodiscard]] static constexpr std::uint32_t packets_per_send(std::uint32_t mtu_bytes) noexcept {
    const std::size_t packet_bytes = mtu_bytes + 16;  // BTH and ICRC
    return static_cast<std::uint32_t>(std::min(kMaxSendBytes / packet_bytes, kMaxSegments));
  }
  /// Readable when receive() has something to do.
  [[nodiscard]] int receive_fd() const noexcept { return receive_socket_.get(); }

  /// Binds a transmit socket to `port`, or counts one more user of it. Port 4791 shares the
  /// receiving socket. Cold: allocates.
  /// Errors: kPermission (EACCES: port below net.ipv4.ip_unprivileged_port_start) or kIo
  /// (EADDRINUSE: the port is taken; EMFILE: RLIMIT_NOFILE), with the errno; kInvalidArgument for
  /// port 0.
  [[nodiscard]] Status open_source_port(std::uint16_t port) noexcept;
  /// Gives back one use of `port`; the last one closes the socket. `port` must be open.
  void close_source_port(std::uint16_t port) noexcept;

  /// Sends packets in order; neighbours of one flow go out together. Rewrites the ICRC of packets
  /// that leave with an IPv4 identification other than 0.
  ///
  /// Shape: `iovs` is what the packets index. Owner: everything is copied before it returns.
  /// Errors: none; what the kernel does not take is dropped and counted, as on any network.
  void send(std::span<roce::TxPacket> packets, std::span<iovec> iovs) noexcept;

  /// Receives up to `max_messages` messages, of up to 64 KiB of coalesced datagrams each, without
  /// waiting. Returns the number of messages; less than asked for means that nothing is left.
  std::size_t receive(RxSink& sink, TimePoint now, std::size_t max_messages) noexcept;

  /// Copies the counters and asks the kernel for its drops. One system call.
  [[nodiscard]] WireCounters counters() const noexcept;

  /// Largest number of messages that one receive() takes.
  static constexpr std::size_t kMaxReceiveMessages = 32;

 private:
  // A UDP_SEGMENT send. Linux takes 64 segments, since 6.10 128; and a link-layer frame, 14 bytes
  // of Ethernet header included, has to stay below 64 KiB or it is cut up in software.
  static constexpr std::size_t kMaxSegments = 64;
  static constexpr std::size_t kMaxSendBytes = 65536 - 14 - 40 - 8 - 2;
  static constexpr std::size_t kMaxSendPieces = 1024;  // UIO_MAXIOV
  static constexpr std::size_t kMaxMessages = 64;
  static constexpr std::size_t kMaxPieces = 256;  // datagrams handed to the sink at once
  static constexpr std::size_t kControlBytes = 96;
  static constexpr std::uint8_t kDefaultHopLimit = 64;

  struct PortSocket {
    FileDescriptor owned;  // invalid for port 4791, which borrows the receiving socket
    int fd = -1;
    std::uint32_t users = 0;
    bool segmentation = false;
  };

  /// Message headers of one sendmmsg; message i carries packets [first[i], first[i + 1]).
  struct Transmit {
    std::array<mmsghdr, kMaxMessages> headers{};
    std::array<SocketAddress, kMaxMessages> destinations{};
    std::array<std::size_t, kMaxMessages + 1> first{};
    alignas(cmsghdr) std::array<std::array<std::uint8_t, kControlBytes>, kMaxMessages> control{};
    std::size_t count = 0;
  };

  struct Receive {
    std::array<mmsghdr, kMaxReceiveMessages> headers{};
    std::array<iovec, kMaxReceiveMessages> iovs{};
    std::array<sockaddr_storage, kMaxReceiveMessages> sources{};
    alignas(
        cmsghdr) std::array<std::array<std::uint8_t, kControlBytes>, kMaxReceiveMessages> control{};
    std::array<roce::RxDatagram, kMaxPieces> pieces{};
    std::size_t piece_count = 0;
    std::unique_ptr<std::uint8_t[]> buffers;
  };

  explicit UdpWire(const SoftDeviceOptions& options);

  Status bind_receive_socket(const SoftDeviceOptions& options, std::string* error) noexcept;
  Status choose_loopback_address(std::string* error) noexcept;
  Status resolve_mtu(std::uint32_t requested_bytes, std::string* error) noexcept;
  Status make_socket(std::uint16_t port, FileDescriptor& out) const noexcept;
  void set_receive_options() noexcept;
  void disable_checksum(int fd) const noexcept;

  [[nodiscard]] PortSocket* find_socket(std::uint16_t port) noexcept;
  [[nodiscard]] std::size_t message_end(std::span<const roce::TxPacket> packets, std::size_t first,
                                        bool segmentation) const noexcept;
  void build_messages(std::span<roce::TxPacket> packets, std::span<iovec> iovs, std::size_t first,
                      const PortSocket& socket) noexcept;
  void build_message(std::span<roce::TxPacket> packets, std::span<iovec> iovs,
                     std::size_t index) noexcept;
  std::size_t flush_messages(std::span<roce::TxPacket> packets, PortSocket& socket) noexcept;
  void fall_back_to_single_packets(std::span<roce::TxPacket> packets, std::size_t message,
                                   PortSocket& socket) noexcept;
  void take_message(RxSink& sink, TimePoint now, std::size_t index) noexcept;
  void flush_pieces(RxSink& sink, TimePoint now) noexcept;

  LocalAddress local_;
  std::uint32_t mtu_bytes_ = 0;
  std::uint32_t socket_buffer_bytes_;
  bool segmentation_;
  bool coalescing_;
  std::size_t receive_buffer_bytes_;
  FileDescriptor receive_socket_;
  std::unique_ptr<IdentificationTap> tap_;         // only with options.raw_receive
  std::unique_ptr<std::uint16_t[]> slot_of_port_;  // 0 = closed, else 1 + index into sockets_
  std::vector<PortSocket> sockets_;
  Transmit transmit_;
  Receive receive_;
  WireCounters counters_;
};

}  // namespace braid::softverbs
