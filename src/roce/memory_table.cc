#include "roce/memory_table.h"

#include <infiniband/verbs.h>

namespace braid::roce {
namespace {

constexpr std::uint32_t kKeyBits = 8;
constexpr std::uint32_t kKeyMask = (1U << kKeyBits) - 1;

bool is_valid(std::uint64_t iova, std::uint64_t length_bytes, int access) noexcept {
  if (iova + length_bytes < iova && iova + length_bytes != 0) return false;
  // Remote writing and atomics imply local writing (man ibv_reg_mr).
  constexpr int kRemoteWriting = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  return (access & kRemoteWriting) == 0 || (access & IBV_ACCESS_LOCAL_WRITE) != 0;
}

}  // namespace

MemoryTable::MemoryTable(std::size_t capacity, Random& random)
    : capacity_(capacity),
      regions_(std::make_unique<MemoryRegion[]>(capacity)),
      next_free_(std::make_unique<std::uint32_t[]>(capacity)),
      random_(random) {
  for (std::size_t i = 0; i < capacity; ++i) next_free_[i] = static_cast<std::uint32_t>(i + 1);
}

std::uint32_t MemoryTable::make_key(std::uint32_t slot) noexcept {
  // The low byte is 1..255, so that no key is 0, and never the slot's last one, so that the key
  // that was erased last always fails.
  const std::uint32_t previous = regions_[slot].key & kKeyMask;
  const auto draw = static_cast<std::uint32_t>(random_.below(kKeyMask - 1));
  const std::uint32_t byte = 1 + (previous + draw) % kKeyMask;
  return slot << kKeyBits | byte;
}

Result<std::uint32_t> MemoryTable::insert(PdId pd, void* base, std::uint64_t iova,
                                          std::uint64_t length_bytes, int access) noexcept {
  if (!is_valid(iova, length_bytes, access)) return Status(StatusCode::kInvalidArgument);
  if (used_count_ == capacity_) return Status(StatusCode::kOutOfMemory);
  const auto slot = static_cast<std::uint32_t>(free_head_);
  free_head_ = next_free_[slot];
  ++used_count_;
  const std::uint32_t key = make_key(slot);
  regions_[slot] =
      MemoryRegion{iova, length_bytes, static_cast<std::uint8_t*>(base), key, pd, access, true};
  return key;
}

Result<std::uint32_t> MemoryTable::replace(std::uint32_t key, const MemoryRegion& with) noexcept {
  const std::uint32_t slot = key >> kKeyBits;
  if (slot >= capacity_ || regions_[slot].key != key || !regions_[slot].used) {
    return Status(StatusCode::kNotFound);
  }
  if (!is_valid(with.iova, with.length_bytes, with.access)) {
    return Status(StatusCode::kInvalidArgument);
  }
  const std::uint32_t renewed = make_key(slot);
  regions_[slot] = with;
  regions_[slot].key = renewed;
  regions_[slot].used = true;
  return renewed;
}

bool MemoryTable::erase(std::uint32_t key) noexcept {
  const std::uint32_t slot = key >> kKeyBits;
  if (slot >= capacity_ || regions_[slot].key != key || !regions_[slot].used) return false;
  regions_[slot].used = false;  // the key stays, so that the next one differs
  next_free_[slot] = static_cast<std::uint32_t>(free_head_);
  free_head_ = slot;
  --used_count_;
  return true;
}

const MemoryRegion* MemoryTable::find(std::uint32_t key, PdId pd, int access) const noexcept {
  const std::uint32_t slot = key >> kKeyBits;
  if (slot >= capacity_) return nullptr;
  const MemoryRegion& region = regions_[slot];
  const bool allowed =
      region.key == key && region.used && region.pd == pd && (region.access & access) == access;
  return allowed ? &region : nullptr;
}

std::uint8_t* MemoryTable::resolve(std::uint32_t key, PdId pd, int access, std::uint64_t address,
                                   std::uint64_t bytes) const noexcept {
  const MemoryRegion* region = find(key, pd, access);
  if (region == nullptr) return nullptr;
  // In offsets, so that neither end can wrap.
  const std::uint64_t offset = address - region->iova;
  if (offset > region->length_bytes || bytes > region->length_bytes - offset) return nullptr;
  return region->base + offset;
}

}  // namespace braid::roce
