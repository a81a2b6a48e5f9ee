#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "roce/wire_format.h"

namespace braid::roce {

/// Why a received packet was not acted on. Each reason has its own counter.
enum class DropReason : std::uint8_t {
  kNone = 0,
  kTooShort,       // shorter than BTH + ICRC, or than its opcode's headers + pad + ICRC
  kTooLong,        // its payload is longer than the largest path MTU
  kBadVersion,     // TVER is not 0
  kUnknownOpcode,  // not an RC opcode that the engine implements
  kBadPad,         // pad on a packet that may carry none, or not a multiple of 4
  kBadIcrc,
  kBadPkey,
  kUnknownQp,           // no such QPN, or a stale generation of it
  kWrongAddress,        // source or destination is not the QP's path
  kQpNotReady,          // QP below RTR (responder) or RTS (requester), or in ERR
  kDuplicateDropped,    // behind the expected PSN and nothing to replay
  kOutOfSequence,       // ahead of the expected PSN, NAK already sent
  kUnexpectedResponse,  // ACK or response outside what is outstanding
  kBadPayloadLength,    // response payload of the wrong size
  kRnrNotReady,         // arrived while a receiver-not-ready NAK is pending
  kCount,
};
[[nodiscard]] std::string_view to_string(DropReason reason) noexcept;

/// A parsed packet: headers in host order and the payload without pad, still in the datagram.
struct Packet {
  Headers headers;
  std::span<const std::uint8_t> payload;
};

/// Parses a UDP payload.
///
/// Shape: `datagram` is BTH .. ICRC; the ICRC is not verified here (see icrc.h).
/// Errors: the reason for which the packet is to be dropped; `out` is then unspecified.
/// Cost: O(1), does not allocate. Every byte sequence is allowed.
[[nodiscard]] DropReason parse_packet(std::span<const std::uint8_t> datagram, Packet& out) noexcept;

}  // namespace braid::roce
