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

void Fetcher::give(std::uint32_t lane) noexcept {
  if (++under_way_[lane] == config_.read_depth) {
    room_[lane / 64] &= ~(std::uint64_t{1} << (lane % 64));
  }
  next_lane_ = lane + 1 == config_.lanes ? 0 : lane + 1;
}

bool Fetcher::next(FetchPost& post, TimePoint now) noexcept {
  for (;;) {
    if (queue_.empty() || !failure_.ok()) return false;
    const std::uint32_t index = queue_.front();
    Operation& operation = operations_.at(index);
    if (!operations_.may_begin(operation)) return false;
    if (operation.total_bytes == 0) {
      operation.planned = true;
      queue_.pop();
      finish_if_done(index);
      continue;
    }
    const std::uint32_t lane = pick();
    if (lane == kNoLane || next_ - lowest_ > window_mask_) return false;
    const Segment part =
        plan_segment(operation.total_bytes, operation.next_offset, config_.segment_bytes);
    post = {lane,
            part.bytes,
            next_,
            operation.kind,
            operation.local_address + part.offset,
            operation.remote_address + part.offset,
            operation.operand,
            operation.compare,
            operation.lkey,
            operation.rkey};
    records_[next_ & window_mask_] = {now, index, part.bytes, lane, true};
    ++next_;
    ++operation.inflight_segments;
    operation.next_offset += part.bytes;
    if (part.last) {
      operation.planned = true;
      queue_.pop();
    }
    give(lane);
    return true;
  }
}

bool Fetcher::handle_completion(std::uint32_t number, std::uint32_t lane, Status status) noexcept {
  if (number - lowest_ >= next_ - lowest_) return false;
  Record& record = records_[number & window_mask_];
  if (!record.under_way || record.lane != lane) return false;
  record.under_way = false;
  ++completed_;
  --under_way_[lane];
  room_[lane / 64] |= std::uint64_t{1} << (lane % 64);
  LaneFetchCounts& counts = counts_[lane];
  Operation& operation = operations_.at(record.operation);
  --operation.inflight_segments;
  if (status.ok()) {
    ++counts.completed_parts;
    counts.completed_bytes += record.bytes;
  } else {
    ++counts.errors;
    if (operation.status.ok()) operation.status = status;
  }
  while (lowest_ != next_ && !records_[lowest_ & window_mask_].under_way) ++lowest_;
  finish_if_done(record.operation);
  return true;
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
