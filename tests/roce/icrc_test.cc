#include "roce/icrc.h"

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "base/random.h"
#include "roce/golden_packets.h"
#include "roce/ip_packet.h"

namespace braid::roce {
namespace {

using testing::Bytes;
using testing::IpFields;
using testing::random_bytes;
using testing::random_fields;

// Of all packets: the shortest; with extended headers; of the path MTUs; the longest of the engine;
// the longest that icrc.h speaks of.
constexpr std::array<std::size_t, 10> kLengths{16, 20, 28, 44, 272, 528, 1044, 2080, 4132, 4160};

/// A random packet of that length whose ICRC fits its headers.
Bytes sealed(Random& random, const IpFields& fields, std::size_t bytes) {
  Bytes out = random_bytes(random, bytes);
  testing::seal(fields, out);
  return out;
}

FlowAddress flow_of(const IpFields& fields) {
  return {fields.source, fields.destination, fields.source_port, fields.traffic_class,
          fields.hop_limit};
}

RxDatagram with_unknown_id(const IpFields& fields, std::span<const std::uint8_t> payload) {
  RxDatagram out = testing::datagram_of(fields, payload);
  out.ip_id = kUnknownIpId;
  out.dont_fragment = true;
  return out;
}

/// The pieces of everything but the ICRC, cut at random places behind the BTH.
std::vector<iovec> random_pieces(Random& random, Bytes& packet) {
  std::vector<iovec> out;
  const std::size_t end = packet.size() - 4;
  std::size_t at = 0;
  while (at < end) {
    const std::size_t least = at == 0 ? 12 : 0;
    const std::size_t bytes = least + random.below(end - at - least + 1);
    out.push_back({packet.data() + at, bytes});
    at += bytes;
  }
  return out;
}

TEST(ReferenceIcrc, KnownValues_AreReproduced) {
  const Bytes ones(8, 0xFF);
  EXPECT_EQ(testing::crc_register(0xFFFFFFFF, ones), 0xDEBB20E3U);
  const std::string digits = "123456789";
  EXPECT_EQ(~testing::crc_register(0xFFFFFFFF, Bytes(digits.begin(), digits.end())), 0xCBF43926U);
}

TEST(VerifyIcrc, GoldenPackets_AcceptAndAgreeWithReference) {
  for (const testing::GoldenPacket& golden : testing::kGoldenPackets) {
    const Bytes ip = testing::from_hex(golden.hex);
    const testing::ParsedIp parsed = testing::parse_ip(ip);
    EXPECT_EQ(testing::serialize(parsed.fields, parsed.udp_payload), ip) << golden.name;
    EXPECT_EQ(testing::reference_icrc(ip), testing::load_icrc(parsed.udp_payload)) << golden.name;
    EXPECT_TRUE(verify_icrc(testing::datagram_of(parsed.fields, parsed.udp_payload)))
        << golden.name;
  }
}

TEST(ComputeIcrc, GoldenPacketsOfIdentificationZero_GiveTheirIcrc) {
  int checked_count = 0;
  for (const testing::GoldenPacket& golden : testing::kGoldenPackets) {
    Bytes ip = testing::from_hex(golden.hex);
    const testing::ParsedIp parsed = testing::parse_ip(ip);
    if (parsed.fields.ip_id != 0 || !parsed.fields.dont_fragment) continue;
    Bytes payload(parsed.udp_payload.begin(), parsed.udp_payload.end());
    const std::array<iovec, 1> piece{iovec{payload.data(), payload.size() - 4}};
    EXPECT_EQ(compute_icrc(flow_of(parsed.fields), piece), testing::load_icrc(payload))
        << golden.name;
    ++checked_count;
  }
  EXPECT_EQ(checked_count, 10);
}

TEST(ComputeIcrc, RandomPacketsInRandomPieces_AgreeWithReference) {
  Random random(0x1C2C);
  for (int round = 0; round < 600; ++round) {
    const IpFields fields = random_fields(random, round % 2 == 0);
    const std::size_t bytes =
        round < 20 ? kLengths[static_cast<std::size_t>(round) / 2] : 16 + random.below(600);
    Bytes packet = random_bytes(random, bytes);
    const std::uint32_t expected = testing::reference_icrc(testing::serialize(fields, packet));
    EXPECT_EQ(compute_icrc(flow_of(fields), random_pieces(random, packet)), expected);
    testing::store_icrc(packet, expected);
    EXPECT_TRUE(verify_icrc(testing::datagram_of(fields, packet)));
  }
}

TEST(VerifyIcrc, FieldsThatRoutersChange_AreNotCovered) {
  Random random(0x70F);
  for (const bool v4 : {true, false}) {
    const IpFields fields = random_fields(random, v4);
    Bytes packet = sealed(random, fields, 60);
    IpFields routed = fields;
    routed.traffic_class ^= 0xFF;
    routed.hop_limit ^= 0xFF;
    routed.flow_label ^= 0xFFFFF;
    const Bytes ip = testing::serialize(routed, packet);
    EXPECT_EQ(testing::reference_icrc(ip), testing::load_icrc(packet));
    packet[4] ^= 0xFF;
    EXPECT_TRUE(verify_icrc(testing::datagram_of(routed, packet)));
  }
}

TEST(VerifyIcrc, AnyBitOfThePayloadFlipped_Refuses) {
  Random random(0xF11);
  for (const bool v4 : {true, false}) {
    const IpFields fields = random_fields(random, v4);
    for (const std::size_t bytes : {std::size_t{16}, std::size_t{60}, std::size_t{1044}}) {
      Bytes packet = sealed(random, fields, bytes);
      for (std::size_t bit = 0; bit < 8 * bytes; ++bit) {
        if (bit / 8 == 4) continue;  // not covered
        const auto mask = static_cast<std::uint8_t>(1U << bit % 8);
        packet[bit / 8] ^= mask;
        EXPECT_FALSE(verify_icrc(testing::datagram_of(fields, packet))) << bit;
        EXPECT_FALSE(verify_icrc(with_unknown_id(fields, packet))) << bit;
        packet[bit / 8] ^= mask;
      }
      EXPECT_TRUE(verify_icrc(testing::datagram_of(fields, packet)));
      EXPECT_TRUE(verify_icrc(with_unknown_id(fields, packet)));
    }
  }
}

TEST(VerifyIcrc, AnyBitOfTheAddressesOrPortFlipped_Refuses) {
  Random random(0xADD);
  for (const bool v4 : {true, false}) {
    const IpFields fields = random_fields(random, v4);
    const Bytes packet = sealed(random, fields, 44);
    for (std::size_t bit = v4 ? 96 : 0; bit < 128; ++bit) {
      const auto mask = static_cast<std::uint8_t>(1U << bit % 8);
      RxDatagram datagram = with_unknown_id(fields, packet);
      datagram.source.bytes[bit / 8] ^= mask;
      EXPECT_FALSE(verify_icrc(datagram)) << bit;
      datagram = with_unknown_id(fields, packet);
      datagram.destination.bytes[bit / 8] ^= mask;
      EXPECT_FALSE(verify_icrc(datagram)) << bit;
    }
    for (unsigned bit = 0; bit < 16; ++bit) {
      RxDatagram datagram = with_unknown_id(fields, packet);
      datagram.source_port = static_cast<std::uint16_t>(datagram.source_port ^ 1U << bit);
      EXPECT_FALSE(verify_icrc(datagram)) << bit;
    }
  }
}

TEST(VerifyIcrc, LengthsAtTheLimits_AcceptedAndRefusedOnePastThem) {
  Random random(0x11317);
  const IpFields fields = random_fields(random, true);
  for (const std::size_t bytes : {std::size_t{16}, std::size_t{4160}}) {
    const Bytes packet = sealed(random, fields, bytes);
    EXPECT_TRUE(verify_icrc(testing::datagram_of(fields, packet)));
  }
  const Bytes too_long = sealed(random, fields, 4161);
  EXPECT_FALSE(verify_icrc(testing::datagram_of(fields, too_long)));
  for (std::size_t bytes = 0; bytes < 16; ++bytes) {
    const Bytes too_short = random_bytes(random, bytes);
    EXPECT_FALSE(verify_icrc(testing::datagram_of(fields, too_short))) << bytes;
    EXPECT_FALSE(verify_icrc(with_unknown_id(fields, too_short))) << bytes;
  }
}

TEST(VerifyIcrc, UnknownIdentification_AcceptsEveryOneOfABatchAndNoOther) {
  Random random(0x1D);
  for (const std::size_t bytes : kLengths) {
    IpFields fields = random_fields(random, true);
    Bytes packet = random_bytes(random, bytes);
    for (std::uint16_t id = 0; id <= kMaxBatchIpId; ++id) {
      fields.ip_id = id;
      testing::seal(fields, packet);
      EXPECT_TRUE(verify_icrc(with_unknown_id(fields, packet))) << bytes << ' ' << id;
    }
    for (unsigned id = kMaxBatchIpId + 1; id < 0x10000; id += id < 260 ? 1 : 7919) {
      fields.ip_id = static_cast<std::uint16_t>(id);
      testing::seal(fields, packet);
      EXPECT_FALSE(verify_icrc(with_unknown_id(fields, packet))) << bytes << ' ' << id;
    }
  }
}

TEST(VerifyIcrc, UnknownIdentificationOfIpv6_IsExact) {
  Random random(0x66);
  const IpFields fields = random_fields(random, false);
  for (std::uint16_t id = 1; id <= kMaxBatchIpId; ++id) {
    Bytes packet = sealed(random, fields, 60);
    EXPECT_TRUE(verify_icrc(with_unknown_id(fields, packet)));
    testing::store_icrc(packet, testing::load_icrc(packet) ^ icrc_delta_for_ip_id(60, id));
    EXPECT_FALSE(verify_icrc(with_unknown_id(fields, packet))) << id;
  }
}

TEST(VerifyIcrc, UnknownIdentificationThatMayFragment_Refuses) {
  Random random(0xDF);
  IpFields fields = random_fields(random, true);
  fields.dont_fragment = false;
  const Bytes packet = sealed(random, fields, 60);
  EXPECT_FALSE(verify_icrc(with_unknown_id(fields, packet)));
}

TEST(VerifyIcrc, KnownIdentification_AcceptsThatOneOnly) {
  Random random(0x4A3);
  for (int round = 0; round < 300; ++round) {
    IpFields fields = random_fields(random, true);
    fields.ip_id = static_cast<std::uint16_t>(round < 130 ? static_cast<unsigned>(round)
                                                          : random.below(1U << 16));
    fields.dont_fragment = round % 2 == 0;
    const Bytes packet = sealed(random, fields, 16 + random.below(200));
    RxDatagram datagram = testing::datagram_of(fields, packet);
    EXPECT_TRUE(verify_icrc(datagram)) << fields.ip_id;
    datagram.ip_id = fields.ip_id ^ 1;
    EXPECT_FALSE(verify_icrc(datagram)) << fields.ip_id;
    datagram.ip_id = fields.ip_id ^ 0x8000;
    EXPECT_FALSE(verify_icrc(datagram)) << fields.ip_id;
    datagram.ip_id = fields.ip_id;
    datagram.dont_fragment = !fields.dont_fragment;
    EXPECT_FALSE(verify_icrc(datagram)) << fields.ip_id;
  }
}

TEST(IcrcDelta, EveryLength_IsWhatTheReferenceSays) {
  Random random(0xDE17A);
  IpFields fields = random_fields(random, true);
  const Bytes longest(4160);
  for (std::size_t bytes = 16; bytes <= longest.size(); bytes += bytes < 300 ? 1 : 13) {
    const std::span<const std::uint8_t> packet = std::span(longest).first(bytes);
    const auto id = static_cast<std::uint16_t>(random.below(kMaxBatchIpId + 1));
    fields.ip_id = 0;
    const std::uint32_t without = testing::reference_icrc(testing::serialize(fields, packet));
    fields.ip_id = id;
    const std::uint32_t with = testing::reference_icrc(testing::serialize(fields, packet));
    EXPECT_EQ(icrc_delta_for_ip_id(bytes, id), with ^ without) << bytes << ' ' << id;
  }
}

TEST(AdjustIcrc, PacketsOfABatch_CarryTheIcrcOfTheirIdentification) {
  Random random(0xBA7C4);
  IpFields fields = random_fields(random, true);
  const FlowAddress flow = flow_of(fields);
  for (std::uint16_t id = 0; id <= kMaxBatchIpId; ++id) {
    fields.ip_id = 0;
    Bytes bytes = sealed(random, fields, kLengths[id % kLengths.size()]);
    const Bytes before = bytes;
    TxPacket packet;
    packet.flow = &flow;
    packet.bytes = static_cast<std::uint16_t>(bytes.size());
    packet.icrc = bytes.data() + bytes.size() - 4;
    adjust_icrc_for_ip_id(packet, id);
    fields.ip_id = id;
    EXPECT_TRUE(verify_icrc(testing::datagram_of(fields, bytes))) << id;
    adjust_icrc_for_ip_id(packet, id);
    EXPECT_EQ(bytes, before) << id;
  }
}

}  // namespace
}  // namespace braid::roce
