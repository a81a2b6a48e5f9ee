#include "softverbs/path_shaper.h"

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>

namespace braid::softverbs {
namespace {

constexpr std::uint32_t kMillion = 1'000'000;
constexpr std::size_t kPortCount = 65536;

bool is_valid(const PathImpairment& impairment) noexcept {
  return impairment.loss_ppm <= kMillion && impairment.duplicate_ppm <= kMillion &&
         impairment.reorder_ppm <= kMillion && impairment.corrupt_ppm <= kMillion &&
         impairment.delay >= Duration::zero() && impairment.reorder_delay >= Duration::zero() &&
         impairment.queue_packets > 0;
}

}  // namespace

PathShaper::PathShaper(std::span<const PathImpairment> impairments, std::uint64_t seed,
                       std::size_t slot_count)
    : random_(seed),
      path_of_port_(std::make_unique<std::uint16_t[]>(kPortCount)),
      slots_(std::make_unique<Slot[]>(slot_count)),
      data_(std::make_unique_for_overwrite<std::uint8_t[]>(slot_count * kSlotBytes)),
      heap_(std::make_unique<HeapEntry[]>(slot_count)),
      free_slot_(0),
      released_slot_(static_cast<std::uint32_t>(slot_count)),
      slot_count_(static_cast<std::uint32_t>(slot_count)) {
  for (std::uint32_t i = 0; i < slot_count_; ++i) slots_[i].next_free = i + 1;
  std::uint16_t others = kNoPath;
  for (std::size_t i = 0; i < impairments.size(); ++i) {
    if (impairments[i].source_port == 0) others = static_cast<std::uint16_t>(i);
    paths_.push_back(Path{impairments[i], TimePoint{}, 0});
  }
  std::fill_n(path_of_port_.get(), kPortCount, others);
  for (std::size_t i = 0; i < impairments.size(); ++i) {
    const std::uint16_t port = impairments[i].source_port;
    if (port != 0) path_of_port_[port] = static_cast<std::uint16_t>(i);
  }
}

Result<std::unique_ptr<PathShaper>> PathShaper::create(std::span<const PathImpairment> impairments,
                                                       std::uint64_t seed) noexcept {
  std::size_t slot_count = 0;
  std::vector<bool> seen(kPortCount);
  for (const PathImpairment& impairment : impairments) {
    if (!is_valid(impairment) || seen[impairment.source_port]) {
      return Status(StatusCode::kInvalidArgument);
    }
    seen[impairment.source_port] = true;
    slot_count += impairment.queue_packets;
  }
  if (impairments.size() >= kNoPath || slot_count >= UINT32_MAX) {
    return Status(StatusCode::kInvalidArgument);
  }
  return std::unique_ptr<PathShaper>(new PathShaper(impairments, seed, slot_count));
}

TimePoint PathShaper::serialise(Path& path, std::size_t bytes, TimePoint now) noexcept {
  const TimePoint start = std::max(now, path.busy_until);
  if (path.impairment.rate_bits_per_s == 0) return start;
  // At most 4164 bytes, so that the product stays far below 2^64.
  const std::uint64_t span_ns =
      bytes * 8 * std::uint64_t{1'000'000'000} / path.impairment.rate_bits_per_s;
  path.busy_until = start + Duration(static_cast<Duration::rep>(span_ns));
  return path.busy_until;
}

void PathShaper::admit(const roce::TxPacket& packet, std::span<const iovec> iovs,
                       TimePoint now) noexcept {
  reclaim();
  const std::uint16_t index = path_of_port_[packet.flow->source_port];
  assert(index != kNoPath);
  Path& path = paths_[index];
  const PathImpairment& impairment = path.impairment;
  ++counters_.packets;
  if (path.queued_packets >= impairment.queue_packets) {
    ++counters_.overflowed;
    return;
  }
  // A lost packet has used the link all the same.
  TimePoint due = serialise(path, packet.bytes, now) + impairment.delay;
  if (random_.chance_ppm(impairment.loss_ppm)) {
    ++counters_.lost;
    return;
  }
  if (random_.chance_ppm(impairment.reorder_ppm)) {
    ++counters_.reordered;
    due += impairment.reorder_delay;
  }
  enqueue(packet, iovs, index, due);
  if (random_.chance_ppm(impairment.duplicate_ppm)) {
    if (path.queued_packets >= impairment.queue_packets) {
      ++counters_.overflowed;
      return;
    }
    ++counters_.duplicated;
    enqueue(packet, iovs, index, due);
  }
}

void PathShaper::enqueue(const roce::TxPacket& packet, std::span<const iovec> iovs,
                         std::uint16_t path, TimePoint due) noexcept {
  assert(packet.bytes <= kSlotBytes);
  const std::uint32_t index = free_slot_;
  assert(index < slot_count_);  // the paths' limits add up to the number of slots
  Slot& slot = slots_[index];
  free_slot_ = slot.next_free;
  slot.flow = *packet.flow;
  slot.path = path;
  slot.bytes = packet.bytes;
  std::uint8_t* out = data_of(index);
  for (const iovec& piece : iovs.subspan(packet.first_iov, packet.iov_count)) {
    if (piece.iov_len != 0) std::memcpy(out, piece.iov_base, piece.iov_len);
    out += piece.iov_len;
  }
  if (packet.bytes > 0 && random_.chance_ppm(paths_[path].impairment.corrupt_ppm)) {
    ++counters_.corrupted;
    const std::uint64_t bit = random_.below(std::uint64_t{packet.bytes} * 8);
    data_of(index)[bit / 8] ^= static_cast<std::uint8_t>(1U << (bit % 8));
  }
  ++paths_[path].queued_packets;
  push(HeapEntry{due, next_order_++, index});
}

void PathShaper::release(roce::TxBatch& out, TimePoint now) noexcept {
  reclaim();
  while (heap_count_ != 0 && heap_[0].due <= now && !out.full()) {
    const std::uint32_t index = heap_[0].slot;
    pop();
    Slot& slot = slots_[index];
    (void)out.begin_packet(&slot.flow);  // headers are in the slot already
    out.add_piece(data_of(index), slot.bytes);
    out.end_packet(data_of(index) + slot.bytes - 4);
    slot.next_free = released_slot_;
    released_slot_ = index;
  }
}

void PathShaper::reclaim() noexcept {
  while (released_slot_ != slot_count_) {
    Slot& slot = slots_[released_slot_];
    const std::uint32_t index = std::exchange(released_slot_, slot.next_free);
    slot.next_free = std::exchange(free_slot_, index);
    --paths_[slot.path].queued_packets;
  }
}

void PathShaper::push(HeapEntry entry) noexcept {
  std::size_t at = heap_count_++;
  while (at != 0) {
    const std::size_t parent = (at - 1) / 2;
    if (!entry.before(heap_[parent])) break;
    heap_[at] = heap_[parent];
    at = parent;
  }
  heap_[at] = entry;
}

void PathShaper::pop() noexcept {
  const HeapEntry last = heap_[--heap_count_];
  std::size_t at = 0;
  for (;;) {
    std::size_t child = 2 * at + 1;
    if (child >= heap_count_) break;
    if (child + 1 < heap_count_ && heap_[child + 1].before(heap_[child])) ++child;
    if (!heap_[child].before(last)) break;
    heap_[at] = heap_[child];
    at = child;
  }
  heap_[at] = last;
}

}  // namespace braid::softverbs
