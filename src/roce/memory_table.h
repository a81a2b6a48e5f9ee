#pragma once

#include <braid/result.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/random.h"

namespace braid::roce {

/// Protection domain number; a region and a QP must agree on it.
enum class PdId : std::uint32_t {};

/// A registered region as the data path sees it.
struct MemoryRegion {
  std::uint64_t iova = 0;  // address that WRs and RETHs use for the first byte
  std::uint64_t length_bytes = 0;
  std::uint8_t* base = nullptr;  // where the first byte really is
  std::uint32_t key = 0;         // lkey == rkey; kept when the slot is freed
  PdId pd{};
  int access = 0;  // ibv_access_flags
  bool used = false;
};

/// Registered memory, looked up by key on the data path.
///
/// Shape: fixed capacity; a key is (slot << 8 | random byte), so a stale key fails.
/// Thread: none; the device's mutex serialises.
class MemoryTable {
 public:
  MemoryTable(std::size_t capacity, Random& random);

  /// Registers [base, base + length_bytes) under `iova`. Returns the key.
  /// Errors: kOutOfMemory when every slot is taken; kInvalidArgument when the range wraps, or for
  /// IBV_ACCESS_REMOTE_WRITE or REMOTE_ATOMIC without LOCAL_WRITE.
  Result<std::uint32_t> insert(PdId pd, void* base, std::uint64_t iova, std::uint64_t length_bytes,
                               int access) noexcept;

  /// Replaces a registration in place, as ibv_rereg_mr does; the key changes.
  Result<std::uint32_t> replace(std::uint32_t key, const MemoryRegion& with) noexcept;

  /// False when the key is not registered.
  bool erase(std::uint32_t key) noexcept;

  /// The region of a key in a PD that allows all of `access` (0 for plain local reading), or null.
  /// Cost: O(1), no allocation.
  [[nodiscard]] const MemoryRegion* find(std::uint32_t key, PdId pd, int access) const noexcept;

  /// The bytes [address, address + bytes) of a key, or null when the key, PD, access or range is
  /// wrong. bytes = 0 still needs a valid key and address <= end.
  [[nodiscard]] std::uint8_t* resolve(std::uint32_t key, PdId pd, int access, std::uint64_t address,
                                      std::uint64_t bytes) const noexcept;

  [[nodiscard]] std::size_t size() const noexcept { return used_count_; }

 private:
  [[nodiscard]] std::uint32_t make_key(std::uint32_t slot) noexcept;

  std::size_t capacity_;
  std::size_t used_count_ = 0;
  std::size_t free_head_ = 0;
  std::unique_ptr<MemoryRegion[]> regions_;
  std::unique_ptr<std::uint32_t[]> next_free_;
  Random& random_;
};

}  // namespace braid::roce
