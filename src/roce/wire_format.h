#pragma once

#include <cstddef>
#include <cstdint>

#include "base/seq24.h"

namespace braid::roce {

struct PsnTag {};
struct MsnTag {};
/// Packet sequence number and message sequence number (IBTA 9.7.2, 9.7.7.1).
using Psn = Seq24<PsnTag>;
using Msn = Seq24<MsnTag>;

/// BTH opcodes of the reliable connection service (IBTA table 38).
enum class Opcode : std::uint8_t {
  kSendFirst = 0x00,
  kSendMiddle = 0x01,
  kSendLast = 0x02,
  kSendLastImm = 0x03,
  kSendOnly = 0x04,
  kSendOnlyImm = 0x05,
  kWriteFirst = 0x06,
  kWriteMiddle = 0x07,
  kWriteLast = 0x08,
  kWriteLastImm = 0x09,
  kWriteOnly = 0x0A,
  kWriteOnlyImm = 0x0B,
  kReadRequest = 0x0C,
  kReadResponseFirst = 0x0D,
  kReadResponseMiddle = 0x0E,
  kReadResponseLast = 0x0F,
  kReadResponseOnly = 0x10,
  kAcknowledge = 0x11,
  kAtomicAcknowledge = 0x12,
  kCompareSwap = 0x13,
  kFetchAdd = 0x14,
  kSendLastInvalidate = 0x16,
  kSendOnlyInvalidate = 0x17,
};

inline constexpr std::size_t kBthBytes = 12;
inline constexpr std::size_t kRethBytes = 16;
inline constexpr std::size_t kAethBytes = 4;
inline constexpr std::size_t kImmBytes = 4;
inline constexpr std::size_t kIethBytes = 4;
inline constexpr std::size_t kAtomicEthBytes = 28;
inline constexpr std::size_t kAtomicAckBytes = 8;
inline constexpr std::size_t kIcrcBytes = 4;
/// A message, and with it the length in a RETH, is never longer (IBTA 9.7.4.1.6).
inline constexpr std::uint32_t kMaxMessageBytes = 1U << 31;
inline constexpr std::uint8_t kBthSolicited = 0x80;
inline constexpr unsigned kBthPadShift = 4;
inline constexpr std::uint8_t kBthVersionMask = 0x0F;
inline constexpr std::uint32_t kBthAckRequest = 0x80000000;
inline constexpr std::uint16_t kDefaultPkey = 0xFFFF;

/// What an opcode is made of. One table serves parser, builder, requester and responder.
struct OpcodeTraits {
  bool valid : 1;
  bool request : 1;   // handled by the responder
  bool response : 1;  // handled by the requester
  bool first : 1;     // opens a message
  bool last : 1;      // closes a message (an "only" packet does both)
  bool send : 1;
  bool write : 1;
  bool read_response : 1;
  bool atomic : 1;
  bool reth : 1;
  bool aeth : 1;
  bool imm : 1;
  bool ieth : 1;
  bool atomic_eth : 1;
  bool atomic_ack : 1;
  bool payload : 1;
  std::uint8_t header_bytes;  // BTH and extended headers
};

/// Cost: one table load. Any byte is allowed; unknown opcodes have valid = false.
[[nodiscard]] const OpcodeTraits& traits_of(std::uint8_t opcode) noexcept;

/// Syndromes of the AETH (IBTA table 45).
enum class AckKind : std::uint8_t { kAck = 0, kRnr = 1, kReserved = 2, kNak = 3 };
enum class NakCode : std::uint8_t {
  kSequence = 0,
  kInvalidRequest = 1,
  kRemoteAccess = 2,
  kRemoteOperation = 3,
  kInvalidRdRequest = 4,
};
inline constexpr std::uint8_t kSyndromeAckNoCredit = 0x1F;
[[nodiscard]] constexpr AckKind ack_kind(std::uint8_t syndrome) noexcept {
  return static_cast<AckKind>((syndrome >> 5) & 3);
}
[[nodiscard]] constexpr std::uint8_t nak_syndrome(NakCode code) noexcept {
  return static_cast<std::uint8_t>(0x60 | static_cast<std::uint8_t>(code));
}
[[nodiscard]] constexpr std::uint8_t rnr_syndrome(std::uint8_t timer) noexcept {
  return static_cast<std::uint8_t>(0x20 | (timer & 0x1F));
}

/// Headers of one packet in host byte order. Fields that the opcode does not carry are zero.
struct Headers {
  Opcode opcode = Opcode::kSendOnly;
  bool solicited = false;
  bool ack_request = false;
  std::uint8_t pad_bytes = 0;
  std::uint16_t pkey = kDefaultPkey;
  std::uint32_t destination_qpn = 0;
  Psn psn;
  std::uint64_t remote_address = 0;  // RETH or AtomicETH
  std::uint32_t rkey = 0;            // RETH, AtomicETH or IETH
  std::uint32_t dma_length = 0;      // RETH
  std::uint32_t imm_network = 0;     // immediate, network byte order as in ibv_wc::imm_data
  std::uint64_t swap_or_add = 0;     // AtomicETH
  std::uint64_t compare = 0;         // AtomicETH
  std::uint8_t syndrome = 0;         // AETH
  Msn msn;                           // AETH
  std::uint64_t original = 0;        // AtomicAckETH
};

/// Writes the headers that `headers.opcode` calls for.
///
/// Shape: `out` has room for traits_of(opcode).header_bytes. Returns the bytes written.
/// Cost: O(1), does not allocate. Source: IBTA 9.2 to 9.3.
std::size_t encode_headers(const Headers& headers, std::uint8_t* out) noexcept;

}  // namespace braid::roce
