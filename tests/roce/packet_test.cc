#include "roce/packet.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/random.h"
#include "roce/golden_packets.h"
#include "roce/headers_equal.h"
#include "roce/ip_packet.h"

namespace braid::roce {
namespace {

using testing::Bytes;
using testing::random_bytes;

/// A packet of this opcode with zeros for everything but opcode and pad count.
Bytes packet_of(std::uint8_t opcode, std::size_t payload_bytes, std::uint8_t pad = 0) {
  Bytes out(traits_of(opcode).header_bytes + payload_bytes + pad + kIcrcBytes);
  out[0] = opcode;
  out[1] = static_cast<std::uint8_t>(pad << kBthPadShift);
  return out;
}
Bytes packet_of(Opcode opcode, std::size_t payload_bytes, std::uint8_t pad = 0) {
  return packet_of(static_cast<std::uint8_t>(opcode), payload_bytes, pad);
}

DropReason parse(std::span<const std::uint8_t> datagram) {
  // A copy of its exact size, so that a sanitizer sees one byte too far.
  const Bytes exact(datagram.begin(), datagram.end());
  Packet packet;
  return parse_packet(exact, packet);
}

TEST(ParsePacket, EveryLengthBelowTheOpcodesHeaders_TooShort) {
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const OpcodeTraits& traits = traits_of(static_cast<std::uint8_t>(opcode));
    if (!traits.valid) continue;
    const Bytes whole = packet_of(static_cast<std::uint8_t>(opcode), 0);
    EXPECT_EQ(parse(whole), DropReason::kNone) << opcode;
    for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
      EXPECT_EQ(parse(std::span(whole).first(bytes)), DropReason::kTooShort) << opcode << bytes;
    }
  }
}

TEST(ParsePacket, PadBeyondTheEnd_TooShort) {
  Bytes packet = packet_of(Opcode::kSendOnly, 1, 3);
  EXPECT_EQ(parse(packet), DropReason::kNone);
  packet = packet_of(Opcode::kSendOnly, 0, 2);
  packet[1] = 3 << kBthPadShift;
  EXPECT_EQ(parse(packet), DropReason::kTooShort);
}

TEST(ParsePacket, PayloadOfTheLargestMtu_ParsesAndOneByteMoreIsTooLong) {
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    const auto code = static_cast<std::uint8_t>(opcode);
    if (!traits_of(code).payload) continue;
    Packet packet;
    const Bytes largest = packet_of(code, 4096);
    ASSERT_EQ(parse_packet(largest, packet), DropReason::kNone) << opcode;
    EXPECT_EQ(packet.payload.size(), 4096U);
    EXPECT_EQ(parse(packet_of(code, 4097, 3)), DropReason::kTooLong) << opcode;
    EXPECT_EQ(parse(packet_of(code, 4100)), DropReason::kTooLong) << opcode;
    EXPECT_EQ(parse(packet_of(code, 65000)), DropReason::kTooLong) << opcode;
  }
}

TEST(ParsePacket, EveryVersionButZero_BadVersion) {
  for (std::uint8_t version = 0; version < 16; ++version) {
    Bytes packet = packet_of(Opcode::kSendOnly, 4);
    packet[1] = version;
    EXPECT_EQ(parse(packet), version == 0 ? DropReason::kNone : DropReason::kBadVersion);
  }
}

TEST(ParsePacket, OpcodesOfOtherServices_UnknownOpcode) {
  for (unsigned opcode = 0; opcode < 256; ++opcode) {
    Bytes packet(64);
    packet[0] = static_cast<std::uint8_t>(opcode);
    const bool known = opcode <= 0x14 || opcode == 0x16 || opcode == 0x17;
    EXPECT_EQ(parse(packet) != DropReason::kUnknownOpcode, known) << opcode;
  }
}

TEST(ParsePacket, EveryPayloadAndPad_TakesTheOnlyPadThatFillsTheWord) {
  for (std::size_t payload = 0; payload <= 9; ++payload) {
    for (std::uint8_t pad = 0; pad < 4; ++pad) {
      const bool fits = (payload + pad) % 4 == 0;
      const Bytes bytes = packet_of(Opcode::kWriteMiddle, payload, pad);
      Packet packet;
      ASSERT_EQ(parse_packet(bytes, packet), fits ? DropReason::kNone : DropReason::kBadPad);
      if (!fits) continue;
      EXPECT_EQ(packet.payload.size(), payload);
      EXPECT_EQ(packet.payload.data(), bytes.data() + kBthBytes);
      EXPECT_EQ(packet.headers.pad_bytes, pad);
    }
  }
}

TEST(ParsePacket, PayloadOrPadWhereNoneBelongs_BadPad) {
  for (const Opcode opcode :
       {Opcode::kReadRequest, Opcode::kAcknowledge, Opcode::kAtomicAcknowledge,
        Opcode::kCompareSwap, Opcode::kFetchAdd}) {
    EXPECT_EQ(parse(packet_of(opcode, 0)), DropReason::kNone);
    EXPECT_EQ(parse(packet_of(opcode, 4)), DropReason::kBadPad);
    EXPECT_EQ(parse(packet_of(opcode, 1, 3)), DropReason::kBadPad);
    EXPECT_EQ(parse(packet_of(opcode, 0, 1)), DropReason::kBadPad);
  }
}

TEST(ParsePacket, ReservedAndCongestionBits_AreIgnored) {
  Bytes plain = packet_of(Opcode::kSendOnly, 4);
  plain[7] = 0x42;
  Bytes marked = plain;
  marked[1] |= 0x40;  // migration state
  marked[4] = 0xFF;   // FECN, BECN, reserved
  marked[8] = 0x7F;   // reserved beside AckReq
  Packet from_plain;
  Packet from_marked;
  ASSERT_EQ(parse_packet(plain, from_plain), DropReason::kNone);
  ASSERT_EQ(parse_packet(marked, from_marked), DropReason::kNone);
  EXPECT_TRUE(testing::headers_equal(from_plain.headers, from_marked.headers));
  EXPECT_EQ(from_marked.headers.destination_qpn, 0x42U);
}

TEST(ParsePacket, OutputUsedBefore_KeepsNothingOfIt) {
  Packet used;
  Bytes atomic = packet_of(Opcode::kCompareSwap, 0);
  std::fill(atomic.begin() + 2, atomic.end(), std::uint8_t{0xFF});
  ASSERT_EQ(parse_packet(atomic, used), DropReason::kNone);
  const Bytes plain = packet_of(Opcode::kSendMiddle, 4);
  Packet fresh;
  ASSERT_EQ(parse_packet(plain, used), DropReason::kNone);
  ASSERT_EQ(parse_packet(plain, fresh), DropReason::kNone);
  EXPECT_TRUE(testing::headers_equal(used.headers, fresh.headers));
}

TEST(ParsePacket, GoldenPackets_ParseAndEncodeBackToTheirBytes) {
  for (const testing::GoldenPacket& golden : testing::kGoldenPackets) {
    const Bytes ip = testing::from_hex(golden.hex);
    const auto payload = testing::parse_ip(ip).udp_payload;
    Bytes datagram(payload.begin(), payload.end());
    Packet packet;
    ASSERT_EQ(parse_packet(datagram, packet), DropReason::kNone) << golden.name;
    Bytes again(64);
    again.resize(encode_headers(packet.headers, again.data()));
    datagram[4] = 0;  // congestion marks are a switch's, not the sender's
    datagram.resize(again.size());
    EXPECT_EQ(again, datagram) << golden.name;
  }
}

TEST(ParsePacket, RandomBytes_ParseToWhatEncodesBackOrAreRefused) {
  Random random(0xBADF00D);
  int parsed_count = 0;
  for (int round = 0; round < 50'000; ++round) {
    Bytes bytes = random_bytes(random, random.below(90));
    if (bytes.size() > 1 && random.below(4) != 0) {  // plausible enough to get further
      bytes[0] = static_cast<std::uint8_t>(random.below(0x18));
      bytes[1] &= 0xF0;
    }
    Packet packet;
    if (parse_packet(bytes, packet) != DropReason::kNone) continue;
    ++parsed_count;
    Bytes again(64);
    const std::size_t header_bytes = encode_headers(packet.headers, again.data());
    ASSERT_EQ(header_bytes + packet.payload.size() + packet.headers.pad_bytes + kIcrcBytes,
              bytes.size());
    bytes[1] &= 0xBF;
    bytes[4] = 0;
    bytes[8] &= 0x80;
    EXPECT_TRUE(std::equal(again.begin(), again.begin() + static_cast<std::ptrdiff_t>(header_bytes),
                           bytes.begin()));
  }
  EXPECT_GT(parsed_count, 1000);
}

TEST(DropReason, EveryReason_HasANameOfItsOwn) {
  std::set<std::string> names;
  for (int reason = 0; reason < static_cast<int>(DropReason::kCount); ++reason) {
    names.insert(std::string(to_string(static_cast<DropReason>(reason))));
  }
  EXPECT_EQ(names.size(), static_cast<std::size_t>(DropReason::kCount));
  EXPECT_FALSE(names.contains("unknown"));
}

}  // namespace
}  // namespace braid::roce
