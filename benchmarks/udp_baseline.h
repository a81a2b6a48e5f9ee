#pragma once

#include <braid/result.h>
#include <braid/time.h>

#include <cstddef>
#include <cstdint>

namespace braid::bench {

/// What a baseline moves and for how long.
struct UdpBaselineOptions {
  /// Time that the sender measures over, after as much again as a tenth of it for warming up.
  Duration duration = std::chrono::milliseconds(500);
  std::size_t datagram_bytes = 4096;
  /// Datagrams of one system call: a message each for sendmmsg, together a message for UDP_SEGMENT
  /// (which takes at most 64 KiB, hence 15 of 4 KiB).
  std::size_t batch_count = 15;
  /// Datagrams that may be under way unacknowledged. The receiver answers each quarter window with
  /// an 8-byte count of what it has received; that is all the flow control there is, and it keeps
  /// the receive buffer from overrunning without slowing either side.
  std::size_t window_count = 480;
};

/// Goodput of a bare exchange of UDP datagrams between two processes on the loopback interface.
///
/// Each process runs one thread on blocking system calls, with unconnected sockets, as a RoCE
/// device has to. Counted is what the *receiver* got
/// between the first and the last acknowledgement of the measured time; the bytes are received
/// into memory and not looked at.
struct UdpGoodput {
  double bytes_per_second = 0;
  std::uint64_t lost_datagrams = 0;  // sent and never received; 0 unless a buffer overran
};

/// (a) sendmmsg to recvmmsg, one datagram a message.
/// Errors: kIo with the errno of the call that failed; kTimeout when the peer process stops
/// answering. Cost: forks a process, which has ended when it returns.
[[nodiscard]] Result<UdpGoodput> measure_udp_batches(const UdpBaselineOptions& options) noexcept;

/// (b) UDP_SEGMENT to UDP_GRO, batch_count datagrams a message. Errors: as (a); kNotSupported when
/// the kernel lacks either option.
[[nodiscard]] Result<UdpGoodput> measure_udp_segmented(const UdpBaselineOptions& options) noexcept;

/// (c) Mean time in seconds of a round trip of 8-byte datagrams between two processes that
/// busy-poll non-blocking, unconnected sockets. Errors: as (a).
[[nodiscard]] Result<double> measure_udp_ping_pong(std::uint64_t round_trips) noexcept;

}  // namespace braid::bench
