#include "channel/fetcher.h"

#include <algorithm>
#include <bit>
#include <cassert>

#include "channel/planner.h"

namespace braid::channel {
namespace {

// Parts beyond the oldest one under way, in units of what all lanes hold: how far quick lanes run
// ahead of a slow one.
constexpr std::uint32_t kWindowRounds = 4;

}  // namespace

Fetcher::Fetcher(const Config& config, OperationTable& operations)
    : config_(config),
      operations_(operations),
      queue_(operations.capacity()),
      window_mask_(std::bit_ceil(config.lanes * config.read_depth * kWindowRounds) - 1),
      replays_(window_mask_ + 1),
      records_(std::make_unique<Record[]>(window_mask_ + 1)) {
  assert(config.lanes >= 1 && config.lanes <= kMaxLanes && config.read_depth >= 1);
  for (std::uint32_t lane = 0; lane < config.lanes; ++lane) {
    room_[lane / 64] |= std::uint64_t{1} << (lane % 64);
  }
}

std::uint32_t Fetcher::accept(const Operation& operation) noexcept {
  assert(is_fetch(operation.kind));
  const std::uint32_t index = operations_.accept(operation);
  if (index == OperationTable::kNone) return index;
  [[maybe_unused]] const bool pushed = queue_.push(index);
  assert(pushed);
  return index;
}

void Fetcher::limit_read_depth(std::uint32_t depth) noexcept {
  assert(next_ == 0 && depth >= 1);
  config_.read_depth = std::min(config_.read_depth, depth);
}

std::uint32_t Fetcher::pick() const noexcept {
  const std::uint32_t word = next_lane_ / 64;
  const std::uint64_t rest = room_[word] & (~std::uint64_t{0} << (next_lane_ % 64));
  if (rest != 0) return word * 64 + static_cast<std::uint32_t>(std::countr_zero(rest));
  for (std::uint32_t i = 1; i <= room_.size(); ++i) {
    const std::uint32_t other = (word + i) % static_cast<std::uint32_t>(room_.size());
    if (room_[other] == 0) continue;
    return other * 64 + static_cast<std::uint32_t>(std::countr_zero(room_[other]));
  }
  return kNoLane;
}

void Fetcher::give(std::uint32_t lane, TimePoint now) noexcept {
  if (under_way_[lane] == 0) counts_[lane].progress_at = now;
  if (++under_way_[lane] == config_.read_depth) {
    room_[lane / 64] &= ~(std::uint64_t{1} << (lane % 64));
  }
  next_lane_ = lane + 1 == config_.lanes ? 0 : lane + 1;
}

void Fetcher::release(std::uint32_t lane) noexcept {
  --under_way_[lane];
  if (!suspended_[lane]) room_[lane / 64] |= std::uint64_t{1} << (lane % 64);
}

void Fetcher::fill(FetchPost& post, std::uint32_t number) noexcept {
  const Record& record = records_[number & window_mask_];
  const Operation& operation = operations_.at(record.operation);
  post = {record.lane,
          record.bytes,
          number,
          operation.kind,
          operation.local_address + record.offset,
          operation.remote_address + record.offset,
          operation.operand,
          operation.compare,
          operation.lkey,
          operation.rkey};
}

bool Fetcher::next(FetchPost& post, TimePoint now) noexcept {
  while (failure_.ok() && !(queue_.empty() && replays_.empty())) {
    const std::uint32_t lane = pick();
    if (!replays_.empty()) {
      if (lane == kNoLane) return false;
      const std::uint32_t number = replays_.front();
      replays_.pop();
      Record& record = records_[number & window_mask_];
      record.lane = lane;
      record.posted_at = now;
      fill(post, number);
      give(lane, now);
      return true;
    }
    const std::uint32_t index = queue_.front();
    Operation& operation = operations_.at(index);
    if (!operations_.may_begin(operation)) return false;
    if (operation.total_bytes == 0) {
      operation.planned = true;
      queue_.pop();
      finish_if_done(index);
      continue;
    }
    if (lane == kNoLane || next_ - lowest_ > window_mask_) return false;
    const Segment part =
        plan_segment(operation.total_bytes, operation.next_offset, config_.segment_bytes);
    records_[next_ & window_mask_] = {now, part.offset, index, part.bytes, lane, true};
    fill(post, next_);
    ++next_;
    ++operation.inflight_segments;
    operation.next_offset += part.bytes;
    if (part.last) {
      operation.planned = true;
      queue_.pop();
    }
    give(lane, now);
    return true;
  }
  return false;
}

Fetcher::Record* Fetcher::find(std::uint32_t number, std::uint32_t lane) noexcept {
  if (number - lowest_ >= next_ - lowest_) return nullptr;
  Record& record = records_[number & window_mask_];
  return record.under_way && record.lane == lane ? &record : nullptr;
}

void Fetcher::end(Record& record, Status status) noexcept {
  record.under_way = false;
  ++completed_;
  Operation& operation = operations_.at(record.operation);
  --operation.inflight_segments;
  if (!status.ok() && operation.status.ok()) operation.status = status;
  while (lowest_ != next_ && !records_[lowest_ & window_mask_].under_way) ++lowest_;
  finish_if_done(record.operation);
}

bool Fetcher::handle_completion(std::uint32_t number, std::uint32_t lane, Status status,
                                TimePoint now) noexcept {
  Record* record = find(number, lane);
  if (record == nullptr) return false;
  release(lane);
  LaneFetchCounts& counts = counts_[lane];
  counts.progress_at = now;
  if (status.ok()) {
    ++counts.completed_parts;
    counts.completed_bytes += record->bytes;
  } else {
    ++counts.errors;
  }
  end(*record, status);
  return true;
}

void Fetcher::suspend(std::uint32_t lane) noexcept {
  suspended_[lane] = true;
  room_[lane / 64] &= ~(std::uint64_t{1} << (lane % 64));
}

void Fetcher::resume(std::uint32_t lane) noexcept {
  assert(under_way_[lane] == 0);
  suspended_[lane] = false;
  room_[lane / 64] |= std::uint64_t{1} << (lane % 64);
}

bool Fetcher::take_back(std::uint32_t number, std::uint32_t lane) noexcept {
  Record* record = find(number, lane);
  if (record == nullptr) return false;
  release(lane);
  // Of no lane until it is yielded again, so that nothing else can end it.
  record->lane = kNoLane;
  ++replayed_parts_;
  [[maybe_unused]] const bool pushed = replays_.push(number);
  assert(pushed);
  return true;
}

void Fetcher::fail_over(std::uint32_t lane) noexcept {
  for (std::uint32_t number = lowest_; number != next_; ++number) {
    Record& record = records_[number & window_mask_];
    if (!record.under_way || record.lane != lane) continue;
    if (operations_.at(record.operation).kind == OperationKind::kGet) {
      [[maybe_unused]] const bool taken = take_back(number, lane);
      assert(taken);
      continue;
    }
    release(lane);
    ++counts_[lane].errors;
    end(record, Status(StatusCode::kUnknownOutcome));
  }
}

void Fetcher::end_lane(std::uint32_t lane, Status status, TimePoint now) noexcept {
  for (std::uint32_t number = lowest_; number != next_; ++number) {
    if (find(number, lane) == nullptr) continue;
    [[maybe_unused]] const bool ended = handle_completion(number, lane, status, now);
    assert(ended);
  }
}

void Fetcher::finish_if_done(std::uint32_t index) noexcept {
  Operation& operation = operations_.at(index);
  if (!operation.active || operation.inflight_segments != 0) return;
  if (!operation.planned) {
    if (failure_.ok()) return;
    if (operation.status.ok()) operation.status = failure_;
  }
  operations_.complete(index);
}

void Fetcher::fail(Status status) noexcept {
  if (!failure_.ok()) return;
  failure_ = status;
  // What waits to be yielded again is with no device.
  for (; !replays_.empty(); replays_.pop()) {
    end(records_[replays_.front() & window_mask_], status);
  }
  for (std::uint32_t i = 0; i < operations_.capacity(); ++i) {
    if (is_fetch(operations_.at(i).kind)) finish_if_done(i);
  }
  queue_.clear();
}

void Fetcher::abandon() noexcept {
  assert(!failure_.ok());
  for (std::uint32_t i = 0; i < operations_.capacity(); ++i) {
    Operation& operation = operations_.at(i);
    if (!operation.active || !is_fetch(operation.kind)) continue;
    if (operation.status.ok()) operation.status = failure_;
    operations_.complete(i);
  }
}

TimePoint Fetcher::oldest_post_time() const noexcept {
  if (lowest_ == next_) return kNever;
  return records_[lowest_ & window_mask_].posted_at;
}

}  // namespace braid::channel
