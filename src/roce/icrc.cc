#include "roce/icrc.h"

#include <isa-l/crc.h>

#include <array>
#include <bit>
#include <cstring>
#include <memory>

#include "roce/byte_order.h"
#include "roce/wire_format.h"

namespace braid::roce {
namespace {

// The masked headers that stand before the payload of the UDP datagram: 8 bytes of ones in place
// of the LRH, IP, UDP and BTH.
constexpr std::size_t kLrhBytes = 8;
constexpr std::size_t kIpv4Bytes = 20;
constexpr std::size_t kIpv6Bytes = 40;
constexpr std::size_t kUdpBytes = 8;
constexpr std::size_t kMaxPseudoBytes = kLrhBytes + kIpv6Bytes + kUdpBytes + kBthBytes;
constexpr std::uint8_t kUdpProtocol = 17;
constexpr std::uint16_t kDontFragment = 0x4000;

struct PseudoHeader {
  std::array<std::uint8_t, kMaxPseudoBytes> bytes;
  std::size_t size;
};

struct Ipv4Identity {
  std::uint16_t id = 0;
  bool dont_fragment = true;
};

std::uint8_t* put_ipv4(std::uint8_t* out, const IpAddress& source, const IpAddress& destination,
                       std::size_t udp_bytes, Ipv4Identity identity) noexcept {
  put_u8(out, 0x45);
  put_u8(out, 0xFF);  // TOS
  put_u16(out, static_cast<std::uint16_t>(kIpv4Bytes + udp_bytes));
  put_u16(out, identity.id);
  put_u16(out, identity.dont_fragment ? kDontFragment : std::uint16_t{0});
  put_u8(out, 0xFF);  // TTL
  put_u8(out, kUdpProtocol);
  put_u16(out, 0xFFFF);  // header checksum
  std::memcpy(out, source.v4(), 4);
  std::memcpy(out + 4, destination.v4(), 4);
  return out + 8;
}

std::uint8_t* put_ipv6(std::uint8_t* out, const IpAddress& source, const IpAddress& destination,
                       std::size_t udp_bytes) noexcept {
  put_u32(out, 0x6FFFFFFF);  // version, then traffic class and flow label
  put_u16(out, static_cast<std::uint16_t>(udp_bytes));
  put_u8(out, kUdpProtocol);
  put_u8(out, 0xFF);  // hop limit
  std::memcpy(out, source.bytes.data(), 16);
  std::memcpy(out + 16, destination.bytes.data(), 16);
  return out + 32;
}

void make_pseudo_header(PseudoHeader& header, const IpAddress& source, const IpAddress& destination,
                        std::uint16_t source_port, std::size_t udp_payload_bytes,
                        const std::uint8_t* bth, Ipv4Identity identity) noexcept {
  const std::size_t udp_bytes = kUdpBytes + udp_payload_bytes;
  std::uint8_t* out = header.bytes.data();
  std::memset(out, 0xFF, kLrhBytes);
  out += kLrhBytes;
  out = source.is_v4() ? put_ipv4(out, source, destination, udp_bytes, identity)
                       : put_ipv6(out, source, destination, udp_bytes);
  put_u16(out, source_port);
  put_u16(out, kRoceUdpPort);
  put_u16(out, static_cast<std::uint16_t>(udp_bytes));
  put_u16(out, 0xFFFF);  // checksum
  std::memcpy(out, bth, kBthBytes);
  out[4] = 0xFF;  // FECN, BECN and the reserved bits, which switches may change
  out += kBthBytes;
  header.size = static_cast<std::size_t>(out - header.bytes.data());
}

std::uint32_t extend(std::uint32_t crc, const void* data, std::size_t bytes) noexcept {
  // ISA-L takes a mutable pointer and does not write through it.
  return crc32_gzip_refl(crc, static_cast<const unsigned char*>(data), bytes);
}

// How the seven low bits of the identification move the ICRC, per packet length. CRC is linear:
// crc(x ^ d) = crc(x) ^ L(d), where L depends on the distance of d from the end alone.
class IdDeltas {
 public:
  static constexpr std::size_t kBits = 7;
  static constexpr std::size_t kMaxBytes = 4096 + 64;
  static_assert(kMaxBatchIpId < (1 << kBits));

  IdDeltas() : table_(std::make_unique<Row[]>(kMaxBytes + 1)) {
    const std::array<std::uint8_t, 64> zeros{};
    // Bytes of the ICRC's input behind the low byte of the identification, without any payload:
    // flags to the end of IP, UDP. The datagram's own bytes up to the ICRC follow.
    for (std::size_t bit = 0; bit < kBits; ++bit) {
      const auto one = static_cast<std::uint8_t>(1U << bit);
      // A register without initial ones and final complement is linear; the library's has both,
      // and they cancel in the difference of two equally long inputs.
      std::uint32_t with = extend(0, &one, 1);
      std::uint32_t without = extend(0, zeros.data(), 1);
      with = extend(with, zeros.data(), kIpv4Bytes - 6 + kUdpBytes);
      without = extend(without, zeros.data(), kIpv4Bytes - 6 + kUdpBytes);
      for (std::size_t bytes = kIcrcBytes; bytes <= kMaxBytes; ++bytes) {
        table_[bytes].basis[bit] = with ^ without;
        with = extend(with, zeros.data(), 1);
        without = extend(without, zeros.data(), 1);
      }
    }
    for (std::size_t bytes = kIcrcBytes; bytes <= kMaxBytes; ++bytes) reduce(table_[bytes]);
  }

  [[nodiscard]] std::uint32_t delta(std::size_t bytes, unsigned id) const noexcept {
    const Row& row = table_[bytes];
    std::uint32_t out = 0;
    for (; id != 0; id &= id - 1) {
      out ^= row.basis[static_cast<std::size_t>(std::countr_zero(id))];
    }
    return out;
  }

  /// True when some identification that a batch can produce has this effect.
  [[nodiscard]] bool reaches(std::size_t bytes, std::uint32_t difference) const noexcept {
    // The effects are the sums of the basis, so a difference is one of them when elimination
    // leaves nothing of it.
    for (const std::uint32_t reduced : table_[bytes].reduced) {
      if ((difference & lowest_bit(reduced)) != 0) difference ^= reduced;
    }
    return difference == 0;
  }

 private:
  struct Row {
    std::array<std::uint32_t, kBits> basis{};
    // Spans the same; the lowest set bit of each value is set in none that follows it.
    std::array<std::uint32_t, kBits> reduced{};
  };

  static std::uint32_t lowest_bit(std::uint32_t value) noexcept { return value & (0U - value); }

  static void reduce(Row& row) noexcept {
    row.reduced = row.basis;
    for (std::size_t i = 0; i < kBits; ++i) {
      for (std::size_t k = i + 1; k < kBits; ++k) {
        if ((row.reduced[k] & lowest_bit(row.reduced[i])) != 0) row.reduced[k] ^= row.reduced[i];
      }
    }
  }

  std::unique_ptr<Row[]> table_;
};

const IdDeltas& id_deltas() noexcept {
  // Never destroyed: a device's thread may still run when the process's static objects go.
  static const IdDeltas* const deltas = new IdDeltas;
  return *deltas;
}

}  // namespace

std::uint32_t compute_icrc(const FlowAddress& flow, std::span<const iovec> pieces) noexcept {
  std::size_t bytes = kIcrcBytes;
  for (const iovec& piece : pieces) bytes += piece.iov_len;
  PseudoHeader header;
  const auto* first = static_cast<const std::uint8_t*>(pieces[0].iov_base);
  make_pseudo_header(header, flow.source, flow.destination, flow.source_port, bytes, first, {});
  std::uint32_t crc = extend(0, header.bytes.data(), header.size);
  crc = extend(crc, first + kBthBytes, pieces[0].iov_len - kBthBytes);
  for (const iovec& piece : pieces.subspan(1)) crc = extend(crc, piece.iov_base, piece.iov_len);
  return crc;
}

bool verify_icrc(const RxDatagram& datagram) noexcept {
  const std::size_t bytes = datagram.payload.size();
  if (bytes < kBthBytes + kIcrcBytes || bytes > IdDeltas::kMaxBytes) return false;
  Ipv4Identity identity;
  identity.dont_fragment = datagram.dont_fragment;
  const bool known = datagram.ip_id != kUnknownIpId;
  if (known) identity.id = static_cast<std::uint16_t>(datagram.ip_id);
  PseudoHeader header;
  const std::uint8_t* data = datagram.payload.data();
  make_pseudo_header(header, datagram.source, datagram.destination, datagram.source_port, bytes,
                     data, identity);
  std::uint32_t crc = extend(0, header.bytes.data(), header.size);
  crc = extend(crc, data + kBthBytes, bytes - kBthBytes - kIcrcBytes);
  std::uint32_t received = 0;  // least significant byte first, as this machine stores it
  std::memcpy(&received, data + bytes - kIcrcBytes, sizeof received);
  if (crc == received) return true;
  return !known && datagram.source.is_v4() && id_deltas().reaches(bytes, crc ^ received);
}

std::uint32_t icrc_delta_for_ip_id(std::size_t udp_payload_bytes, std::uint16_t ip_id) noexcept {
  return id_deltas().delta(udp_payload_bytes, ip_id);
}

void adjust_icrc_for_ip_id(const TxPacket& packet, std::uint16_t ip_id) noexcept {
  std::uint32_t icrc = 0;
  std::memcpy(&icrc, packet.icrc, sizeof icrc);
  icrc ^= id_deltas().delta(packet.bytes, ip_id);
  std::memcpy(packet.icrc, &icrc, sizeof icrc);
}

}  // namespace braid::roce
