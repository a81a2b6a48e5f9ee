#pragma once

#include <cstdint>
#include <cstring>

#include "roce/datagram.h"
#include "roce/icrc.h"
#include "roce/wire_format.h"

namespace braid::roce {

/// Builds one packet at the end of a TxBatch: headers, payload pieces in place, pad, ICRC.
///
/// Shape: the batch is not full. Headers::pad_bytes is the caller's to set from the payload size.
class PacketBuilder {
 public:
  PacketBuilder(TxBatch& batch, const FlowAddress& flow, const Headers& headers) noexcept
      : batch_(batch), flow_(flow), pad_bytes_(headers.pad_bytes) {
    scratch_ = batch.begin_packet(&flow);
    batch.add_piece(scratch_, encode_headers(headers, scratch_));
  }

  void add_payload(const void* data, std::size_t bytes) noexcept { batch_.add_piece(data, bytes); }

  /// Takes the packet back.
  void abandon() noexcept { batch_.abandon_packet(); }

  /// Adds pad and ICRC and closes the packet. Returns the UDP payload length.
  std::size_t finish() noexcept {
    // The trailer lies behind the largest header in the packet's slot of the arena.
    std::uint8_t* trailer = scratch_ + TxBatch::kMaxHeaderBytes - kTrailerBytes;
    std::memset(trailer, 0, kTrailerBytes);
    if (pad_bytes_ != 0) batch_.add_piece(trailer, pad_bytes_);
    const std::uint32_t icrc = batch_.with_icrc() ? compute_icrc(flow_, batch_.open_pieces()) : 0;
    std::uint8_t* icrc_bytes = trailer + pad_bytes_;
    for (std::size_t i = 0; i < kIcrcBytes; ++i) {
      icrc_bytes[i] = static_cast<std::uint8_t>(icrc >> (8 * i));
    }
    batch_.add_piece(icrc_bytes, kIcrcBytes);
    const std::size_t bytes = batch_.open_packet().bytes;
    batch_.end_packet(icrc_bytes);
    return bytes;
  }

 private:
  static constexpr std::size_t kTrailerBytes = 8;  // up to 3 bytes of pad, then the ICRC

  TxBatch& batch_;
  const FlowAddress& flow_;
  std::uint8_t* scratch_;
  std::uint8_t pad_bytes_;
};

[[nodiscard]] constexpr std::uint8_t pad_for(std::size_t payload_bytes) noexcept {
  return static_cast<std::uint8_t>((4 - payload_bytes % 4) % 4);
}

}  // namespace braid::roce
