#include "tools/sha256.h"

#include <openssl/evp.h>

namespace braid::tools {

Sha256::Sha256()
    : context_(EVP_MD_CTX_new()),
      ok_(context_ != nullptr && EVP_DigestInit_ex(context_, EVP_sha256(), nullptr) == 1) {}

Sha256::~Sha256() { EVP_MD_CTX_free(context_); }

void Sha256::update(std::span<const std::byte> data) noexcept {
  ok_ = ok_ && EVP_DigestUpdate(context_, data.data(), data.size()) == 1;
}

Digest Sha256::finish() noexcept {
  Digest digest{};
  unsigned int size = 0;
  ok_ = ok_ &&
        EVP_DigestFinal_ex(context_, reinterpret_cast<unsigned char*>(digest.data()), &size) == 1 &&
        size == digest.size();
  return ok_ ? digest : Digest{};
}

std::string to_hex(const Digest& digest) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string out;
  for (const std::byte b : digest) {
    const auto value = std::to_integer<unsigned>(b);
    out += kDigits[value >> 4U];
    out += kDigits[value & 15U];
  }
  return out;
}

}  // namespace braid::tools
