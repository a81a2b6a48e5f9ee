#pragma once

#include <braid/result.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace braid::tools {

/// File that appears under its name only when it is complete: it is written as NAME.part, renamed
/// by finish(), and removed by the destructor otherwise.
class PartFile {
 public:
  /// Opens NAME.part, locks it against other receivers and reserves `bytes` on the disk, so that a
  /// full disk shows before anything is sent. `overwrite` allows NAME to exist.
  /// Errors: kIo with the errno (EEXIST, ENOSPC, EACCES, EWOULDBLOCK = another receiver has it);
  /// `why` gets a sentence.
  static Result<std::unique_ptr<PartFile>> create(const std::string& name, std::uint64_t bytes,
                                                  bool overwrite, std::string& why);
  ~PartFile();
  PartFile(const PartFile&) = delete;
  PartFile& operator=(const PartFile&) = delete;

  /// Writes all of it at `offset`. Errors: kIo with the errno; `why` gets a sentence.
  Status write(std::uint64_t offset, std::span<const std::byte> data, std::string& why);
  /// Gives the file its name. Errors: kIo with the errno (EEXIST when it appeared meanwhile).
  Status finish(std::string& why);

 private:
  PartFile(std::string name, bool overwrite);
  Status open(std::uint64_t bytes, std::string& why);
  Status fail(const char* action, int error, std::string& why) const;

  std::string name_;
  std::string part_name_;
  bool overwrite_;
  int descriptor_ = -1;
  bool ours_ = false;  // the part file is locked by us, so it is ours to remove
};

}  // namespace braid::tools
