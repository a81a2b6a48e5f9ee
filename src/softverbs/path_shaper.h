#pragma once

#include <braid/result.h>
#include <braid/soft_device.h>
#include <braid/time.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "roce/datagram.h"

namespace braid::softverbs {

struct PathShaperCounters {
  std::uint64_t packets = 0;  // taken, duplicates not counted
  std::uint64_t lost = 0;
  std::uint64_t duplicated = 0;
  std::uint64_t reordered = 0;
  std::uint64_t corrupted = 0;
  std::uint64_t overflowed = 0;  // dropped because the path's queue was full
};

/// Makes chosen source ports of a sender behave like worse paths: a rate with a queue in front, a
/// delay, loss, duplicates, packets that fall behind later ones, and flipped bits.
///
/// Each PathImpairment is one path. Ports without their own entry share the path of the entry with
/// source_port 0, rate included. A packet departs at max(now, end of the one before) + its bytes /
/// rate and is due `delay` later; packets due at the same moment leave in the order in which they
/// came. Packets of ports without an entry never enter.
///
/// A packet counts against its path's queue_packets from admit() until it is due, so the queue
/// has to hold rate x delay as well.
///
/// Thread: none; the owner serialises. Sans-IO: time is an argument; one seed gives one behaviour.
/// Cost: O(log n) per packet and one copy of it; allocates in create() only.
class PathShaper {
 public:
  /// Errors: kInvalidArgument for two entries of one port, probabilities above a million,
  /// negative times, or queue_packets of 0.
  static Result<std::unique_ptr<PathShaper>> create(std::span<const PathImpairment> impairments,
                                                    std::uint64_t seed) noexcept;

  /// True when packets of this port go through the shaper.
  [[nodiscard]] bool applies_to(std::uint16_t source_port) const noexcept {
    return path_of_port_[source_port] != kNoPath;
  }

  /// Takes a copy of a packet whose port applies_to(). `iovs` is what the packet indexes.
  void admit(const roce::TxPacket& packet, std::span<const iovec> iovs, TimePoint now) noexcept;

  /// Appends the packets that are due to `out` until it is full. They stay valid until the next
  /// call of release() or admit().
  void release(roce::TxBatch& out, TimePoint now) noexcept;

  /// When release() has something next, or kNever.
  [[nodiscard]] TimePoint next_deadline() const noexcept {
    return heap_count_ == 0 ? kNever : heap_[0].due;
  }

  [[nodiscard]] const PathShaperCounters& counters() const noexcept { return counters_; }

 private:
  static constexpr std::size_t kSlotBytes = 4096 + roce::TxBatch::kMaxHeaderBytes + 4;
  static constexpr std::uint16_t kNoPath = 0xFFFF;

  struct Path {
    PathImpairment impairment;
    TimePoint busy_until{};  // when the last packet has left the sender
    std::uint32_t queued_packets = 0;
  };

  struct Slot {
    roce::FlowAddress flow;
    std::uint16_t path = 0;
    std::uint16_t bytes = 0;
    std::uint32_t next_free = 0;
  };

  struct HeapEntry {
    TimePoint due;
    std::uint64_t order;
    std::uint32_t slot;
    [[nodiscard]] bool before(const HeapEntry& other) const noexcept {
      return due != other.due ? due < other.due : order < other.order;
    }
  };

  PathShaper(std::span<const PathImpairment> impairments, std::uint64_t seed,
             std::size_t slot_count);

  [[nodiscard]] static TimePoint serialise(Path& path, std::size_t bytes, TimePoint now) noexcept;
  void enqueue(const roce::TxPacket& packet, std::span<const iovec> iovs, std::uint16_t path,
               TimePoint due) noexcept;
  void push(HeapEntry entry) noexcept;
  void pop() noexcept;
  void reclaim() noexcept;
  [[nodiscard]] std::uint8_t* data_of(std::uint32_t slot) noexcept {
    return data_.get() + slot * kSlotBytes;
  }

  Random random_;
  std::vector<Path> paths_;
  std::unique_ptr<std::uint16_t[]> path_of_port_;
  std::unique_ptr<Slot[]> slots_;
  std::unique_ptr<std::uint8_t[]> data_;  // touched as slots come into use
  std::unique_ptr<HeapEntry[]> heap_;
  std::size_t heap_count_ = 0;
  std::uint64_t next_order_ = 0;
  std::uint32_t free_slot_;      // head of the list of free slots
  std::uint32_t released_slot_;  // slots of the last release(), freed by the next call
  std::uint32_t slot_count_;
  PathShaperCounters counters_;
};

}  // namespace braid::softverbs
