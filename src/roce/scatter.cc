#include "roce/scatter.h"

#include <algorithm>
#include <cstring>

namespace braid::roce {

std::uint64_t total_bytes(std::span<const ibv_sge> sges) noexcept {
  std::uint64_t total = 0;
  for (const ibv_sge& sge : sges) total += sge.length;
  return total;
}

bool scatter(const MemoryTable& memory, PdId pd, std::span<const ibv_sge> sges,
             std::uint64_t offset_bytes, std::span<const std::uint8_t> payload) noexcept {
  for (const ibv_sge& sge : sges) {
    if (payload.empty()) break;
    if (offset_bytes >= sge.length) {
      offset_bytes -= sge.length;
      continue;
    }
    const std::size_t count = std::min<std::size_t>(sge.length - offset_bytes, payload.size());
    std::uint8_t* to =
        memory.resolve(sge.lkey, pd, IBV_ACCESS_LOCAL_WRITE, sge.addr + offset_bytes, count);
    if (to == nullptr) return false;
    std::memcpy(to, payload.data(), count);
    payload = payload.subspan(count);
    offset_bytes = 0;
  }
  return true;
}

bool accessible(const MemoryTable& memory, PdId pd, std::span<const ibv_sge> sges,
                int access) noexcept {
  return std::all_of(sges.begin(), sges.end(), [&](const ibv_sge& sge) {
    return sge.length == 0 || memory.resolve(sge.lkey, pd, access, sge.addr, sge.length) != nullptr;
  });
}

}  // namespace braid::roce
