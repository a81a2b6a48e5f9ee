#pragma once

#include <braid/memory.h>

#include <cstdint>
#include <string>

#include "tools/failure.h"
#include "tools/file_session.h"
#include "tools/part_file.h"
#include "tools/sha256.h"

namespace braid::tools {

/// The receiving end of tools/file_protocol.h over an attached session.
class FileReceiver {
 public:
  /// What it offers the sender.
  static constexpr std::uint32_t kChunkBytes = 4U << 20U;
  static constexpr std::uint32_t kSlots = 16;
  static constexpr std::uint64_t kSlotsBytes = std::uint64_t{kChunkBytes} * kSlots;

  /// `slots` has kSlotsBytes and was exported as region 1.
  FileReceiver(FileSession& session, Memory& slots) noexcept : session_(session), slots_(slots) {}

  /// Receives one file as `output`, or under the sender's name when that is empty.
  MaybeFailure run(const std::string& output, bool overwrite);

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  /// SHA-256 of what was received, after run().
  [[nodiscard]] const Digest& digest() const noexcept { return digest_; }

 private:
  MaybeFailure receive_chunks(PartFile& file);
  MaybeFailure take_chunk(PartFile& file);
  MaybeFailure finish(PartFile& file);
  MaybeFailure check_early_trailer();
  /// Tells the sender why this side gives up, and hands the reason on.
  Failure tell(Failure failure);

  FileSession& session_;
  Memory& slots_;
  std::string name_;
  std::uint64_t bytes_ = 0;
  std::uint64_t bytes_taken_ = 0;
  std::uint64_t chunks_taken_ = 0;
  Sha256 hash_;
  Digest digest_{};
};

}  // namespace braid::tools
