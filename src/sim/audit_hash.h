#pragma once

#include <cstdint>

namespace braid::sim {

/// Order-dependent digest of 64-bit words. Integers only, so it is the same everywhere. Not
/// cryptographic: it tells two runs apart, nothing more.
class AuditHash {
 public:
  constexpr void add(std::uint64_t word) noexcept {
    state_ = (state_ ^ word) * 0x9E3779B97F4A7C15U;
    state_ ^= state_ >> 29U;
  }
  [[nodiscard]] constexpr std::uint64_t value() const noexcept { return state_; }

 private:
  std::uint64_t state_ = 0xCBF29CE484222325U;
};

/// Mixes one word well (the finaliser of a 64-bit hash); for path choice.
[[nodiscard]] constexpr std::uint64_t mix(std::uint64_t word) noexcept {
  word = (word ^ (word >> 30U)) * 0xBF58476D1CE4E5B9U;
  word = (word ^ (word >> 27U)) * 0x94D049BB133111EBU;
  return word ^ (word >> 31U);
}

}  // namespace braid::sim
