#pragma once

#include <braid/channel.h>

#include <array>
#include <cstdint>

#include "base/ring.h"
#include "channel/imm.h"
#include "channel/sequencer.h"

namespace braid::channel {

struct ReceiverCounts {
  std::uint64_t duplicates = 0;
  std::uint64_t out_of_window = 0;
  std::uint64_t malformed = 0;
};

struct LaneReceiveCounts {
  std::uint64_t segments = 0;
  std::uint64_t bytes = 0;
};

/// Receiving half of a channel, without I/O: announcements of segments in, notifications out, and
/// what to grant the sender.
///
/// Contract: handle_segment() for each receive completion; on_reposted() once the receive of a
/// lane is posted again; grant_due() says when the sender should hear of it.
/// When the notifications are full the head waits, the window closes, and so the sender waits.
/// Cost: O(1) amortised per segment; allocates in the constructor only.
class Receiver {
 public:
  struct Config {
    std::uint32_t lanes = 1;
    std::uint32_t receive_depth = 64;
    std::uint32_t window = 1024;
    std::uint32_t notification_capacity = 256;
    std::uint8_t notify_count = kMaxNotifyIndex;  // indices beyond it are malformed
    Sequence first_sequence = Sequence(0);
  };

  explicit Receiver(const Config& config);

  void handle_segment(std::uint32_t lane, const Imm& imm, std::uint32_t bytes) noexcept;

  /// Moves the head over what has arrived, as far as the notifications have room.
  void advance() noexcept;
  /// Takes the oldest notification index; false when there is none.
  [[nodiscard]] bool poll(std::uint8_t& index) noexcept;
  /// Takes the oldest notification with this index; false when there is none. Cost: O(waiting).
  [[nodiscard]] bool take(std::uint8_t index) noexcept;

  void on_reposted(std::uint32_t lane, std::uint32_t count) noexcept;
  /// The queue pair of `lane` is new and has all its receives posted, and the peer knows.
  void reset_lane(std::uint32_t lane) noexcept {
    posted_[lane] = granted_[lane] = config_.receive_depth;
  }
  /// Whether the segment arrived, for a peer whose lane died before it heard. Meaningful only when
  /// nothing of that lane can arrive any more.
  [[nodiscard]] bool arrived(Sequence sequence) const noexcept {
    return sequencer_.arrived(sequence);
  }
  /// Receives posted on `lane` since the beginning, mod 2^32: what to grant.
  [[nodiscard]] std::uint32_t posted(std::uint32_t lane) const noexcept { return posted_[lane]; }
  [[nodiscard]] std::uint64_t delivered() const noexcept { return sequencer_.delivered(); }
  /// True when the sender could soon have to wait for lack of news.
  [[nodiscard]] bool grant_due() const noexcept {
    return lane_grant_due_ ||
           sequencer_.delivered() - granted_delivered_ >= (config_.window + 3) / 4;
  }
  /// The sender was sent posted() of all lanes and delivered().
  void on_granted() noexcept;

  [[nodiscard]] const ReceiverCounts& counts() const noexcept { return counts_; }
  [[nodiscard]] const LaneReceiveCounts& lane_counts(std::uint32_t lane) const noexcept {
    return lane_counts_[lane];
  }
  [[nodiscard]] std::uint32_t reorder_high_water() const noexcept {
    return sequencer_.high_water();
  }

 private:
  Config config_;
  Sequencer sequencer_;
  Ring<std::uint8_t> notifications_;
  ReceiverCounts counts_;
  std::uint64_t granted_delivered_ = 0;
  bool lane_grant_due_ = false;
  std::array<std::uint32_t, kMaxLanes> posted_{};
  std::array<std::uint32_t, kMaxLanes> granted_{};
  std::array<LaneReceiveCounts, kMaxLanes> lane_counts_{};
};

}  // namespace braid::channel
