#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace braid::roce {

static_assert(std::endian::native == std::endian::little, "the data path is written for this");

// Unaligned big-endian access. The cursor moves behind what was read or written.

inline void put_u8(std::uint8_t*& out, std::uint8_t value) noexcept { *out++ = value; }
inline void put_u16(std::uint8_t*& out, std::uint16_t value) noexcept {
  const std::uint16_t swapped = __builtin_bswap16(value);
  std::memcpy(out, &swapped, sizeof swapped);
  out += sizeof swapped;
}
/// Writes a value that is in network order already.
inline void put_raw_u32(std::uint8_t*& out, std::uint32_t value) noexcept {
  std::memcpy(out, &value, sizeof value);
  out += sizeof value;
}
inline void put_u32(std::uint8_t*& out, std::uint32_t value) noexcept {
  put_raw_u32(out, __builtin_bswap32(value));
}
inline void put_u64(std::uint8_t*& out, std::uint64_t value) noexcept {
  const std::uint64_t swapped = __builtin_bswap64(value);
  std::memcpy(out, &swapped, sizeof swapped);
  out += sizeof swapped;
}

inline std::uint16_t get_u16(const std::uint8_t*& in) noexcept {
  std::uint16_t value = 0;
  std::memcpy(&value, in, sizeof value);
  in += sizeof value;
  return __builtin_bswap16(value);
}
/// Reads a value and leaves it in network order.
inline std::uint32_t get_raw_u32(const std::uint8_t*& in) noexcept {
  std::uint32_t value = 0;
  std::memcpy(&value, in, sizeof value);
  in += sizeof value;
  return value;
}
inline std::uint32_t get_u32(const std::uint8_t*& in) noexcept {
  return __builtin_bswap32(get_raw_u32(in));
}
inline std::uint64_t get_u64(const std::uint8_t*& in) noexcept {
  std::uint64_t value = 0;
  std::memcpy(&value, in, sizeof value);
  in += sizeof value;
  return __builtin_bswap64(value);
}

}  // namespace braid::roce
