#pragma once

#include <braid/channel_options.h>

#include <array>
#include <bit>
#include <cstdint>

namespace braid::channel {

/// A set of lanes, one bit each. Cost: O(1), no allocation.
class LaneSet {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  [[nodiscard]] bool contains(std::uint32_t lane) const noexcept {
    return ((words_[lane / 64] >> (lane % 64)) & 1U) != 0;
  }
  void insert(std::uint32_t lane) noexcept { words_[lane / 64] |= bit(lane); }
  void erase(std::uint32_t lane) noexcept { words_[lane / 64] &= ~bit(lane); }
  void assign(std::uint32_t lane, bool value) noexcept {
    if (value) {
      insert(lane);
    } else {
      erase(lane);
    }
  }
  [[nodiscard]] bool empty() const noexcept {
    std::uint64_t all = 0;
    for (const std::uint64_t word : words_) all |= word;
    return all == 0;
  }

  /// First lane of the set at or after `from` < kMaxLanes; kNone when there is none.
  [[nodiscard]] std::uint32_t next(std::uint32_t from) const noexcept {
    std::uint64_t word = words_[from / 64] & (~std::uint64_t{0} << (from % 64));
    for (std::uint32_t i = from / 64;; word = words_[i]) {
      if (word != 0) return i * 64 + static_cast<std::uint32_t>(std::countr_zero(word));
      if (++i == words_.size()) return kNone;
    }
  }
  /// The same, going on at the beginning after the end.
  [[nodiscard]] std::uint32_t next_round(std::uint32_t from) const noexcept {
    const std::uint32_t lane = next(from);
    return lane != kNone || from == 0 ? lane : next(0);
  }

 private:
  static constexpr std::uint64_t bit(std::uint32_t lane) noexcept {
    return std::uint64_t{1} << (lane % 64);
  }

  std::array<std::uint64_t, kMaxLanes / 64> words_{};
  static_assert(kMaxLanes % 64 == 0);
};

}  // namespace braid::channel
