#include "channel/receiver.h"

#include <cassert>

#include "base/planted_fault.h"

namespace braid::channel {

Receiver::Receiver(const Config& config)
    : config_(config),
      sequencer_(config.window, config.first_sequence),
      notifications_(config.notification_capacity) {
  assert(config.lanes >= 1 && config.lanes <= kMaxLanes);
}

void Receiver::handle_segment(std::uint32_t lane, const Imm& imm, std::uint32_t bytes) noexcept {
  if (imm.notify > config_.notify_count) {
    ++counts_.malformed;
    return;
  }
  Imm taken = imm;
  if (planted(PlantedFault::kNotifyEarly) && imm.notify != 0 && notifications_.push(imm.notify)) {
    taken.notify = 0;
  }
  if (planted(PlantedFault::kWrongWrap))
    taken.sequence = Sequence(imm.sequence.value() & 0x7FFFFFU);
  switch (sequencer_.accept(taken)) {
    case Sequencer::Verdict::kAccepted:
      ++lane_counts_[lane].segments;
      lane_counts_[lane].bytes += bytes;
      break;
    case Sequencer::Verdict::kDuplicate: ++counts_.duplicates; break;
    case Sequencer::Verdict::kOutOfWindow: ++counts_.out_of_window; break;
    case Sequencer::Verdict::kMalformed: ++counts_.malformed; break;
  }
}

void Receiver::advance() noexcept {
  while (sequencer_.head_arrived()) {
    const std::uint8_t notify = sequencer_.head_notify();
    if (notify != 0 && !notifications_.push(notify)) return;
    sequencer_.pop();
  }
}

void Receiver::on_reposted(std::uint32_t lane, std::uint32_t count) noexcept {
  if (planted(PlantedFault::kLostCredit) && count > 0 && lane_counts_[lane].segments % 4 == 0) {
    --count;
  }
  posted_[lane] += count;
  // A quarter: the sender keeps three quarters to run on while the news travels.
  if (posted_[lane] - granted_[lane] >= (config_.receive_depth + 3) / 4) lane_grant_due_ = true;
}

bool Receiver::poll(std::uint8_t& index) noexcept {
  if (notifications_.empty()) return false;
  index = notifications_.front();
  notifications_.pop();
  return true;
}

bool Receiver::take(std::uint8_t index) noexcept {
  const std::size_t count = notifications_.size();
  std::size_t at = 0;
  while (at < count && notifications_.at(at) != index) ++at;
  if (at == count) return false;
  // What is older moves up by one, and keeps its order.
  for (; at > 0; --at) notifications_.at(at) = notifications_.at(at - 1);
  notifications_.pop();
  return true;
}

void Receiver::on_granted() noexcept {
  granted_delivered_ = sequencer_.delivered();
  granted_ = posted_;
  lane_grant_due_ = false;
}

}  // namespace braid::channel
