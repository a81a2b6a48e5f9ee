#pragma once

#include <braid/channel.h>
#include <braid/status.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "tools/sha256.h"

namespace braid::tools {

/// How a file crosses a channel.
///
/// Each side exports a letter box, region 0; the receiver also exports a ring of slots, region 1.
///   1. receiver: letter Offer (slot size and count)
///   2. sender:   letter Header (name and size)
///   3. receiver: kAccepted, or letter Result with an error
///   4. sender:   chunk k into slot k mod count, with kChunk; in order, because notifications are
///      receiver: kSlotFree each time a slot may be used again
///   5. sender:   letter Trailer (digest, or why it gives up)
///   6. receiver: letter Result (digest and verdict)
/// A box is never written again before the previous letter was answered.
inline constexpr NotifyIndex kLetter{1};
inline constexpr NotifyIndex kAccepted{2};
inline constexpr NotifyIndex kChunk{3};
inline constexpr NotifyIndex kSlotFree{4};

inline constexpr std::size_t kLetterBytes = 4096;
inline constexpr std::size_t kMaxNameBytes = 1024;
inline constexpr std::size_t kMaxTextBytes = 1024;

enum class LetterType : std::uint8_t { kOffer = 1, kHeader, kTrailer, kResult };

/// Any letter; `type` says which fields matter.
struct Letter {
  LetterType type = LetterType::kOffer;
  bool ok = true;                 // Trailer, Result
  std::uint32_t exit_code = 0;    // Trailer, Result: why not, as the other side should report it
  std::uint32_t chunk_bytes = 0;  // Offer
  std::uint32_t slot_count = 0;   // Offer
  std::uint64_t file_bytes = 0;   // Header
  Digest digest{};                // Trailer, Result
  std::string text;               // Header: file name; else why not
};

/// Writes a letter into `box`, which holds at least kLetterBytes. Returns its length.
std::size_t encode(const Letter& letter, std::span<std::byte> box) noexcept;
/// Errors: kProtocol for what no peer of ours writes.
Status decode(std::span<const std::byte> box, Letter& letter);

/// The last component of what a peer calls its file, if it is usable as a name here: not empty,
/// not "." or "..", without control characters. Empty otherwise.
[[nodiscard]] std::string safe_file_name(std::string_view offered);

/// Replaces what does not print: text of a peer goes to a terminal.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace braid::tools
