#include "bootstrap/messages.h"

#include <braid/channel_options.h>

#include <algorithm>
#include <bit>

#include "bootstrap/wire.h"

namespace braid::bootstrap {
namespace {

constexpr std::uint32_t kMask24 = 0xFFFFFF;
constexpr std::uint32_t kMaxDepth = 8192;
constexpr std::uint32_t kMaxWindowSegments = 1U << 20U;
constexpr std::uint8_t kMinMtuCode = 1;
constexpr std::uint8_t kMaxMtuCode = 5;

// QPN 0 and 1 are reserved by IBTA 3.5.10; no peer can offer them.
bool valid(const QpAddress& qp) noexcept {
  return qp.qpn > 1 && qp.qpn <= kMask24 && qp.psn <= kMask24;
}

}  // namespace

void encode_header(const FrameHeader& header, std::span<std::byte, kHeaderBytes> out) noexcept {
  WireWriter writer(out);
  writer.u32(kMagic);
  writer.u16(kVersion);
  writer.u16(static_cast<std::uint16_t>(header.type));
  writer.u32(header.payload_bytes);
}

Status decode_header(std::span<const std::byte, kHeaderBytes> in, FrameHeader& header,
                     std::string& why) {
  WireReader reader(in);
  const std::uint32_t magic = reader.u32();
  const std::uint16_t version = reader.u16();
  const std::uint16_t type = reader.u16();
  header.payload_bytes = reader.u32();
  if (magic != kMagic) {
    why = "it does not speak Braid's handshake";
    return Status(StatusCode::kProtocol);
  }
  if (version != kVersion) {
    why = "it speaks version " + std::to_string(version) + " of the handshake, this side version " +
          std::to_string(kVersion) + ": use the same release on both sides";
    return Status(StatusCode::kProtocol);
  }
  if (type < static_cast<std::uint16_t>(FrameType::kCapabilities) ||
      type > static_cast<std::uint16_t>(FrameType::kControl) ||
      header.payload_bytes > kMaxPayloadBytes) {
    why = "it sent a handshake message that does not exist";
    return Status(StatusCode::kProtocol);
  }
  header.type = static_cast<FrameType>(type);
  return Status();
}

std::vector<std::byte> encode(const Capabilities& message) {
  std::vector<std::byte> out(16);
  WireWriter writer(out);
  writer.u32(message.lanes);
  writer.u32(message.notify_count);
  writer.u32(message.window_segments);
  writer.u32(message.receive_depth);
  return out;
}

Status decode(std::span<const std::byte> payload, Capabilities& message) noexcept {
  WireReader reader(payload);
  message.lanes = reader.u32();
  message.notify_count = reader.u32();
  message.window_segments = reader.u32();
  message.receive_depth = reader.u32();
  const bool valid = reader.ok() && reader.rest() == 0 && message.lanes >= 1 &&
                     message.lanes <= kMaxLanes && message.notify_count <= kMaxNotifyIndex &&
                     std::has_single_bit(message.window_segments) &&
                     message.window_segments <= kMaxWindowSegments && message.receive_depth >= 1 &&
                     message.receive_depth <= kMaxDepth;
  return valid ? Status() : Status(StatusCode::kProtocol);
}

std::vector<std::byte> encode(const Endpoints& message) {
  std::vector<std::byte> out(kMaxPayloadBytes);
  WireWriter writer(out);
  writer.bytes(std::as_bytes(std::span(message.gid)));
  writer.u16(message.lid);
  writer.u8(message.mtu_code);
  writer.u8(message.rd_atomic);
  writer.u32(message.control.qpn);
  writer.u32(message.control.psn);
  writer.u32(static_cast<std::uint32_t>(message.lanes.size()));
  for (const QpAddress& qp : message.lanes) {
    writer.u32(qp.qpn);
    writer.u32(qp.psn);
  }
  writer.u32(static_cast<std::uint32_t>(message.exports.size()));
  for (const RemoteMemory& memory : message.exports) {
    writer.u64(memory.address());
    writer.u64(memory.bytes());
    writer.u32(memory.rkey());
  }
  writer.u32(static_cast<std::uint32_t>(message.notify_ids.size()));
  for (const std::uint32_t id : message.notify_ids) writer.u32(id);
  // The limits of lanes, exports and ids keep this far below kMaxPayloadBytes.
  out.resize(writer.ok() ? writer.size() : 0);
  return out;
}

Status decode(std::span<const std::byte> payload, Endpoints& message) {
  const Status malformed(StatusCode::kProtocol);
  WireReader reader(payload);
  const auto gid = reader.bytes(message.gid.size());
  if (!reader.ok()) return malformed;
  std::transform(gid.begin(), gid.end(), message.gid.begin(),
                 [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  message.lid = reader.u16();
  message.mtu_code = reader.u8();
  message.rd_atomic = reader.u8();
  message.control.qpn = reader.u32();
  message.control.psn = reader.u32();
  if (message.mtu_code < kMinMtuCode || message.mtu_code > kMaxMtuCode) return malformed;
  if (!valid(message.control)) return malformed;

  // Counts are bounded before anything is allocated for them.
  const std::uint32_t lanes = reader.u32();
  if (!reader.ok() || lanes < 1 || lanes > kMaxLanes) return malformed;
  message.lanes.resize(lanes);
  for (QpAddress& qp : message.lanes) {
    qp.qpn = reader.u32();
    qp.psn = reader.u32();
    if (!valid(qp)) return malformed;
  }
  const std::uint32_t exports = reader.u32();
  if (!reader.ok() || exports > kMaxExports) return malformed;
  message.exports.clear();
  for (std::uint32_t i = 0; i < exports; ++i) {
    const std::uint64_t address = reader.u64();
    const std::uint64_t bytes = reader.u64();
    const std::uint32_t rkey = reader.u32();
    if (!reader.ok() || bytes > UINT64_MAX - address) return malformed;
    message.exports.emplace_back(address, bytes, rkey);
  }
  const std::uint32_t ids = reader.u32();
  if (!reader.ok() || ids > kMaxNotifyIndex) return malformed;
  message.notify_ids.resize(ids);
  for (std::uint32_t& id : message.notify_ids) id = reader.u32();
  return reader.ok() && reader.rest() == 0 ? Status() : malformed;
}

std::string printable(std::span<const std::byte> text) {
  std::string out;
  for (const std::byte b : text.first(std::min(text.size(), kMaxReasonBytes))) {
    const auto c = std::to_integer<unsigned char>(b);
    out += c >= 0x20 && c < 0x7F ? static_cast<char>(c) : '?';
  }
  return out;
}

Status compare(const Capabilities& ours, const Capabilities& theirs, std::string& why) {
  if (ours.lanes != theirs.lanes) {
    why = "the lane counts differ: this side has " + std::to_string(ours.lanes) +
          ", the peer has " + std::to_string(theirs.lanes) +
          " (set the same number with -q or ChannelOptions::lanes)";
    return Status(StatusCode::kConnectionFailed);
  }
  if (ours.notify_count != theirs.notify_count) {
    why = "the numbers of notify ids differ: this side has " + std::to_string(ours.notify_count) +
          ", the peer has " + std::to_string(theirs.notify_count) +
          " (give equally many in ChannelOptions::notify_ids)";
    return Status(StatusCode::kConnectionFailed);
  }
  return Status();
}

}  // namespace braid::bootstrap
