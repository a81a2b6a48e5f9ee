#include "channel/sender.h"

#include <bit>
#include <cassert>

namespace braid::channel {

Sender::Sender(const Config& config)
    : config_(config),
      window_mask_(config.window - 1),
      scheduler_(config.lanes, config.lane_depth),
      operations_(config.operation_capacity),
      queue_(config.operation_capacity),
      records_(std::make_unique<Record[]>(config.window)) {
  assert(std::has_single_bit(config.window) && config.window <= kMaxWindow);
  assert(config.lanes >= 1 && config.lanes <= kMaxLanes);
}

std::uint32_t Sender::accept(const Operation& operation) noexcept {
  const std::uint32_t index = operations_.accept(operation);
  if (index == OperationTable::kNone) return index;
  [[maybe_unused]] const bool pushed = queue_.push(index);
  assert(pushed);
  return index;
}

bool Sender::next(SegmentPost& post, TimePoint now) noexcept {
  if (queue_.empty() || !failure_.ok()) {
    blocked_ = Blocked::kIdle;
    return false;
  }
  if (next_ - lowest_ > window_mask_ || next_ - delivered_ > window_mask_) {
    blocked_ = Blocked::kWindow;
    return false;
  }
  const std::uint32_t index = queue_.front();
  Operation& operation = operations_.at(index);
  if (!operations_.may_begin(operation)) {
    blocked_ = Blocked::kFence;
    return false;
  }
  const std::uint32_t lane = scheduler_.pick();
  if (lane == Scheduler::kNone) {
    blocked_ = Blocked::kLanes;
    return false;
  }
  blocked_ = Blocked::kNothing;
  const Segment segment =
      plan_segment(operation.total_bytes, operation.next_offset, config_.segment_bytes);
  post.lane = lane;
  post.bytes = segment.bytes;
  post.local_address = operation.local_address + segment.offset;
  post.remote_address = operation.remote_address + segment.offset;
  post.lkey = operation.lkey;
  post.rkey = operation.rkey;
  post.imm = {config_.first_sequence + static_cast<std::uint32_t>(next_ & Sequence::kMask),
              segment.last ? operation.notify : std::uint8_t{0}, segment.last};

  record_of(next_) = {now, index, segment.bytes, lane, true};
  ++next_;
  ++inflight_;
  ++operation.inflight_segments;
  operation.next_offset += segment.bytes;
  if (segment.last) {
    operation.planned = true;
    queue_.pop();
  }
  scheduler_.on_given(lane);
  ++counts_[lane].posted_segments;
  return true;
}

bool Sender::handle_completion(Sequence sequence, std::uint32_t lane, Status status,
                               TimePoint now) noexcept {
  // The window is far below 2^23, so the distance from the lowest names one count without doubt.
  const Sequence lowest =
      config_.first_sequence + static_cast<std::uint32_t>(lowest_ & Sequence::kMask);
  const std::int32_t distance = sequence - lowest;
  if (distance < 0) return false;
  const std::uint64_t number = lowest_ + static_cast<std::uint32_t>(distance);
  if (number >= next_) return false;
  Record& record = record_of(number);
  if (!record.under_way || record.lane != lane) return false;

  record.under_way = false;
  --inflight_;
  scheduler_.on_completed(lane);
  LaneSendCounts& counts = counts_[lane];
  Operation& operation = operations_.at(record.operation);
  --operation.inflight_segments;
  if (status.ok()) {
    ++counts.completed_segments;
    counts.completed_bytes += record.bytes;
    counts.completion_time_sum += now - record.posted_at;
  } else {
    ++counts.errors;
    if (operation.status.ok()) operation.status = status;
  }
  while (lowest_ != next_ && !record_of(lowest_).under_way) ++lowest_;
  finish_if_done(record.operation);
  return true;
}

void Sender::finish_if_done(std::uint32_t index) noexcept {
  Operation& operation = operations_.at(index);
  if (!operation.active || operation.inflight_segments != 0) return;
  if (operation.planned) {
    operations_.complete(index);
  } else if (!failure_.ok()) {
    if (operation.status.ok()) operation.status = failure_;
    operations_.complete(index);
  }
}

bool Sender::handle_delivered(std::uint64_t total) noexcept {
  if (total < delivered_ || total > next_) return false;
  delivered_ = total;
  return true;
}

bool Sender::handle_granted(std::uint32_t lane, std::uint32_t receives) noexcept {
  return scheduler_.on_granted(lane, receives, config_.peer_receive_depth);
}

void Sender::fail(Status status) noexcept {
  if (!failure_.ok()) return;
  failure_ = status;
  for (std::uint32_t i = 0; i < operations_.capacity(); ++i) {
    if (!is_fetch(operations_.at(i).kind)) finish_if_done(i);
  }
  queue_.clear();
}

void Sender::abandon() noexcept {
  assert(!failure_.ok());
  for (std::uint32_t i = 0; i < operations_.capacity(); ++i) {
    Operation& operation = operations_.at(i);
    if (!operation.active || is_fetch(operation.kind)) continue;
    if (operation.status.ok()) operation.status = failure_;
    operations_.complete(i);
  }
}

TimePoint Sender::oldest_post_time() const noexcept {
  if (lowest_ == next_) return kNever;
  // lowest_ is always under way when anything is: handle_completion() moves it past the rest.
  return records_[lowest_ & window_mask_].posted_at;
}

}  // namespace braid::channel
