#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "tools/failure.h"

namespace braid::tools {

/// A regular file that is read from beginning to end.
class SourceFile {
 public:
  SourceFile() noexcept = default;
  ~SourceFile();
  SourceFile(const SourceFile&) = delete;
  SourceFile& operator=(const SourceFile&) = delete;

  MaybeFailure open(const std::string& name);
  /// Reads exactly this range; a file that became shorter is a failure.
  MaybeFailure read(std::uint64_t offset, std::span<std::byte> buffer);
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  [[nodiscard]] Failure fail(const char* what, int error) const;

  std::string name_;
  int descriptor_ = -1;
  std::uint64_t bytes_ = 0;
};

}  // namespace braid::tools
