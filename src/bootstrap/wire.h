#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace braid::bootstrap {

/// Appends integers in network byte order to a fixed buffer. What does not fit is not written and
/// ok() turns false; one check at the end suffices.
class WireWriter {
 public:
  explicit WireWriter(std::span<std::byte> buffer) noexcept : buffer_(buffer) {}

  void u8(std::uint8_t value) noexcept { number(value, 1); }
  void u16(std::uint16_t value) noexcept { number(value, 2); }
  void u32(std::uint32_t value) noexcept { number(value, 4); }
  void u64(std::uint64_t value) noexcept { number(value, 8); }
  void bytes(std::span<const std::byte> data) noexcept {
    if (!reserve(data.size())) return;
    for (const std::byte b : data) buffer_[used_++] = b;
  }

  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] std::size_t size() const noexcept { return used_; }

 private:
  bool reserve(std::size_t count) noexcept {
    if (!ok_ || count > buffer_.size() - used_) ok_ = false;
    return ok_;
  }
  void number(std::uint64_t value, std::size_t count) noexcept {
    if (!reserve(count)) return;
    for (std::size_t i = count; i-- > 0;) {
      buffer_[used_++] = static_cast<std::byte>((value >> (8 * i)) & 0xFFU);
    }
  }

  std::span<std::byte> buffer_;
  std::size_t used_ = 0;
  bool ok_ = true;
};

/// Takes integers in network byte order from bytes of a peer. Reading past the end gives zeros and
/// turns ok() false.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> data) noexcept : data_(data) {}

  std::uint8_t u8() noexcept { return static_cast<std::uint8_t>(number(1)); }
  std::uint16_t u16() noexcept { return static_cast<std::uint16_t>(number(2)); }
  std::uint32_t u32() noexcept { return static_cast<std::uint32_t>(number(4)); }
  std::uint64_t u64() noexcept { return number(8); }
  std::span<const std::byte> bytes(std::size_t count) noexcept {
    if (!reserve(count)) return {};
    const auto out = data_.subspan(used_, count);
    used_ += count;
    return out;
  }

  [[nodiscard]] bool ok() const noexcept { return ok_; }
  [[nodiscard]] std::size_t rest() const noexcept { return data_.size() - used_; }

 private:
  bool reserve(std::size_t count) noexcept {
    if (!ok_ || count > data_.size() - used_) ok_ = false;
    return ok_;
  }
  std::uint64_t number(std::size_t count) noexcept {
    if (!reserve(count)) return 0;
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < count; ++i) {
      value = (value << 8U) | std::to_integer<std::uint64_t>(data_[used_++]);
    }
    return value;
  }

  std::span<const std::byte> data_;
  std::size_t used_ = 0;
  bool ok_ = true;
};

}  // namespace braid::bootstrap
