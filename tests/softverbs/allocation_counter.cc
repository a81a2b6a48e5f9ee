#include "softverbs/allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<std::uint64_t> count{0};
std::atomic<std::int64_t> bytes_now{0};

// In front of each block, so that freeing knows its size. Keeps the alignment of malloc().
constexpr std::size_t kHeaderBytes = alignof(std::max_align_t);

void* allocate(std::size_t bytes) {
  count.fetch_add(1, std::memory_order_relaxed);
  bytes_now.fetch_add(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  auto* block = static_cast<std::byte*>(std::malloc(kHeaderBytes + bytes));
  if (block == nullptr) throw std::bad_alloc();
  *reinterpret_cast<std::size_t*>(block) = bytes;
  return block + kHeaderBytes;
}

void release(void* memory) noexcept {
  if (memory == nullptr) return;
  std::byte* block = static_cast<std::byte*>(memory) - kHeaderBytes;
  const std::size_t bytes = *reinterpret_cast<std::size_t*>(block);
  bytes_now.fetch_sub(static_cast<std::int64_t>(bytes), std::memory_order_relaxed);
  std::free(block);
}

}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { release(memory); }
void operator delete[](void* memory) noexcept { release(memory); }
void operator delete(void* memory, std::size_t) noexcept { release(memory); }
void operator delete[](void* memory, std::size_t) noexcept { release(memory); }

namespace braid::testing {

std::uint64_t allocation_count() noexcept { return count.load(); }
std::int64_t allocated_bytes() noexcept { return bytes_now.load(); }

}  // namespace braid::testing
