#pragma once

#include <compare>
#include <cstdint>

namespace braid {

/// Serial number mod 2^24, as PSNs, MSNs and channel sequences are (IBTA 9.7.2; RFC 1982 order).
///
/// The Tag keeps different kinds apart. Comparison is by signed difference, so that it holds across
/// the wrap as long as the two values are less than 2^23 apart.
template <typename Tag>
class Seq24 {
 public:
  static constexpr std::uint32_t kMask = 0xFFFFFF;

  constexpr Seq24() noexcept = default;
  constexpr explicit Seq24(std::uint32_t value) noexcept : value_(value & kMask) {}

  [[nodiscard]] constexpr std::uint32_t value() const noexcept { return value_; }

  /// Signed distance a - b, in [-2^23, 2^23).
  friend constexpr std::int32_t operator-(Seq24 a, Seq24 b) noexcept {
    // Shifting the 24-bit difference to the top makes the machine's sign bit the serial sign bit.
    return static_cast<std::int32_t>((a.value_ - b.value_) << 8) >> 8;
  }
  friend constexpr Seq24 operator+(Seq24 a, std::uint32_t count) noexcept {
    return Seq24(a.value_ + count);
  }
  friend constexpr Seq24 operator-(Seq24 a, std::uint32_t count) noexcept {
    return Seq24(a.value_ - count);
  }
  constexpr Seq24& operator+=(std::uint32_t count) noexcept { return *this = *this + count; }
  constexpr Seq24& operator++() noexcept { return *this += 1; }

  friend constexpr bool operator==(Seq24, Seq24) noexcept = default;
  friend constexpr bool operator<(Seq24 a, Seq24 b) noexcept { return a - b < 0; }
  friend constexpr bool operator>(Seq24 a, Seq24 b) noexcept { return a - b > 0; }
  friend constexpr bool operator<=(Seq24 a, Seq24 b) noexcept { return a - b <= 0; }
  friend constexpr bool operator>=(Seq24 a, Seq24 b) noexcept { return a - b >= 0; }

 private:
  std::uint32_t value_ = 0;
};

}  // namespace braid
