#include "roce/wire_format.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <vector>

#include "base/random.h"
#include "roce/headers_equal.h"
#include "roce/ip_packet.h"
#include "roce/packet.h"
#include "roce/rnr_timer.h"

namespace braid::roce {
namespace {

using testing::Bytes;
using testing::from_hex;

constexpr std::array kAllOpcodes{
    Opcode::kSendFirst,          Opcode::kSendMiddle,        Opcode::kSendLast,
    Opcode::kSendLastImm,        Opcode::kSendOnly,          Opcode::kSendOnlyImm,
    Opcode::kWriteFirst,         Opcode::kWriteMiddle,       Opcode::kWriteLast,
    Opcode::kWriteLastImm,       Opcode::kWriteOnly,         Opcode::kWriteOnlyImm,
    Opcode::kReadRequest,        Opcode::kReadResponseFirst, Opcode::kReadResponseMiddle,
    Opcode::kReadResponseLast,   Opcode::kReadResponseOnly,  Opcode::kAcknowledge,
    Opcode::kAtomicAcknowledge,  Opcode::kCompareSwap,       Opcode::kFetchAdd,
    Opcode::kSendLastInvalidate, Opcode::kSendOnlyInvalidate};

const OpcodeTraits& traits(Opcode opcode) { return traits_of(static_cast<std::uint8_t>(opcode)); }

Bytes encode(const Headers& headers) {
  Bytes out(64, 0xEE);
  out.resize(encode_headers(headers, out.data()));
  return out;
}

Headers random_headers(Random& random, Opcode opcode) {
  const OpcodeTraits& parts = traits(opcode);
  Headers out;
  out.opcode = opcode;
  out.solicited = random.below(2) != 0;
  out.ack_request = random.below(2) != 0;
  out.pkey = static_cast<std::uint16_t>(random.next());
  out.destination_qpn = static_cast<std::uint32_t>(random.below(1U << 24));
  out.psn = Psn(static_cast<std::uint32_t>(random.next()));
  if (parts.reth || parts.atomic_eth) out.remote_address = random.next();
  if (parts.reth || parts.atomic_eth || parts.ieth) {
    out.rkey = static_cast<std::uint32_t>(random.next());
  }
  if (parts.reth) out.dma_length = static_cast<std::uint32_t>(random.next());
  if (parts.imm) out.imm_network = static_cast<std::uint32_t>(random.next());
  if (parts.atomic_eth) {
    out.swap_or_add = random.next();
    out.compare = random.next();
  }
  if (parts.aeth) {
    out.syndrome = static_cast<std::uint8_t>(random.next());
    out.msn = Msn(static_cast<std::uint32_t>(random.next()));
  }
  if (parts.atomic_ack) out.original = random.next();
  return out;
}

TEST(OpcodeTraits, EveryByte_ValidForTheReliableConnectionOnly) {
  std::array<bool, 256> expected{};
  for (const Opcode opcode : kAllOpcodes) expected[static_cast<std::size_t>(opcode)] = true;
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    EXPECT_EQ(traits_of(static_cast<std::uint8_t>(opcode)).valid, expected[opcode]) << opcode;
  }
}

TEST(OpcodeTraits, HeaderBytes_AreTheSpecifications) {
  const std::map<Opcode, unsigned> longer_than_bth{
      {Opcode::kSendLastImm, 16},        {Opcode::kSendOnlyImm, 16},
      {Opcode::kSendLastInvalidate, 16}, {Opcode::kSendOnlyInvalidate, 16},
      {Opcode::kWriteFirst, 28},         {Opcode::kWriteOnly, 28},
      {Opcode::kWriteLastImm, 16},       {Opcode::kWriteOnlyImm, 32},
      {Opcode::kReadRequest, 28},        {Opcode::kReadResponseFirst, 16},
      {Opcode::kReadResponseLast, 16},   {Opcode::kReadResponseOnly, 16},
      {Opcode::kAcknowledge, 16},        {Opcode::kAtomicAcknowledge, 24},
      {Opcode::kCompareSwap, 40},        {Opcode::kFetchAdd, 40}};
  for (const Opcode opcode : kAllOpcodes) {
    const auto found = longer_than_bth.find(opcode);
    const unsigned expected = found == longer_than_bth.end() ? 12 : found->second;
    EXPECT_EQ(traits(opcode).header_bytes, expected) << static_cast<int>(opcode);
  }
}

TEST(OpcodeTraits, FirstAndLast_FollowTheNames) {
  const auto bits = [](Opcode opcode) {
    return (traits(opcode).first ? 1 : 0) | (traits(opcode).last ? 2 : 0);
  };
  for (const Opcode opcode :
       {Opcode::kSendFirst, Opcode::kWriteFirst, Opcode::kReadResponseFirst}) {
    EXPECT_EQ(bits(opcode), 1);
  }
  for (const Opcode opcode :
       {Opcode::kSendMiddle, Opcode::kWriteMiddle, Opcode::kReadResponseMiddle}) {
    EXPECT_EQ(bits(opcode), 0);
  }
  for (const Opcode opcode :
       {Opcode::kSendLast, Opcode::kSendLastImm, Opcode::kSendLastInvalidate, Opcode::kWriteLast,
        Opcode::kWriteLastImm, Opcode::kReadResponseLast}) {
    EXPECT_EQ(bits(opcode), 2);
  }
  for (const Opcode opcode :
       {Opcode::kSendOnly, Opcode::kSendOnlyImm, Opcode::kSendOnlyInvalidate, Opcode::kWriteOnly,
        Opcode::kWriteOnlyImm, Opcode::kReadRequest, Opcode::kReadResponseOnly,
        Opcode::kAcknowledge, Opcode::kAtomicAcknowledge, Opcode::kCompareSwap,
        Opcode::kFetchAdd}) {
    EXPECT_EQ(bits(opcode), 3);
  }
}

TEST(OpcodeTraits, EveryOpcode_IsRequestOrResponseOfOneKind) {
  for (const Opcode opcode : kAllOpcodes) {
    const OpcodeTraits& parts = traits(opcode);
    const auto value = static_cast<unsigned>(opcode);
    const bool response = value >= 0x0D && value <= 0x12;
    EXPECT_EQ(parts.response, response) << value;
    EXPECT_EQ(parts.request, !response) << value;
    EXPECT_EQ(parts.send, value <= 0x05 || value >= 0x16) << value;
    EXPECT_EQ(parts.write, value >= 0x06 && value <= 0x0B) << value;
    EXPECT_EQ(parts.read_response, value >= 0x0D && value <= 0x10) << value;
    EXPECT_EQ(parts.atomic, value == 0x13 || value == 0x14) << value;
    EXPECT_EQ(parts.payload, parts.send || parts.write || parts.read_response) << value;
  }
}

TEST(EncodeHeaders, GoldenFields_GiveGoldenBytes) {
  Headers write;
  write.opcode = Opcode::kWriteOnlyImm;
  write.solicited = true;
  write.ack_request = true;
  write.pad_bytes = 2;
  write.pkey = 0x8001;
  write.destination_qpn = 0x123456;
  write.psn = Psn(0xABCDEF);
  write.remote_address = 0x0102030405060708;
  write.rkey = 0x11121314;
  write.dma_length = 0x21222324;
  write.imm_network = __builtin_bswap32(0x31323334);
  EXPECT_EQ(encode(write), from_hex("0ba08001"
                                    "00123456"
                                    "80abcdef"
                                    "0102030405060708"
                                    "11121314"
                                    "21222324"
                                    "31323334"));

  Headers swap;
  swap.opcode = Opcode::kCompareSwap;
  swap.remote_address = 0x0102030405060708;
  swap.rkey = 0x11121314;
  swap.swap_or_add = 0x2122232425262728;
  swap.compare = 0x3132333435363738;
  EXPECT_EQ(encode(swap), from_hex("1300ffff0000000000000000"
                                   "0102030405060708"
                                   "11121314"
                                   "2122232425262728"
                                   "3132333435363738"));

  Headers answer;
  answer.opcode = Opcode::kAtomicAcknowledge;
  answer.syndrome = 0x1F;
  answer.msn = Msn(0x010203);
  answer.original = 0x4142434445464748;
  EXPECT_EQ(encode(answer), from_hex("1200ffff0000000000000000"
                                     "1f010203"
                                     "4142434445464748"));

  Headers invalidate;
  invalidate.opcode = Opcode::kSendLastInvalidate;
  invalidate.rkey = 0x51525354;
  EXPECT_EQ(encode(invalidate), from_hex("1600ffff000000000000000051525354"));
}

TEST(EncodeHeaders, RandomFieldsOfEveryOpcode_ParseBackEqual) {
  Random random(0xC0DEC1);
  for (int round = 0; round < 200; ++round) {
    for (const Opcode opcode : kAllOpcodes) {
      const Headers sent = random_headers(random, opcode);
      Bytes bytes = encode(sent);
      ASSERT_EQ(bytes.size(), traits(opcode).header_bytes);
      bytes.resize(bytes.size() + kIcrcBytes);
      Packet parsed;
      ASSERT_EQ(parse_packet(bytes, parsed), DropReason::kNone);
      EXPECT_TRUE(testing::headers_equal(parsed.headers, sent)) << static_cast<int>(opcode);
      EXPECT_TRUE(parsed.payload.empty());
    }
  }
}

TEST(EncodeHeaders, WholeByteRange_LeavesReservedBitsZero) {
  Headers headers;
  headers.opcode = Opcode::kSendOnly;
  headers.pad_bytes = 3;
  headers.destination_qpn = 0xFFFFFFFF;  // eight bits more than a QPN has
  headers.psn = Psn(0xFFFFFFFF);
  EXPECT_EQ(encode(headers), from_hex("0430ffff00ffffff00ffffff"));
}

TEST(Syndromes, Codes_GiveTheSpecificationsBytes) {
  EXPECT_EQ(nak_syndrome(NakCode::kSequence), 0x60);
  EXPECT_EQ(nak_syndrome(NakCode::kInvalidRequest), 0x61);
  EXPECT_EQ(nak_syndrome(NakCode::kRemoteAccess), 0x62);
  EXPECT_EQ(nak_syndrome(NakCode::kRemoteOperation), 0x63);
  EXPECT_EQ(nak_syndrome(NakCode::kInvalidRdRequest), 0x64);
  EXPECT_EQ(rnr_syndrome(0), 0x20);
  EXPECT_EQ(rnr_syndrome(31), 0x3F);
  EXPECT_EQ(rnr_syndrome(32), 0x20);
  EXPECT_EQ(ack_kind(kSyndromeAckNoCredit), AckKind::kAck);
  EXPECT_EQ(ack_kind(0x20), AckKind::kRnr);
  EXPECT_EQ(ack_kind(0x3F), AckKind::kRnr);
  EXPECT_EQ(ack_kind(0x40), AckKind::kReserved);
  EXPECT_EQ(ack_kind(0x60), AckKind::kNak);
}

TEST(RnrTimer, EveryCode_IsTheSpecificationsDuration) {
  const std::array<double, 32> milliseconds{
      655.36, .01,   .02,   .03,   .04,   .06,    .08,    .12,    .16,    .24,   .32,
      .48,    .64,   .96,   1.28,  1.92,  2.56,   3.84,   5.12,   7.68,   10.24, 15.36,
      20.48,  30.72, 40.96, 61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
  for (std::uint8_t code = 0; code < 32; ++code) {
    const auto nanoseconds =
        std::chrono::duration_cast<std::chrono::nanoseconds>(rnr_timer_duration(code)).count();
    EXPECT_NEAR(static_cast<double>(nanoseconds), milliseconds[code] * 1e6, 0.5) << int{code};
  }
  EXPECT_EQ(rnr_timer_duration(32), rnr_timer_duration(0));
  EXPECT_EQ(rnr_timer_duration(0x2C), rnr_timer_duration(0x0C));
}

}  // namespace
}  // namespace braid::roce
