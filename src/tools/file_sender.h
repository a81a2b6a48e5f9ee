#pragma once

#include <braid/device.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tools/failure.h"
#include "tools/file_session.h"
#include "tools/sha256.h"
#include "tools/source_file.h"

namespace braid::tools {

/// The sending end of tools/file_protocol.h over an attached session.
class FileSender {
 public:
  FileSender(FileSession& session, SourceFile& source) noexcept
      : session_(session), source_(source) {}

  /// Sends the file under `name` and waits for the receiver's verdict.
  MaybeFailure run(Device& device, const std::string& name);
  /// Lets the receiver know why nothing more comes, as far as it can still hear it.
  void give_up(const Failure& failure);
  /// SHA-256 of what was sent, after run().
  [[nodiscard]] const Digest& digest() const noexcept { return digest_; }

 private:
  MaybeFailure negotiate(Device& device, const std::string& name);
  MaybeFailure prepare_staging(Device& device, const Letter& offer);
  MaybeFailure send_chunks();
  MaybeFailure send_next_chunk();
  MaybeFailure check_early_result();
  MaybeFailure judge(const Letter& result);

  FileSession& session_;
  SourceFile& source_;
  Memory staging_;
  std::vector<bool> busy_;  // slots whose bytes the channel still reads
  std::uint32_t chunk_bytes_ = 0;
  std::uint32_t slot_count_ = 0;
  std::uint64_t chunks_sent_ = 0;
  std::uint64_t bytes_sent_ = 0;
  Sha256 hash_;
  Digest digest_{};
};

}  // namespace braid::tools
