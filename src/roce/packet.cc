#include "roce/packet.h"

#include "roce/byte_order.h"

namespace braid::roce {
namespace {

constexpr std::size_t kMaxPayloadBytes = 4096;  // the largest path MTU (IBTA 9.4)
// With the largest headers in front of such a payload, and the ICRC behind it.
constexpr std::size_t kMaxPacketBytes =
    kMaxPayloadBytes + kBthBytes + kRethBytes + kImmBytes + kIcrcBytes;

void decode_bth(const std::uint8_t*& in, Headers& out) noexcept {
  out.opcode = static_cast<Opcode>(in[0]);
  out.solicited = (in[1] & kBthSolicited) != 0;
  out.pad_bytes = static_cast<std::uint8_t>((in[1] >> kBthPadShift) & 3);
  in += 2;
  out.pkey = get_u16(in);
  out.destination_qpn = get_u32(in) & Psn::kMask;  // FECN, BECN and reserved bits aside
  const std::uint32_t word = get_u32(in);
  out.ack_request = (word & kBthAckRequest) != 0;
  out.psn = Psn(word);
}

void decode_extended(const std::uint8_t*& in, const OpcodeTraits& traits, Headers& out) noexcept {
  if (traits.reth) {
    out.remote_address = get_u64(in);
    out.rkey = get_u32(in);
    out.dma_length = get_u32(in);
  }
  if (traits.atomic_eth) {
    out.remote_address = get_u64(in);
    out.rkey = get_u32(in);
    out.swap_or_add = get_u64(in);
    out.compare = get_u64(in);
  }
  if (traits.aeth) {
    const std::uint32_t word = get_u32(in);
    out.syndrome = static_cast<std::uint8_t>(word >> 24);
    out.msn = Msn(word);
  }
  if (traits.atomic_ack) out.original = get_u64(in);
  if (traits.imm) out.imm_network = get_raw_u32(in);
  if (traits.ieth) out.rkey = get_u32(in);
}

}  // namespace

DropReason parse_packet(std::span<const std::uint8_t> datagram, Packet& out) noexcept {
  if (datagram.size() < kBthBytes + kIcrcBytes) return DropReason::kTooShort;
  if (datagram.size() > kMaxPacketBytes) return DropReason::kTooLong;
  if ((datagram[1] & kBthVersionMask) != 0) return DropReason::kBadVersion;
  const OpcodeTraits& traits = traits_of(datagram[0]);
  if (!traits.valid) return DropReason::kUnknownOpcode;
  const std::size_t pad = (datagram[1] >> kBthPadShift) & 3U;
  const std::size_t fixed = traits.header_bytes + pad + kIcrcBytes;
  if (datagram.size() < fixed) return DropReason::kTooShort;
  const std::size_t payload = datagram.size() - fixed;
  if (!traits.payload && (payload != 0 || pad != 0)) return DropReason::kBadPad;
  // Pad rounds the payload up to a multiple of four, and by less than four.
  if ((payload + pad) % 4 != 0) return DropReason::kBadPad;
  if (payload > kMaxPayloadBytes) return DropReason::kTooLong;

  out.headers = Headers{};
  const std::uint8_t* in = datagram.data();
  decode_bth(in, out.headers);
  decode_extended(in, traits, out.headers);
  out.payload = {in, payload};
  return DropReason::kNone;
}

std::string_view to_string(DropReason reason) noexcept {
  switch (reason) {
    case DropReason::kNone: return "none";
    case DropReason::kTooShort: return "too_short";
    case DropReason::kTooLong: return "too_long";
    case DropReason::kBadVersion: return "bad_version";
    case DropReason::kUnknownOpcode: return "unknown_opcode";
    case DropReason::kBadPad: return "bad_pad";
    case DropReason::kBadIcrc: return "bad_icrc";
    case DropReason::kBadPkey: return "bad_pkey";
    case DropReason::kUnknownQp: return "unknown_qp";
    case DropReason::kWrongAddress: return "wrong_address";
    case DropReason::kQpNotReady: return "qp_not_ready";
    case DropReason::kDuplicateDropped: return "duplicate_dropped";
    case DropReason::kOutOfSequence: return "out_of_sequence";
    case DropReason::kUnexpectedResponse: return "unexpected_response";
    case DropReason::kBadPayloadLength: return "bad_payload_length";
    case DropReason::kRnrNotReady: return "rnr_not_ready";
    case DropReason::kCount: break;
  }
  return "unknown";
}

}  // namespace braid::roce
