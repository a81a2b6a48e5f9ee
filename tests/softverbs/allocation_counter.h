#pragma once

#include <cstdint>

// Replaces the global operator new of the program that links it, so that tests can count.
namespace braid::testing {

/// Allocations of the whole process, all threads, since it began.
[[nodiscard]] std::uint64_t allocation_count() noexcept;
/// Bytes that are allocated at this moment, as asked for.
[[nodiscard]] std::int64_t allocated_bytes() noexcept;

}  // namespace braid::testing
