#pragma once

#include <braid/result.h>

#include <cstdint>
#include <string>

namespace braid::config {

inline constexpr std::uint64_t kMaxConfigFileBytes = 64U << 20U;

/// Reads a regular file whole.
///
/// Errors: kNotFound when no such file exists; kIo with the errno when it cannot be read (EFBIG
/// above `max_bytes`, EINVAL when it is no regular file, so that nobody waits on a FIFO).
Result<std::string> read_config_file(const std::string& path,
                                     std::uint64_t max_bytes = kMaxConfigFileBytes) noexcept;

}  // namespace braid::config
