#include "channel/operation_table.h"

#include <bit>
#include <cassert>

namespace braid::channel {

OperationTable::OperationTable(std::uint32_t capacity)
    : capacity_(capacity),
      operations_(std::make_unique<Operation[]>(capacity)),
      free_(capacity),
      links_(std::make_unique<Link[]>(capacity)),
      fence_mask_(std::bit_ceil(capacity + 1) - 1),
      fetches_(std::make_unique<std::uint32_t[]>(fence_mask_ + 1)) {
  for (std::uint32_t i = 0; i < capacity; ++i) {
    [[maybe_unused]] const bool pushed = free_.push(i);
    assert(pushed);
  }
}

std::uint32_t OperationTable::accept(const Operation& operation) noexcept {
  if (free_.empty()) return kNone;
  const std::uint32_t index = free_.front();
  free_.pop();
  Operation& slot = operations_[index];
  // The generation starts at 1 and survives the slot, so a ticket is never 0 and never stale.
  const std::uint32_t generation = slot.generation + 1;
  slot = operation;
  slot.generation = generation == 0 ? 1 : generation;
  slot.active = true;
  slot.fences = fences_;
  if (is_fetch(slot.kind)) ++fetches_after(fences_);
  ++active_count_;
  return index;
}

void OperationTable::fence() noexcept {
  // With no fetch since the last fence there is nothing new to wait for.
  if (fetches_after(fences_) == 0) return;
  ++fences_;
}

void OperationTable::complete(std::uint32_t index) noexcept {
  Operation& operation = operations_[index];
  assert(operation.active);
  if (!operation.active) return;
  operation.active = false;
  operation.completed = true;
  --active_count_;
  if (is_fetch(operation.kind)) {
    --fetches_after(operation.fences);
    while (passed_fences_ != fences_ && fetches_after(passed_fences_) == 0) ++passed_fences_;
  }
  links_[index] = {newest_completed_, kNone};
  if (newest_completed_ == kNone) {
    oldest_completed_ = index;
  } else {
    links_[newest_completed_].next = index;
  }
  newest_completed_ = index;
}

void OperationTable::release(std::uint32_t index, Completion& completion) noexcept {
  Operation& operation = operations_[index];
  completion = {ticket_of(index), operation.status, operation.user_data, operation.total_bytes};
  operation.completed = false;
  const Link link = links_[index];
  (link.previous == kNone ? oldest_completed_ : links_[link.previous].next) = link.next;
  (link.next == kNone ? newest_completed_ : links_[link.next].previous) = link.previous;
  [[maybe_unused]] const bool pushed = free_.push(index);
  assert(pushed);
}

bool OperationTable::poll(Completion& completion) noexcept {
  if (oldest_completed_ == kNone) return false;
  release(oldest_completed_, completion);
  return true;
}

Status OperationTable::take(Ticket ticket, Completion& completion) noexcept {
  const auto index = static_cast<std::uint32_t>(ticket.value);
  if (index >= capacity_ || ticket_of(index) != ticket) return Status(StatusCode::kNotFound);
  if (operations_[index].completed) {
    release(index, completion);
    return Status();
  }
  return Status(operations_[index].active ? StatusCode::kWouldBlock : StatusCode::kNotFound);
}

}  // namespace braid::channel
