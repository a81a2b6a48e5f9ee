#include "tools/source_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tools/exit_code.h"

namespace braid::tools {

SourceFile::~SourceFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

Failure SourceFile::fail(const char* what, int error) const {
  return {kExitFile, std::string(what) + " " + name_ + ": " + std::strerror(error)};
}

MaybeFailure SourceFile::open(const std::string& name) {
  name_ = name;
  // O_NONBLOCK: opening a FIFO would wait for its writer before it could be refused.
  descriptor_ = ::open(name.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) return fail("cannot open", errno);
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) return fail("cannot read", errno);
  if (!S_ISREG(info.st_mode)) return Failure{kExitFile, name + " is not a regular file"};
  bytes_ = static_cast<std::uint64_t>(info.st_size);
  return std::nullopt;
}

MaybeFailure SourceFile::read(std::uint64_t offset, std::span<std::byte> buffer) {
  while (!buffer.empty()) {
    const ssize_t got =
        ::pread(descriptor_, buffer.data(), buffer.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail("cannot read", errno);
    if (got == 0) return Failure{kExitFile, name_ + " became shorter while it was sent"};
    offset += static_cast<std::uint64_t>(got);
    buffer = buffer.subspan(static_cast<std::size_t>(got));
  }
  return std::nullopt;
}

}  // namespace braid::tools
