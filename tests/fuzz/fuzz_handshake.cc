// Everything that a peer of the bootstrap connection, of the control QP or of the file protocol
// can say. The first byte chooses the parser, the rest is its input.

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/messages.h"
#include "channel/control_message.h"
#include "fuzz/require.h"
#include "tools/file_protocol.h"

namespace {

using Bytes = std::span<const std::byte>;

// What is accepted means one thing only: written again it is the same bytes.
bool same(Bytes one, Bytes two) {
  return std::equal(one.begin(), one.end(), two.begin(), two.end());
}

void header(Bytes input) {
  if (input.size() < braid::bootstrap::kHeaderBytes) return;
  const auto in = input.first<braid::bootstrap::kHeaderBytes>();
  braid::bootstrap::FrameHeader out;
  std::string why;
  if (!braid::bootstrap::decode_header(in, out, why).ok()) {
    BRAID_REQUIRE(!why.empty());
    return;
  }
  BRAID_REQUIRE(out.payload_bytes <= braid::bootstrap::kMaxPayloadBytes);
  std::array<std::byte, braid::bootstrap::kHeaderBytes> again{};
  braid::bootstrap::encode_header(out, again);
  BRAID_REQUIRE(same(in, again));
}

void capabilities(Bytes input) {
  braid::bootstrap::Capabilities out;
  if (braid::bootstrap::decode(input, out).ok()) {
    BRAID_REQUIRE(same(input, braid::bootstrap::encode(out)));
  }
}

void endpoints(Bytes input) {
  braid::bootstrap::Endpoints out;
  if (!braid::bootstrap::decode(input, out).ok()) return;
  BRAID_REQUIRE(!out.lanes.empty() && out.lanes.size() <= braid::kMaxLanes);
  BRAID_REQUIRE(same(input, braid::bootstrap::encode(out)));
}

void control(Bytes input) {
  if (input.empty()) return;
  const std::uint32_t lanes = std::to_integer<std::uint32_t>(input[0]);
  braid::channel::ControlMessage out;
  if (!braid::channel::decode(input.subspan(1), lanes, out).ok()) return;
  BRAID_REQUIRE(out.lane_count == lanes && lanes <= braid::kMaxLanes);
  std::array<std::byte, braid::channel::kControlSlotBytes> again{};
  const std::size_t bytes = braid::channel::encode(out, again);
  BRAID_REQUIRE(same(input.subspan(1), std::span(again).first(bytes)));
}

void letter(Bytes input) {
  braid::tools::Letter out;
  if (!braid::tools::decode(input, out).ok()) return;
  const std::string name = braid::tools::safe_file_name(out.text);
  BRAID_REQUIRE(name.find('/') == std::string::npos && name != "." && name != "..");
  std::array<std::byte, braid::tools::kLetterBytes> box{};
  braid::tools::Letter back;
  const std::size_t bytes = braid::tools::encode(out, box);
  BRAID_REQUIRE(braid::tools::decode(std::span(box).first(bytes), back).ok());
  BRAID_REQUIRE(back.text == out.text && back.file_bytes == out.file_bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  static constexpr std::array kParsers{header, capabilities, endpoints, control, letter};
  kParsers[data[0] % kParsers.size()](std::as_bytes(std::span(data + 1, size - 1)));
  return 0;
}
