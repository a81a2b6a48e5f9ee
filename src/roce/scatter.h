#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>

#include "roce/memory_table.h"

namespace braid::roce {

/// Sum of the lengths of a scatter/gather list.
[[nodiscard]] std::uint64_t total_bytes(std::span<const ibv_sge> sges) noexcept;

/// Copies `payload` into a scatter list from `offset_bytes` on.
///
/// Shape: offset_bytes + payload.size() <= total_bytes(sges).
/// Returns false when an entry's lkey, PD, access (LOCAL_WRITE) or range is wrong; bytes before
/// that entry have been written.
[[nodiscard]] bool scatter(const MemoryTable& memory, PdId pd, std::span<const ibv_sge> sges,
                           std::uint64_t offset_bytes,
                           std::span<const std::uint8_t> payload) noexcept;

/// True when every entry of the list may be accessed so (0 = plain local reading).
[[nodiscard]] bool accessible(const MemoryTable& memory, PdId pd, std::span<const ibv_sge> sges,
                              int access) noexcept;

}  // namespace braid::roce
