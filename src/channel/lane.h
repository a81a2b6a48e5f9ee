#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

#include "channel/control_message.h"
#include "channel/fetcher.h"
#include "channel/send_chain.h"
#include "channel/sender.h"

namespace braid::channel {

/// What a work request of the channel is, in the top byte of its wr_id. Lane kControlLane stands
/// for the control QP.
enum class WorkKind : std::uint8_t {
  kSegment = 1,
  kControlSend = 2,
  kKeepalive = 3,
  kReceive = 4,
  kControlReceive = 5,
  kFetch = 6,
  kProbe = 7,
};

/// `tag` tells the queue pairs that a lane had one after another apart.
[[nodiscard]] constexpr std::uint64_t make_wr_id(WorkKind kind, std::uint8_t tag,
                                                 std::uint32_t lane,
                                                 std::uint32_t number) noexcept {
  return (static_cast<std::uint64_t>(kind) << 56U) | (static_cast<std::uint64_t>(tag) << 40U) |
         (static_cast<std::uint64_t>(lane) << 32U) | number;
}
[[nodiscard]] constexpr std::uint8_t tag_of(std::uint64_t wr_id) noexcept {
  return static_cast<std::uint8_t>(wr_id >> 40U);
}
[[nodiscard]] constexpr WorkKind kind_of(std::uint64_t wr_id) noexcept {
  return static_cast<WorkKind>(wr_id >> 56U);
}
[[nodiscard]] constexpr std::uint32_t lane_of(std::uint64_t wr_id) noexcept {
  return static_cast<std::uint32_t>(wr_id >> 32U) & 0xFFU;
}
[[nodiscard]] constexpr std::uint32_t number_of(std::uint64_t wr_id) noexcept {
  return static_cast<std::uint32_t>(wr_id);
}

/// One data QP with its work requests filled in beforehand: staging sets only what differs, and a
/// round's segments, or fetches, leave in one chain with one doorbell.
///
/// Thread: none. Cost: no allocation.
class Lane {
 public:
  /// Fixes the constant fields. The QP is borrowed, null = none for now. `tag` is what the work
  /// requests of this QP bear.
  void bind(ibv_qp* qp, std::uint32_t lane, std::uint8_t tag) noexcept;
  [[nodiscard]] ibv_qp* qp() const noexcept { return qp_; }
  [[nodiscard]] std::uint8_t tag() const noexcept { return tag_; }

  /// Adds a segment to its chain. Only when not segments_full().
  void stage(const SegmentPost& post) noexcept;
  /// Adds a part of a get, or an atomic, to its chain. Only when not fetches_full().
  void stage(const FetchPost& post) noexcept;
  [[nodiscard]] bool segments_full() const noexcept { return segments_.full(); }
  [[nodiscard]] bool fetches_full() const noexcept { return fetches_.full(); }
  [[nodiscard]] bool segments_staged() const noexcept { return segments_.any(); }
  [[nodiscard]] bool fetches_staged() const noexcept { return fetches_.any(); }

  /// Posts a chain: results as of SendChain::post().
  [[nodiscard]] int post_segments() noexcept { return post_chain(segments_); }
  [[nodiscard]] int post_fetches() noexcept { return post_chain(fetches_); }
  /// Posts one request that is not in a chain. 0 or an errno.
  [[nodiscard]] int post_one(ibv_send_wr& wr) noexcept;
  /// A write of nothing: the peer's device acknowledges it without a receive, a key or a program.
  [[nodiscard]] int post_empty_write(WorkKind kind) noexcept;

  /// Forgets what is staged, calling `forget(wr_id)` for each request that was never posted.
  template <typename Forget>
  void drop_staged(Forget forget) noexcept {
    segments_.drop(forget);
    fetches_.drop(forget);
  }

  /// Posts `count` receives, each for one announcement. 0 or an errno.
  [[nodiscard]] int post_receives(std::uint32_t count) noexcept;
  /// Posts one receive with a buffer. 0 or an errno.
  [[nodiscard]] int post_receive(ibv_recv_wr& wr) noexcept;

  // Work that the device has: every request is counted, whatever becomes of it.
  void on_send_taken() noexcept { --sends_; }
  void on_receive_taken() noexcept { --receives_; }
  [[nodiscard]] std::uint32_t sends() const noexcept { return sends_; }
  /// True when the device has nothing of this lane any more.
  [[nodiscard]] bool idle() const noexcept { return sends_ == 0 && receives_ == 0; }

 private:
  [[nodiscard]] int post_chain(SendChain& chain) noexcept {
    const std::uint32_t staged = chain.size();
    const int error = chain.post(qp_);
    sends_ += staged - chain.size();
    return error;
  }

  static constexpr std::uint32_t kReceiveChain = 16;

  ibv_qp* qp_ = nullptr;
  std::uint32_t lane_ = 0;
  std::uint32_t sends_ = 0;
  std::uint32_t receives_ = 0;
  std::uint8_t tag_ = 0;
  SendChain segments_;
  SendChain fetches_;
  std::array<ibv_recv_wr, kReceiveChain> receive_{};
};

}  // namespace braid::channel
