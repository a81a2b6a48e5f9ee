#pragma once

#include <cstdint>

namespace braid {

/// Seeded generator (SplitMix64). Handed in wherever randomness is needed, so that one seed
/// reproduces a run on any machine and compiler. Not for keys that must resist guessing.
class Random {
 public:
  constexpr explicit Random(std::uint64_t seed) noexcept : state_(seed) {}

  /// Uniform 64 bits.
  constexpr std::uint64_t next() noexcept {
    state_ += 0x9E3779B97F4A7C15U;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, bound); bound > 0. The bias is below bound / 2^64.
  constexpr std::uint64_t below(std::uint64_t bound) noexcept {
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * bound) >> 64);
  }

  /// True with the given probability, in parts per million.
  constexpr bool chance_ppm(std::uint32_t ppm) noexcept { return below(1'000'000) < ppm; }

 private:
  __extension__ using Wide = unsigned __int128;

  std::uint64_t state_;
};

}  // namespace braid
