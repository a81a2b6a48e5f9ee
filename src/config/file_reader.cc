#include "config/file_reader.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace braid::config {
namespace {

Status io_error(int error) { return Status::from_errno(StatusCode::kIo, error); }

Result<std::string> read_all(int file, std::uint64_t max_bytes) {
  std::string out;
  std::array<char, 65536> block;
  for (;;) {
    const ssize_t count = ::read(file, block.data(), block.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return io_error(errno);
    if (count == 0) return out;
    out.append(block.data(), static_cast<std::size_t>(count));
    if (out.size() > max_bytes) return io_error(EFBIG);
  }
}

}  // namespace

Result<std::string> read_config_file(const std::string& path, std::uint64_t max_bytes) noexcept {
  int file = -1;
  do {
    file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  } while (file < 0 && errno == EINTR);
  if (file < 0) {
    const bool missing = errno == ENOENT || errno == ENOTDIR;
    return Status::from_errno(missing ? StatusCode::kNotFound : StatusCode::kIo, errno);
  }
  struct stat about {};
  Result<std::string> out = io_error(EINVAL);
  if (::fstat(file, &about) != 0) {
    out = io_error(errno);
  } else if (S_ISREG(about.st_mode)) {
    out = read_all(file, max_bytes);
  }
  ::close(file);
  return out;
}

}  // namespace braid::config
