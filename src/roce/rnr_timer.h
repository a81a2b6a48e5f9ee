#pragma once

#include <braid/time.h>

#include <array>
#include <cstdint>

namespace braid::roce {

/// How long a requester waits after a receiver-not-ready NAK with this timer code.
///
/// Shape: code 0..31; higher bits are ignored. Source: IBTA table 45.
[[nodiscard]] constexpr Duration rnr_timer_duration(std::uint8_t code) noexcept {
  // In units of 10 us.
  constexpr std::array<std::int32_t, 32> kTensOfMicroseconds{
      65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
      48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
  return std::chrono::microseconds(10) * kTensOfMicroseconds[code & 0x1F];
}

}  // namespace braid::roce
