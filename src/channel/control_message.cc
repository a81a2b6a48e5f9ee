#include "channel/control_message.h"

#include <cassert>

#include "bootstrap/wire.h"

namespace braid::channel {
namespace {
constexpr std::uint16_t kMagic = 0x4243;  // "BC"
}  // namespace

std::size_t encode(const ControlMessage& message, std::span<std::byte> out) noexcept {
  bootstrap::WireWriter writer(out);
  writer.u16(kMagic);
  writer.u8(static_cast<std::uint8_t>(message.type));
  writer.u8(0);
  writer.u32(message.control_received);
  writer.u64(message.delivered);
  writer.u64(message.sequences_used);
  writer.u32(message.lane_count);
  for (std::uint32_t lane = 0; lane < message.lane_count; ++lane) {
    writer.u32(message.receives_posted[lane]);
  }
  assert(writer.ok());
  return writer.size();
}

Status decode(std::span<const std::byte> in, std::uint32_t lanes,
              ControlMessage& message) noexcept {
  const Status malformed(StatusCode::kProtocol);
  if (lanes > kMaxLanes || in.size() != control_message_bytes(lanes)) return malformed;
  bootstrap::WireReader reader(in);
  if (reader.u16() != kMagic) return malformed;
  const std::uint8_t type = reader.u8();
  if (type != static_cast<std::uint8_t>(ControlType::kState) &&
      type != static_cast<std::uint8_t>(ControlType::kClose)) {
    return malformed;
  }
  message.type = static_cast<ControlType>(type);
  if (reader.u8() != 0) return malformed;
  message.control_received = reader.u32();
  message.delivered = reader.u64();
  message.sequences_used = reader.u64();
  message.lane_count = reader.u32();
  if (message.lane_count != lanes) return malformed;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) message.receives_posted[lane] = reader.u32();
  return reader.ok() ? Status() : malformed;
}

}  // namespace braid::channel
