#include "channel/sender.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace braid::channel {

Sender::Sender(const Config& config)
    : config_(config),
      window_mask_(config.window - 1),
      scheduler_({config.lanes, config.lane_depth, config.segment_bytes, config.small_bytes}),
      operations_(config.operation_capacity),
      queue_(config.operation_capacity),
      replays_(config.window),
      records_(std::make_unique<Record[]>(config.window)) {
  assert(std::has_single_bit(config.window) && config.window <= kMaxWindow);
  assert(config.lanes >= 1 && config.lanes <= kMaxLanes);
}

std::uint32_t Sender::accept(const Operation& operation) noexcept {
  const std::uint32_t index = operations_.accept(operation);
  if (index == OperationTable::kNone) return index;
  [[maybe_unused]] const bool pushed = queue_.push(index);
  assert(pushed);
  queued_bytes_ += operation.total_bytes;
  return index;
}

bool Sender::choose_static(const Operation& operation, Choice& choice) const noexcept {
  const std::uint64_t chunk =
      std::min<std::uint64_t>(operation.total_bytes - operation.split_begin, kMaxSegmentBytes);
  const StaticSplit split =
      static_split(chunk, config_.lanes, config_.static_threshold_bytes, config_.static_floor);
  const std::uint64_t end = operation.split_begin + split.begin_of(operation.split_lane) +
                            split.bytes_of(operation.split_lane);
  const std::uint64_t rest = end - operation.next_offset;
  choice.bytes =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(rest, config_.max_message_bytes));
  // Static, but not stubborn: what a lane that is being replaced should carry goes elsewhere.
  choice.lane =
      scheduler_.suspended(operation.split_lane) ? scheduler_.pick_any() : operation.split_lane;
  return choice.lane != Scheduler::kNone && scheduler_.has_room(choice.lane);
}

bool Sender::advance_static(Operation& operation) const noexcept {
  const std::uint64_t chunk =
      std::min<std::uint64_t>(operation.total_bytes - operation.split_begin, kMaxSegmentBytes);
  const StaticSplit split =
      static_split(chunk, config_.lanes, config_.static_threshold_bytes, config_.static_floor);
  const std::uint64_t end = split.begin_of(operation.split_lane) +
                            split.bytes_of(operation.split_lane) + operation.split_begin;
  if (operation.next_offset != end || ++operation.split_lane != config_.lanes) return false;
  operation.split_lane = 0;
  operation.split_begin += chunk;
  return operation.split_begin == operation.total_bytes;
}

bool Sender::next(SegmentPost& post, TimePoint now) noexcept {
  if (!failure_.ok()) {
    blocked_ = Blocked::kIdle;
    return false;
  }
  if (!replays_.empty()) return replay(post, now);
  if (queue_.empty()) {
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
  const bool is_static = operation.policy == SchedulerPolicy::kStaticSplit;
  const Demand demand{operation.total_bytes - operation.next_offset, queued_bytes_};
  Choice choice;
  if (!(is_static ? choose_static(operation, choice)
                  : scheduler_.pick(operation.policy, demand, now, choice))) {
    blocked_ = Blocked::kLanes;
    return false;
  }
  blocked_ = Blocked::kNothing;
  Record& record = record_of(next_);
  record.offset = operation.next_offset;
  record.operation = index;
  record.bytes = choice.bytes;
  record.lane = choice.lane;
  record.under_way = true;
  queued_bytes_ -= choice.bytes;
  operation.next_offset += choice.bytes;
  ++operation.inflight_segments;
  record.last =
      is_static ? advance_static(operation) : operation.next_offset == operation.total_bytes;
  give(next_, record, now, post);
  ++next_;
  ++inflight_;
  if (record.last) {
    operation.planned = true;
    queue_.pop();
    if (queue_.empty()) scheduler_.on_drained();
  }
  return true;
}

bool Sender::replay(SegmentPost& post, TimePoint now) noexcept {
  const std::uint32_t lane = scheduler_.pick_any();
  if (lane == Scheduler::kNone) {
    blocked_ = Blocked::kLanes;
    return false;
  }
  blocked_ = Blocked::kNothing;
  const std::uint64_t number = replays_.front();
  replays_.pop();
  Record& record = record_of(number);
  record.lane = lane;
  give(number, record, now, post);
  return true;
}

bool Sender::handle_completion(Sequence sequence, std::uint32_t lane, Status status,
                               TimePoint now) noexcept {
  Record* record = find(sequence, lane);
  if (record == nullptr) return false;
  record->under_way = false;
  --inflight_;
  scheduler_.on_completed(lane, record->bytes, record->stamp, record->posted_at, status.ok(), now);
  LaneSendCounts& counts = counts_[lane];
  // Completions that are polled together are one step of progress.
  if (counts.progress_at != now) {
    counts.usual_gap = std::max(now - counts.progress_at, counts.usual_gap - counts.usual_gap / 16);
    counts.progress_at = now;
  }
  Operation& operation = operations_.at(record->operation);
  --operation.inflight_segments;
  if (status.ok()) {
    ++counts.completed_segments;
    counts.completed_bytes += record->bytes;
    counts.completion_time_sum += now - record->posted_at;
  } else {
    ++counts.errors;
    if (operation.status.ok()) operation.status = status;
  }
  while (lowest_ != next_ && !record_of(lowest_).under_way) ++lowest_;
  finish_if_done(record->operation);
  return true;
}

std::size_t Sender::under_way_on(std::uint32_t lane, std::span<Sequence> out) const noexcept {
  std::size_t count = 0;
  for (std::uint64_t number = lowest_; number != next_ && count < out.size(); ++number) {
    const Record& record = records_[number & window_mask_];
    if (record.under_way && record.lane == lane) out[count++] = sequence_of(number);
  }
  return count;
}

bool Sender::resolve(Sequence sequence, std::uint32_t lane, bool arrived, TimePoint now) noexcept {
  if (arrived) return handle_completion(sequence, lane, Status(), now);
  Record* record = find(sequence, lane);
  if (record == nullptr) return false;
  // Of no lane until it is yielded again, so that nothing else can end it.
  record->lane = kNoLane;
  scheduler_.on_completed(lane, record->bytes, record->stamp, record->posted_at, false, now);
  ++counts_[lane].replayed_segments;
  const std::int32_t distance = sequence - sequence_of(lowest_);
  [[maybe_unused]] const bool pushed =
      replays_.push(lowest_ + static_cast<std::uint32_t>(distance));
  assert(pushed);
  return true;
}

void Sender::end_lane(std::uint32_t lane, Status status, TimePoint now) noexcept {
  for (std::uint64_t number = lowest_; number != next_; ++number) {
    const Record& record = record_of(number);
    if (!record.under_way || record.lane != lane) continue;
    [[maybe_unused]] const bool ended = handle_completion(sequence_of(number), lane, status, now);
    assert(ended);
  }
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
  // What waits to be yielded again is with no device.
  for (; !replays_.empty(); replays_.pop()) {
    Record& record = record_of(replays_.front());
    record.under_way = false;
    --inflight_;
    Operation& operation = operations_.at(record.operation);
    --operation.inflight_segments;
    if (operation.status.ok()) operation.status = status;
  }
  while (lowest_ != next_ && !record_of(lowest_).under_way) ++lowest_;
  for (std::uint32_t i = 0; i < operations_.capacity(); ++i) {
    if (!is_fetch(operations_.at(i).kind)) finish_if_done(i);
  }
  queue_.clear();
  queued_bytes_ = 0;
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
