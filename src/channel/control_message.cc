#include "channel/control_message.h"

#include <cassert>

#include "base/seq24.h"
#include "bootstrap/wire.h"

namespace braid::channel {
namespace {

constexpr std::uint16_t kMagic = 0x4243;  // "BC"
constexpr std::uint32_t kMask24 = 0xFFFFFF;
constexpr std::size_t kStateBytes = 32;  // without the lanes
constexpr std::size_t kLargestNewsBytes = 12 + 4 * kQuerySegments;
static_assert(kStateBytes + 4 * kMaxLanes + kLargestNewsBytes <= kControlSlotBytes);

bool is_type(std::uint8_t type) noexcept {
  return type >= static_cast<std::uint8_t>(ControlType::kState) &&
         type <= static_cast<std::uint8_t>(ControlType::kLaneReady);
}

bool is_about_a_lane(ControlType type) noexcept { return type >= ControlType::kLaneDown; }

void write_news(bootstrap::WireWriter& writer, ControlType type, const LaneNews& news) noexcept {
  writer.u32(news.lane);
  writer.u32(news.generation);
  switch (type) {
    case ControlType::kLaneDown:
      writer.u32(news.qpn);
      writer.u32(news.psn);
      break;
    case ControlType::kLaneQuery:
      writer.u32(news.count);
      for (std::uint32_t i = 0; i < news.count; ++i) writer.u32(news.sequences[i]);
      break;
    case ControlType::kLaneAnswer: writer.u64(news.arrived); break;
    default: break;
  }
}

bool read_news(bootstrap::WireReader& reader, ControlType type, std::uint32_t lanes,
               LaneNews& news) noexcept {
  news.lane = reader.u32();
  news.generation = reader.u32();
  if (news.lane >= lanes && news.lane != kControlLane) return false;
  const bool about_segments = type == ControlType::kLaneQuery || type == ControlType::kLaneAnswer;
  if (about_segments && news.lane == kControlLane) return false;
  switch (type) {
    case ControlType::kLaneDown:
      news.qpn = reader.u32();
      news.psn = reader.u32();
      return news.qpn <= kMask24 && news.psn <= kMask24;
    case ControlType::kLaneQuery:
      news.count = reader.u32();
      if (news.count == 0 || news.count > kQuerySegments) return false;
      for (std::uint32_t i = 0; i < news.count; ++i) {
        news.sequences[i] = reader.u32();
        if (news.sequences[i] > kMask24) return false;
      }
      return true;
    case ControlType::kLaneAnswer: news.arrived = reader.u64(); return true;
    default: return true;
  }
}

}  // namespace

std::size_t encode(const ControlMessage& message, std::span<std::byte> out) noexcept {
  bootstrap::WireWriter writer(out);
  writer.u16(kMagic);
  writer.u8(static_cast<std::uint8_t>(message.type));
  writer.u8(0);
  writer.u32(message.number);
  writer.u32(message.control_received);
  writer.u64(message.delivered);
  writer.u64(message.sequences_used);
  writer.u32(message.lane_count);
  for (std::uint32_t lane = 0; lane < message.lane_count; ++lane) {
    writer.u32(message.receives_posted[lane]);
  }
  if (is_about_a_lane(message.type)) write_news(writer, message.type, message.news);
  assert(writer.ok());
  return writer.size();
}

Status decode(std::span<const std::byte> in, std::uint32_t lanes,
              ControlMessage& message) noexcept {
  const Status malformed(StatusCode::kProtocol);
  if (lanes > kMaxLanes) return malformed;
  bootstrap::WireReader reader(in);
  if (reader.u16() != kMagic) return malformed;
  const std::uint8_t type = reader.u8();
  if (!is_type(type)) return malformed;
  message.type = static_cast<ControlType>(type);
  if (reader.u8() != 0) return malformed;
  message.number = reader.u32();
  message.control_received = reader.u32();
  message.delivered = reader.u64();
  message.sequences_used = reader.u64();
  message.lane_count = reader.u32();
  if (message.lane_count != lanes) return malformed;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) message.receives_posted[lane] = reader.u32();
  if (is_about_a_lane(message.type) && !read_news(reader, message.type, lanes, message.news)) {
    return malformed;
  }
  return reader.ok() && reader.rest() == 0 ? Status() : malformed;
}

}  // namespace braid::channel
