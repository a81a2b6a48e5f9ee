#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

#include "channel/sender.h"

namespace braid::channel {

/// What a work request of the channel is, in the top byte of its wr_id.
enum class WorkKind : std::uint8_t {
  kSegment = 1,
  kControlSend = 2,
  kKeepalive = 3,
  kReceive = 4,
  kControlReceive = 5,
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

/// One data QP with its work requests filled in beforehand: staging a segment sets only what
/// differs, and a round's segments leave in one chain with one doorbell.
///
/// Thread: none. Cost: no allocation.
class Lane {
 public:
  static constexpr std::uint32_t kChain = 16;

  /// Fixes the constant fields. The QP is borrowed.
  void bind(ibv_qp* qp, std::uint32_t lane) noexcept;
  [[nodiscard]] ibv_qp* qp() const noexcept { return qp_; }

  /// Adds a segment to the chain. Only when not chain_full().
  void stage(const SegmentPost& post) noexcept;
  [[nodiscard]] bool chain_full() const noexcept { return staged_ == kChain; }
  [[nodiscard]] bool staged_any() const noexcept { return staged_ != 0; }

  /// Posts the chain. 0 when all of it was posted; ENOMEM when the queue was full, then the rest
  /// stays staged for the next call; any other errno is final.
  [[nodiscard]] int post() noexcept;

  /// Forgets the chain, calling `forget(sequence)` for each segment that was never posted.
  template <typename Forget>
  void drop_staged(Forget forget) noexcept {
    for (std::uint32_t i = 0; i < staged_; ++i) forget(Sequence(number_of(send_[i].wr_id)));
    staged_ = 0;
  }

  /// Posts `count` receives, each for one announcement. 0 or an errno.
  [[nodiscard]] int post_receives(std::uint32_t count) noexcept;

 private:
  ibv_qp* qp_ = nullptr;
  std::uint32_t lane_ = 0;
  std::uint32_t staged_ = 0;
  std::array<ibv_send_wr, kChain> send_{};
  std::array<ibv_sge, kChain> sge_{};
  std::array<ibv_recv_wr, kChain> receive_{};
};

}  // namespace braid::channel
