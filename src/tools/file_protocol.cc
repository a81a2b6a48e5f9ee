#include "tools/file_protocol.h"

#include <algorithm>

#include "bootstrap/wire.h"

namespace braid::tools {
namespace {
constexpr std::uint32_t kMagic = 0x42464C32;  // "BFL2"
}  // namespace

std::size_t encode(const Letter& letter, std::span<std::byte> box) noexcept {
  const std::string_view text =
      std::string_view(letter.text).substr(0, std::max(kMaxNameBytes, kMaxTextBytes));
  bootstrap::WireWriter writer(box.first(kLetterBytes));
  writer.u32(kMagic);
  writer.u8(static_cast<std::uint8_t>(letter.type));
  writer.u8(letter.ok ? 1 : 0);
  writer.u16(static_cast<std::uint16_t>(text.size()));
  writer.u32(letter.exit_code);
  writer.u32(letter.chunk_bytes);
  writer.u32(letter.slot_count);
  writer.u64(letter.file_bytes);
  writer.bytes(letter.digest);
  writer.bytes(std::as_bytes(std::span(text)));
  return writer.size();
}

Status decode(std::span<const std::byte> box, Letter& letter) {
  bootstrap::WireReader reader(box);
  const std::uint32_t magic = reader.u32();
  const std::uint8_t type = reader.u8();
  letter.ok = reader.u8() == 1;
  const std::uint16_t text_bytes = reader.u16();
  letter.exit_code = reader.u32();
  letter.chunk_bytes = reader.u32();
  letter.slot_count = reader.u32();
  letter.file_bytes = reader.u64();
  const auto digest = reader.bytes(letter.digest.size());
  const auto text = reader.bytes(text_bytes);
  if (!reader.ok() || magic != kMagic || type < static_cast<std::uint8_t>(LetterType::kOffer) ||
      type > static_cast<std::uint8_t>(LetterType::kResult) ||
      text_bytes > std::max(kMaxNameBytes, kMaxTextBytes)) {
    return Status(StatusCode::kProtocol);
  }
  letter.type = static_cast<LetterType>(type);
  std::copy(digest.begin(), digest.end(), letter.digest.begin());
  letter.text.assign(reinterpret_cast<const char*>(text.data()), text.size());
  return Status();
}

std::string safe_file_name(std::string_view offered) {
  const std::size_t slash = offered.rfind('/');
  if (slash != std::string_view::npos) offered.remove_prefix(slash + 1);
  if (offered.empty() || offered == "." || offered == ".." || offered.size() > 250) return {};
  const bool clean = std::all_of(offered.begin(), offered.end(), [](char c) {
    const auto u = static_cast<unsigned char>(c);
    return u >= 0x20 && u != 0x7F;
  });
  return clean ? std::string(offered) : std::string();
}

std::string printable(std::string_view text) {
  std::string out(text);
  std::replace_if(
      out.begin(), out.end(),
      [](char c) {
        const auto u = static_cast<unsigned char>(c);
        return u < 0x20 || u == 0x7F;
      },
      '?');
  return out;
}

}  // namespace braid::tools
