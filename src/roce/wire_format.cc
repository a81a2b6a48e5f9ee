#include "roce/wire_format.h"

#include <array>

#include "roce/byte_order.h"

namespace braid::roce {
namespace {

enum Part : unsigned {
  kRequest = 1U << 0,
  kResponse = 1U << 1,
  kFirst = 1U << 2,
  kLast = 1U << 3,
  kSend = 1U << 4,
  kWrite = 1U << 5,
  kReadResponse = 1U << 6,
  kAtomic = 1U << 7,
  kReth = 1U << 8,
  kAeth = 1U << 9,
  kImm = 1U << 10,
  kIeth = 1U << 11,
  kAtomicEth = 1U << 12,
  kAtomicAck = 1U << 13,
  kPayload = 1U << 14,
};

constexpr OpcodeTraits make_traits(unsigned parts) noexcept {
  const auto has = [parts](unsigned part) { return (parts & part) != 0; };
  std::size_t bytes = kBthBytes;
  bytes += has(kReth) ? kRethBytes : 0;
  bytes += has(kAtomicEth) ? kAtomicEthBytes : 0;
  bytes += has(kAeth) ? kAethBytes : 0;
  bytes += has(kAtomicAck) ? kAtomicAckBytes : 0;
  bytes += has(kImm) ? kImmBytes : 0;
  bytes += has(kIeth) ? kIethBytes : 0;
  OpcodeTraits traits{};
  traits.valid = true;
  traits.request = has(kRequest);
  traits.response = has(kResponse);
  traits.first = has(kFirst);
  traits.last = has(kLast);
  traits.send = has(kSend);
  traits.write = has(kWrite);
  traits.read_response = has(kReadResponse);
  traits.atomic = has(kAtomic);
  traits.reth = has(kReth);
  traits.aeth = has(kAeth);
  traits.imm = has(kImm);
  traits.ieth = has(kIeth);
  traits.atomic_eth = has(kAtomicEth);
  traits.atomic_ack = has(kAtomicAck);
  traits.payload = has(kPayload);
  traits.header_bytes = static_cast<std::uint8_t>(bytes);
  return traits;
}

constexpr std::array<OpcodeTraits, 256> make_table() noexcept {
  constexpr unsigned kOnly = kFirst | kLast;
  constexpr unsigned kSendRequest = kRequest | kSend | kPayload;
  constexpr unsigned kWriteRequest = kRequest | kWrite | kPayload;
  constexpr unsigned kReadAnswer = kResponse | kReadResponse | kPayload;
  std::array<OpcodeTraits, 256> table{};
  const auto set = [&table](Opcode opcode, unsigned parts) {
    table[static_cast<std::size_t>(opcode)] = make_traits(parts);
  };
  set(Opcode::kSendFirst, kSendRequest | kFirst);
  set(Opcode::kSendMiddle, kSendRequest);
  set(Opcode::kSendLast, kSendRequest | kLast);
  set(Opcode::kSendLastImm, kSendRequest | kLast | kImm);
  set(Opcode::kSendOnly, kSendRequest | kOnly);
  set(Opcode::kSendOnlyImm, kSendRequest | kOnly | kImm);
  set(Opcode::kWriteFirst, kWriteRequest | kFirst | kReth);
  set(Opcode::kWriteMiddle, kWriteRequest);
  set(Opcode::kWriteLast, kWriteRequest | kLast);
  set(Opcode::kWriteLastImm, kWriteRequest | kLast | kImm);
  set(Opcode::kWriteOnly, kWriteRequest | kOnly | kReth);
  set(Opcode::kWriteOnlyImm, kWriteRequest | kOnly | kReth | kImm);
  set(Opcode::kReadRequest, kRequest | kOnly | kReth);
  set(Opcode::kReadResponseFirst, kReadAnswer | kFirst | kAeth);
  set(Opcode::kReadResponseMiddle, kReadAnswer);
  set(Opcode::kReadResponseLast, kReadAnswer | kLast | kAeth);
  set(Opcode::kReadResponseOnly, kReadAnswer | kOnly | kAeth);
  set(Opcode::kAcknowledge, kResponse | kOnly | kAeth);
  set(Opcode::kAtomicAcknowledge, kResponse | kOnly | kAeth | kAtomicAck);
  set(Opcode::kCompareSwap, kRequest | kOnly | kAtomic | kAtomicEth);
  set(Opcode::kFetchAdd, kRequest | kOnly | kAtomic | kAtomicEth);
  set(Opcode::kSendLastInvalidate, kSendRequest | kLast | kIeth);
  set(Opcode::kSendOnlyInvalidate, kSendRequest | kOnly | kIeth);
  return table;
}

constexpr std::array<OpcodeTraits, 256> kTable = make_table();

}  // namespace

const OpcodeTraits& traits_of(std::uint8_t opcode) noexcept { return kTable[opcode]; }

std::size_t encode_headers(const Headers& headers, std::uint8_t* out) noexcept {
  const std::uint8_t* begin = out;
  const OpcodeTraits& traits = traits_of(static_cast<std::uint8_t>(headers.opcode));
  put_u8(out, static_cast<std::uint8_t>(headers.opcode));
  put_u8(out, static_cast<std::uint8_t>((headers.solicited ? kBthSolicited : 0) |
                                        (headers.pad_bytes & 3) << kBthPadShift));
  put_u16(out, headers.pkey);
  put_u32(out, headers.destination_qpn & Psn::kMask);
  put_u32(out, (headers.ack_request ? kBthAckRequest : 0) | headers.psn.value());
  if (traits.reth) {
    put_u64(out, headers.remote_address);
    put_u32(out, headers.rkey);
    put_u32(out, headers.dma_length);
  }
  if (traits.atomic_eth) {
    put_u64(out, headers.remote_address);
    put_u32(out, headers.rkey);
    put_u64(out, headers.swap_or_add);
    put_u64(out, headers.compare);
  }
  if (traits.aeth) {
    put_u32(out, std::uint32_t{headers.syndrome} << 24 | headers.msn.value());
  }
  if (traits.atomic_ack) put_u64(out, headers.original);
  if (traits.imm) put_raw_u32(out, headers.imm_network);
  if (traits.ieth) put_u32(out, headers.rkey);
  return static_cast<std::size_t>(out - begin);
}

}  // namespace braid::roce
