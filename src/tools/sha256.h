#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;

namespace braid::tools {

using Digest = std::array<std::byte, 32>;

/// Streaming SHA-256 from libcrypto.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::span<const std::byte> data) noexcept;
  /// Digest of everything so far. Call it once, last. All zero when libcrypto failed, which no
  /// data hashes to in practice; the comparison then fails.
  [[nodiscard]] Digest finish() noexcept;

 private:
  evp_md_ctx_st* context_;
  bool ok_;
};

/// Lower-case hexadecimal, as sha256sum prints it.
[[nodiscard]] std::string to_hex(const Digest& digest);

}  // namespace braid::tools
