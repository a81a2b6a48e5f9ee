#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

#include "channel/fetcher.h"
#include "channel/send_chain.h"
#include "channel/sender.h"

namespace braid::channel {

/// What a work request of the channel is, in the top byte of its wr_id.
enum class WorkKind : std::uint8_t {
  kSegment = 1,
  kControlSend = 2,
  kKeepalive = 3,
  kReceive = 4,
  kControlReceive = 5,
  kFetch = 6,
};

[[nodiscard]] constexpr std::uint64_t make_wr_id(WorkKind kind, std::uint32_t lane,
                                                 std::uint32_t number) noexcept {
  return (static_cast<std::uint64_t>(kind) << 56U) | (static_cast<std::uint64_t>(lane) << 32U) |
         number;
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

/// Lane number in the wr_id of the control QP's work.
inline constexpr std::uint32_t kControlLane = 0xFF;

/// One data QP with its work requests filled in beforehand: staging sets only what differs, and a
/// round's segments, or fetches, leave in one chain with one doorbell.
///
/// Thread: none. Cost: no allocation.
class Lane {
 public:
  /// Fixes the constant fields. The QP is borrowed.
  void bind(ibv_qp* qp, std::uint32_t lane) noexcept;
  [[nodiscard]] ibv_qp* qp() const noexcept { return qp_; }

  /// Adds a segment to its chain. Only when not segments_full().
  void stage(const SegmentPost& post) noexcept;
  /// Adds a part of a get, or an atomic, to its chain. Only when not fetches_full().
  void stage(const FetchPost& post) noexcept;
  [[nodiscard]] bool segments_full() const noexcept { return segments_.full(); }
  [[nodiscard]] bool fetches_full() const noexcept { return fetches_.full(); }
  [[nodiscard]] bool segments_staged() const noexcept { return segments_.any(); }
  [[nodiscard]] bool fetches_staged() const noexcept { return fetches_.any(); }

  /// Posts a chain: results as of SendChain::post().
  [[nodiscard]] int post_segments() noexcept { return segments_.post(qp_); }
  [[nodiscard]] int post_fetches() noexcept { return fetches_.post(qp_); }

  /// Forgets what is staged, calling `forget(wr_id)` for each request that was never posted.
  template <typename Forget>
  void drop_staged(Forget forget) noexcept {
    segments_.drop(forget);
    fetches_.drop(forget);
  }

  /// Posts `count` receives, each for one announcement. 0 or an errno.
  [[nodiscard]] int post_receives(std::uint32_t count) noexcept;

 private:
  static constexpr std::uint32_t kReceiveChain = 16;

  ibv_qp* qp_ = nullptr;
  std::uint32_t lane_ = 0;
  SendChain segments_;
  SendChain fetches_;
  std::array<ibv_recv_wr, kReceiveChain> receive_{};
};

}  // namespace braid::channel
