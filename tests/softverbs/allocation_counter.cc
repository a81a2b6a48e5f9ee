#include "softverbs/allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> count{0};
std::atomic<std::int64_t> bytes_now{0};

// In front of each block, as long as its alignment: the last word holds its size.
constexpr std::size_t kPlain = alignof(std::max_align_t);

std::size_t& size_of(void* memory) noexcept { return static_cast<std::size_t*>(memory)[-1]; }

void* allocate(std::size_t bytes, std::size_t alignment) noexcept {
  count.fetch_add(1, std::memory_order_relaxed);
  const std::size_t whole = (alignment + bytes + alignment - 1) / alignment * alignment;
  auto* block = static_cast<std::byte*>(std::aligned_alloc(alignment, whole));
  if (block == nullptr) return nullptr;
  bytes_now.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  size_of(block + alignment) = bytes;
  return block + alignment;
}

void* allocate_or_throw(std::size_t bytes, std::size_t alignment) {
  void* memory = allocate(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void release(void* memory, std::size_t alignment) noexcept {
  if (memory == nullptr) return;
  bytes_now.fetch_sub(static_cast<std::int64_t>(size_of(memory)), std::memory_order_relaxed);
  std::free(static_cast<std::byte*>(memory) - alignment);
}

using Alignment = std::align_val_t;
std::size_t in_bytes(Alignment alignment) { return static_cast<std::size_t>(alignment); }

}  // namespace

void* operator new(std::size_t bytes) { return allocate_or_throw(bytes, kPlain); }
void* operator new[](std::size_t bytes) { return allocate_or_throw(bytes, kPlain); }
void* operator new(std::size_t bytes, Alignment alignment) {
  return allocate_or_throw(bytes, in_bytes(alignment));
}
void* operator new[](std::size_t bytes, Alignment alignment) {
  return allocate_or_throw(bytes, in_bytes(alignment));
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, kPlain);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
  return allocate(bytes, kPlain);
}
void operator delete(void* memory) noexcept { release(memory, kPlain); }
void operator delete[](void* memory) noexcept { release(memory, kPlain); }
void operator delete(void* memory, std::size_t) noexcept { release(memory, kPlain); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory, kPlain); }
void operator delete(void* memory, const std::nothrow_t&) noexcept { release(memory, kPlain); }
void operator delete[](void* memory, const std::nothrow_t&) noexcept { release(memory, kPlain); }
void operator delete(void* memory, Alignment alignment) noexcept {
  release(memory, in_bytes(alignment));
}
void operator delete[](void* memory, Alignment alignment) noexcept {
  release(memory, in_bytes(alignment));
}
void operator delete(void* memory, std::size_t, Alignment alignment) noexcept {
  release(memory, in_bytes(alignment));
}
void operator delete[](void* memory, std::size_t, Alignment alignment) noexcept {
  release(memory, in_bytes(alignment));
}

namespace braid::testing {

std::uint64_t allocation_count() noexcept { return count.load(); }
std::int64_t allocated_bytes() noexcept { return bytes_now.load(); }

}  // namespace braid::testing
