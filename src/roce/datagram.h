#pragma once

#include <sys/uio.h>

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "roce/address.h"

namespace braid::roce {

/// A received UDP datagram, as the wire hands it to Engine::handle_packet().
struct RxDatagram {
  std::span<const std::uint8_t> payload;  // UDP payload: BTH .. ICRC; valid during the call only
  IpAddress source;
  IpAddress destination;
  std::uint16_t source_port = 0;  // host order
  /// The IPv4 identification the packet travelled with, or kUnknownIpId when the wire cannot see
  /// it. A UDP socket cannot; the ICRC is then accepted for the identifications that batched
  /// sends produce (0 .. kMaxBatchIpId), and for those only. Ignored for IPv6.
  std::int32_t ip_id = 0;
  bool dont_fragment = true;  // IPv4 DF as received; true where unknown
};

inline constexpr std::int32_t kUnknownIpId = -1;
/// Highest IPv4 identification that one UDP_SEGMENT send can produce: the kernel numbers the
/// segments of a send 0, 1, 2 ... and takes at most 128 (64 before Linux 6.10).
inline constexpr std::int32_t kMaxBatchIpId = 127;

/// One packet to send. It lies in its TxBatch as `iov_count` consecutive pieces: headers first,
/// then payload in place in the application's memory, then pad and ICRC.
struct TxPacket {
  const FlowAddress* flow = nullptr;
  std::uint32_t first_iov = 0;
  std::uint16_t iov_count = 0;
  std::uint16_t bytes = 0;  // UDP payload length: all pieces
  /// The ICRC inside the last piece. It is valid for IPv4 identification 0 with DF; a wire that
  /// sends the packet with another one calls adjust_icrc_for_ip_id().
  std::uint8_t* icrc = nullptr;
};

/// Packets that Engine::poll_transmit() produced, in the order in which they are to leave.
///
/// Shape: fixed capacity, from the constructor. The pieces of packet i + 1 follow those of packet
/// i in iovs(), so a run of equal-sized packets of one flow is one UDP_SEGMENT send.
/// Owner: the caller. The payload pieces point into registered memory and stay valid until the
/// next call into the engine; the wire sends or copies before that.
/// Cost: allocates in the constructor only.
class TxBatch {
 public:
  static constexpr std::size_t kMaxHeaderBytes = 64;      // BTH + largest extended headers + ICRC
  static constexpr std::size_t kMaxPiecesPerPacket = 34;  // header, 32 SGEs, trailer

  /// `with_icrc` false leaves the ICRC 0, for a wire that is memory and receivers that do not look.
  explicit TxBatch(std::size_t capacity, bool with_icrc = true)
      : with_icrc_(with_icrc),
        capacity_(capacity),
        packets_(std::make_unique<TxPacket[]>(capacity)),
        iov_capacity_(capacity * 4 + kMaxPiecesPerPacket),
        iovs_(std::make_unique<iovec[]>(iov_capacity_)),
        arena_(std::make_unique<std::uint8_t[]>(capacity * kMaxHeaderBytes)) {}

  [[nodiscard]] bool with_icrc() const noexcept { return with_icrc_; }
  void clear() noexcept { count_ = iov_count_ = 0; }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// True when another packet may not fit.
  [[nodiscard]] bool full() const noexcept {
    return count_ == capacity_ || iov_count_ + kMaxPiecesPerPacket > iov_capacity_;
  }
  [[nodiscard]] std::span<TxPacket> packets() noexcept { return {packets_.get(), count_}; }
  [[nodiscard]] std::span<iovec> iovs() noexcept { return {iovs_.get(), iov_count_}; }

  // For the engine: open a packet, add pieces, close it.
  [[nodiscard]] std::uint8_t* begin_packet(const FlowAddress* flow) noexcept {
    assert(!full());
    packets_[count_] = TxPacket{flow, static_cast<std::uint32_t>(iov_count_), 0, 0, nullptr};
    return arena_.get() + count_ * kMaxHeaderBytes;
  }
  void add_piece(const void* data, std::size_t bytes) noexcept {
    assert(iov_count_ < iov_capacity_);
    iovs_[iov_count_++] = iovec{const_cast<void*>(data), bytes};
    packets_[count_].bytes = static_cast<std::uint16_t>(packets_[count_].bytes + bytes);
  }
  void end_packet(std::uint8_t* icrc) noexcept {
    TxPacket& packet = packets_[count_];
    packet.iov_count = static_cast<std::uint16_t>(iov_count_ - packet.first_iov);
    packet.icrc = icrc;
    ++count_;
  }
  /// Takes back the packet opened last.
  void abandon_packet() noexcept { iov_count_ = packets_[count_].first_iov; }
  /// The packet that is open, between begin_packet() and end_packet().
  [[nodiscard]] const TxPacket& open_packet() const noexcept { return packets_[count_]; }
  [[nodiscard]] std::span<const iovec> open_pieces() const noexcept {
    const std::size_t first = packets_[count_].first_iov;
    return {iovs_.get() + first, iov_count_ - first};
  }

 private:
  bool with_icrc_;
  std::size_t capacity_;
  std::size_t count_ = 0;
  std::size_t iov_count_ = 0;
  std::unique_ptr<TxPacket[]> packets_;
  std::size_t iov_capacity_;
  std::unique_ptr<iovec[]> iovs_;
  std::unique_ptr<std::uint8_t[]> arena_;
};

}  // namespace braid::roce
