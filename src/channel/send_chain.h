#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>

namespace braid::channel {

/// Work requests of one kind, filled in beforehand and posted with one doorbell.
///
/// Whoever stages sets what differs from request to request in the one that stage() returns.
/// Thread: none. Cost: no allocation.
class SendChain {
 public:
  static constexpr std::uint32_t kLength = 16;

  /// Fixes the constant fields of every request.
  void prepare(ibv_wr_opcode opcode) noexcept;

  /// The next request, whose range is set. Only when not full().
  [[nodiscard]] ibv_send_wr& stage(std::uint64_t local_address, std::uint32_t bytes,
                                   std::uint32_t lkey) noexcept;
  [[nodiscard]] bool full() const noexcept { return staged_ == kLength; }
  [[nodiscard]] bool any() const noexcept { return staged_ != 0; }
  [[nodiscard]] std::uint32_t size() const noexcept { return staged_; }

  /// Posts the chain. 0 when all of it was posted; ENOMEM when the queue was full, then the rest
  /// stays staged for the next call; any other errno is final. EPROTO: the device failed and did
  /// not say where, so nobody knows what was posted.
  [[nodiscard]] int post(ibv_qp* qp) noexcept;

  /// Forgets the chain, calling `forget(wr_id)` for each request that was never posted.
  template <typename Forget>
  void drop(Forget forget) noexcept {
    for (std::uint32_t i = 0; i < staged_; ++i) forget(requests_[i].wr_id);
    staged_ = 0;
  }

 private:
  std::uint32_t staged_ = 0;
  std::array<ibv_send_wr, kLength> requests_{};
  std::array<ibv_sge, kLength> sges_{};
};

}  // namespace braid::channel
