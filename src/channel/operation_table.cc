#include "channel/operation_table.h"

#include <cassert>

namespace braid::channel {

OperationTable::OperationTable(std::uint32_t capacity)
    : capacity_(capacity),
      operations_(std::make_unique<Operation[]>(capacity)),
      free_(capacity),
      completed_(capacity) {
  for (std::uint32_t i = 0; i < capacity; ++i) {
    [[maybe_unused]] const bool pushed = free_.push(i);
    assert(pushed);
  }
}

std::uint32_t OperationTable::accept() noexcept {
  if (free_.empty()) return kNone;
  const std::uint32_t index = free_.front();
  free_.pop();
  Operation& operation = operations_[index];
  // The generation starts at 1 and survives the slot, so a ticket is never 0 and never stale.
  const std::uint32_t generation = operation.generation + 1;
  operation = Operation{};
  operation.generation = generation == 0 ? 1 : generation;
  operation.active = true;
  ++active_count_;
  return index;
}

void OperationTable::complete(std::uint32_t index) noexcept {
  Operation& operation = operations_[index];
  assert(operation.active);
  if (!operation.active) return;
  operation.active = false;
  --active_count_;
  // There is room: the ring holds as many indices as there are slots, each at most once.
  [[maybe_unused]] const bool pushed = completed_.push(index);
  assert(pushed);
}

bool OperationTable::poll(Completion& completion) noexcept {
  if (completed_.empty()) return false;
  const std::uint32_t index = completed_.front();
  completed_.pop();
  const Operation& operation = operations_[index];
  completion = {ticket_of(index), operation.status, operation.user_data, operation.total_bytes};
  [[maybe_unused]] const bool pushed = free_.push(index);
  assert(pushed);
  return true;
}

}  // namespace braid::channel
