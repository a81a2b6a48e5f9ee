#include "tools/part_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

namespace braid::tools {

PartFile::PartFile(std::string name, bool overwrite)
    : name_(std::move(name)), part_name_(name_ + ".part"), overwrite_(overwrite) {}

Result<std::unique_ptr<PartFile>> PartFile::create(const std::string& name, std::uint64_t bytes,
                                                   bool overwrite, std::string& why) {
  std::unique_ptr<PartFile> file(new PartFile(name, overwrite));
  const Status status = file->open(bytes, why);
  if (!status.ok()) return status;
  return file;
}

PartFile::~PartFile() {
  if (ours_) ::unlink(part_name_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

Status PartFile::fail(const char* action, int error, std::string& why) const {
  why = std::string(action) + ": " + std::strerror(error);
  return Status::from_errno(StatusCode::kIo, error);
}

Status PartFile::open(std::uint64_t bytes, std::string& why) {
  struct stat existing {};
  if (!overwrite_ && ::stat(name_.c_str(), &existing) == 0) {
    why = name_ + " exists already (use -f to replace it)";
    return Status::from_errno(StatusCode::kIo, EEXIST);
  }
  const std::string cannot = "cannot create " + part_name_;
  descriptor_ =
      ::open(part_name_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0666);
  if (descriptor_ < 0) return fail(cannot.c_str(), errno, why);
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) != 0) {
    const int error = errno;
    why = "another receiver is writing " + part_name_;
    return Status::from_errno(StatusCode::kIo, error);
  }
  // Between open() and flock() another receiver may have finished and renamed this very file: what
  // is locked now would be its result, under the final name.
  struct stat locked {};
  struct stat named {};
  if (::fstat(descriptor_, &locked) != 0) return fail(cannot.c_str(), errno, why);
  const bool same = ::lstat(part_name_.c_str(), &named) == 0 && locked.st_ino == named.st_ino &&
                    locked.st_dev == named.st_dev;
  if (!same || !S_ISREG(locked.st_mode)) {
    why = same ? part_name_ + " is not a regular file"
               : "another receiver has just written " + part_name_ + "; try again";
    return Status::from_errno(StatusCode::kIo, same ? EINVAL : EBUSY);
  }
  ours_ = true;
  if (::ftruncate(descriptor_, 0) != 0) return fail(cannot.c_str(), errno, why);
  if (bytes == 0) return Status();
  if (bytes > static_cast<std::uint64_t>(INT64_MAX)) return fail(cannot.c_str(), EFBIG, why);
  int result = 0;
  do {
    result = ::fallocate(descriptor_, 0, 0, static_cast<off_t>(bytes));
  } while (result != 0 && errno == EINTR);
  // A file system that cannot reserve still writes; a full disk then shows in write().
  if (result != 0 && errno != EOPNOTSUPP && errno != ENOSYS) {
    const std::string what = "no room for " + std::to_string(bytes) + " bytes in " + part_name_;
    return fail(what.c_str(), errno, why);
  }
  return Status();
}

Status PartFile::write(std::uint64_t offset, std::span<const std::byte> data, std::string& why) {
  while (!data.empty()) {
    const ssize_t written =
        ::pwrite(descriptor_, data.data(), data.size(), static_cast<off_t>(offset));
    if (written < 0) {
      if (errno == EINTR) continue;
      return fail(("cannot write " + part_name_).c_str(), errno, why);
    }
    offset += static_cast<std::uint64_t>(written);
    data = data.subspan(static_cast<std::size_t>(written));
  }
  return Status();
}

Status PartFile::finish(std::string& why) {
  const std::string cannot = "cannot rename " + part_name_ + " to " + name_;
  int result = 0;
  if (overwrite_) {
    result = ::rename(part_name_.c_str(), name_.c_str());
  } else {
    result = ::renameat2(AT_FDCWD, part_name_.c_str(), AT_FDCWD, name_.c_str(), RENAME_NOREPLACE);
    if (result != 0 && (errno == EINVAL || errno == ENOSYS)) {
      // Not every file system knows RENAME_NOREPLACE; link() refuses an existing name as well.
      result = ::link(part_name_.c_str(), name_.c_str());
      if (result == 0) ::unlink(part_name_.c_str());
    }
  }
  if (result != 0) return fail(cannot.c_str(), errno, why);
  ours_ = false;
  return Status();
}

}  // namespace braid::tools
