#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace braid::sim {

inline constexpr std::uint32_t kNone = ~std::uint32_t{0};
/// Ethernet with preamble, gap and FCS, IPv4 and UDP around the UDP payload.
inline constexpr std::uint32_t kFrameOverheadBytes = 38 + 20 + 8;

inline constexpr std::uint16_t kSmallPacketBytes = 64;

/// A packet in the network.
struct Packet {
  std::uint32_t next = kNone;     // in whichever list it is
  std::uint32_t link = kNone;     // directed link that it is on, or came by
  std::uint32_t source = 0;       // node of the sending port
  std::uint32_t destination = 0;  // node of the receiving port
  std::uint64_t flow_hash = 0;    // of the five-tuple
  std::int64_t due_ns = 0;        // arrival at the end of `link`, once on the wire
  std::uint32_t destination_qpn = 0;
  std::uint32_t serial = 0;
  std::uint16_t payload_bytes = 0;
  std::uint16_t source_port = 0;
  std::uint8_t traffic_class = 0;
  bool is_large = false;
  bool is_marked = false;
  std::uint8_t* payload = nullptr;

  /// What of the payload is really there: with its contents left out, the headers.
  [[nodiscard]] std::uint16_t stored_bytes() const noexcept {
    return is_large || payload_bytes <= kSmallPacketBytes ? payload_bytes : kSmallPacketBytes;
  }
  [[nodiscard]] std::uint32_t wire_bytes() const noexcept {
    return payload_bytes + kFrameOverheadBytes;
  }
};

/// Packets in the network, by index. Two sizes: acknowledgements are most of all packets and need
/// 64 bytes, data needs an MTU and its headers.
///
/// Cost: O(1); allocates a slab when more packets are under way than ever before.
class PacketPool {
 public:
  static constexpr std::size_t kSmallBytes = kSmallPacketBytes;
  static constexpr std::size_t kLargeBytes = 4096 + 96;

  explicit PacketPool(std::uint32_t max_packets) noexcept : max_packets_(max_packets) {}

  /// kNone when max_packets are under way or memory is short.
  [[nodiscard]] std::uint32_t allocate(std::size_t payload_bytes) noexcept;
  void release(std::uint32_t index) noexcept;
  /// A copy of a packet and its bytes; kNone as allocate().
  [[nodiscard]] std::uint32_t clone(std::uint32_t index) noexcept;
  [[nodiscard]] Packet& operator[](std::uint32_t index) noexcept { return packets_[index]; }

  [[nodiscard]] std::uint32_t used() const noexcept { return used_; }
  [[nodiscard]] std::uint32_t high_water() const noexcept { return high_water_; }
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

 private:
  bool grow(bool large) noexcept;

  std::uint32_t max_packets_;
  std::uint32_t used_ = 0;
  std::uint32_t high_water_ = 0;
  std::uint32_t free_small_ = kNone;
  std::uint32_t free_large_ = kNone;
  std::size_t slab_bytes_ = 0;
  std::vector<Packet> packets_;
  std::vector<std::unique_ptr<std::uint8_t[]>> slabs_;
};

/// First in, first out, through Packet::next.
class PacketList {
 public:
  [[nodiscard]] bool empty() const noexcept { return head_ == kNone; }
  [[nodiscard]] std::uint32_t front() const noexcept { return head_; }
  void push(PacketPool& pool, std::uint32_t index) noexcept {
    pool[index].next = kNone;
    if (head_ == kNone) {
      head_ = index;
    } else {
      pool[tail_].next = index;
    }
    tail_ = index;
  }
  std::uint32_t pop(PacketPool& pool) noexcept {
    const std::uint32_t index = head_;
    head_ = pool[index].next;
    return index;
  }

 private:
  std::uint32_t head_ = kNone;
  std::uint32_t tail_ = kNone;
};

}  // namespace braid::sim
