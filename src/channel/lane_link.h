#pragma once

#include <braid/time.h>

#include <cstdint>

#include "base/random.h"
#include "bootstrap/messages.h"

namespace braid::channel {

/// Life of one queue pair of a channel and of those that replace it, without I/O: who has to do
/// what next, on this side, so that both sides agree on which one is used.
///
/// Both sides of a queue pair have the same generation g. Either side may find it failed. Each
/// then drains its own (error state, every completion taken), destroys it, makes the next one and
/// says so: *down* of g. Only then can no byte of g land anywhere any more. When a side has said
/// *down* and heard it, it is at g + 1: it connects, says *ready*, hears *ready*, probes, and
/// admits the lane. A failure in any of these is a failure of g + 1 and goes the same way, after a
/// pause that grows. There is no attempt that is the last.
/// Contract: messages between the sides keep their order and none is lost or doubled. handle_*
/// return false for what a peer that keeps the protocol does not say; nothing changed then.
class LaneLink {
 public:
  enum class Phase : std::uint8_t {
    kUp,         // in use
    kDraining,   // ours is in error; its completions are being taken
    kWaiting,    // ours is replaced and the peer told; the peer's is not
    kPausing,    // both are replaced; the pause before connecting
    kConnected,  // ours is connected; the peer's is not
    kProbing,    // both are connected; whether the path works is being tried
  };

  /// Ours failed, or the peer says that its failed. True when a queue pair was in use and has to be
  /// drained now.
  bool handle_failed(TimePoint now) noexcept;
  /// Ours is drained and destroyed and the next one made: the peer can be told.
  void on_replaced(TimePoint now, Random& random) noexcept;
  /// The pause is over and the next one is connected: the peer can be told.
  void on_connected() noexcept;
  /// The probe came back: the lane may be used.
  void on_probed(TimePoint now) noexcept;

  /// The peer's queue pair of this generation takes and gives nothing any more; `next` is its
  /// successor. handle_failed() is part of it: look at phase() afterwards.
  [[nodiscard]] bool handle_peer_down(std::uint32_t generation, const bootstrap::QpAddress& next,
                                      TimePoint now, Random& random) noexcept;
  [[nodiscard]] bool handle_peer_ready(std::uint32_t generation) noexcept;

  [[nodiscard]] Phase phase() const noexcept { return phase_; }
  [[nodiscard]] bool up() const noexcept { return phase_ == Phase::kUp; }
  [[nodiscard]] std::uint32_t generation() const noexcept { return generation_; }
  [[nodiscard]] const bootstrap::QpAddress& peer_next() const noexcept { return peer_next_; }
  /// True when this side's queue pair may take receives.
  [[nodiscard]] bool receives() const noexcept {
    return phase_ != Phase::kDraining && phase_ != Phase::kWaiting;
  }
  /// When the pause ends.
  [[nodiscard]] TimePoint resume_at() const noexcept { return resume_at_; }
  /// When the present outage began.
  [[nodiscard]] TimePoint down_since() const noexcept { return down_since_; }
  [[nodiscard]] std::uint32_t attempts() const noexcept { return attempts_; }
  /// True while the peer's receives on the queue pair of this generation count.
  [[nodiscard]] bool peer_posts() const noexcept { return peer_ready_; }

 private:
  void begin_next(TimePoint now, Random& random) noexcept;

  Phase phase_ = Phase::kUp;
  bool peer_down_ = false;  // the peer said that its one of this generation is replaced
  bool peer_ready_ = true;  // the peer's of this generation is connected
  std::uint32_t generation_ = 0;
  std::uint32_t attempts_ = 0;  // failures since the lane last stayed up
  bootstrap::QpAddress peer_next_;
  TimePoint down_since_{};
  TimePoint up_since_{};
  TimePoint resume_at_{};
};

}  // namespace braid::channel
