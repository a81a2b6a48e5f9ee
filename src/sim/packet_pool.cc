#include "sim/packet_pool.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace braid::sim {
namespace {

constexpr std::uint32_t kSmallPerSlab = 256;
constexpr std::uint32_t kLargePerSlab = 16;

}  // namespace

bool PacketPool::grow(bool large) noexcept {
  const std::uint32_t count = large ? kLargePerSlab : kSmallPerSlab;
  const std::size_t bytes = large ? kLargeBytes : kSmallBytes;
  try {
    packets_.reserve(packets_.size() + count > packets_.capacity()
                         ? std::max<std::size_t>(packets_.capacity() * 2, count)
                         : packets_.capacity());
    slabs_.push_back(std::make_unique<std::uint8_t[]>(bytes * count));
  } catch (const std::bad_alloc&) {
    return false;
  }
  slab_bytes_ += bytes * count;
  std::uint32_t& free = large ? free_large_ : free_small_;
  for (std::uint32_t i = 0; i < count; ++i) {
    Packet packet;
    packet.is_large = large;
    packet.payload = slabs_.back().get() + bytes * i;
    packet.next = free;
    free = static_cast<std::uint32_t>(packets_.size());
    packets_.push_back(packet);
  }
  return true;
}

std::uint32_t PacketPool::allocate(std::size_t payload_bytes) noexcept {
  if (used_ >= max_packets_ || payload_bytes > kLargeBytes) return kNone;
  const bool large = payload_bytes > kSmallBytes;
  std::uint32_t& free = large ? free_large_ : free_small_;
  if (free == kNone && !grow(large)) return kNone;
  const std::uint32_t index = free;
  Packet& packet = packets_[index];
  free = packet.next;
  packet.next = kNone;
  packet.is_marked = false;
  packet.payload_bytes = static_cast<std::uint16_t>(payload_bytes);
  high_water_ = std::max(high_water_, ++used_);
  return index;
}

void PacketPool::release(std::uint32_t index) noexcept {
  Packet& packet = packets_[index];
  std::uint32_t& free = packet.is_large ? free_large_ : free_small_;
  packet.next = free;
  free = index;
  --used_;
}

std::uint32_t PacketPool::clone(std::uint32_t index) noexcept {
  const std::uint32_t copy = allocate(packets_[index].stored_bytes());
  if (copy == kNone) return kNone;
  const Packet& from = packets_[index];
  Packet& to = packets_[copy];
  std::uint8_t* payload = to.payload;
  to = from;
  to.payload = payload;
  to.next = kNone;
  std::memcpy(to.payload, from.payload, from.stored_bytes());
  return copy;
}

std::size_t PacketPool::memory_bytes() const noexcept {
  return slab_bytes_ + packets_.capacity() * sizeof(Packet);
}

}  // namespace braid::sim
