#pragma once

#include <cstdint>

namespace braid::channel {

/// Keeps the control messages that a side sends within the receives that the peer has posted for
/// them, and sees to it that neither side can starve the other of permission to send.
///
/// Each message says how many of the peer's messages were received and re-posted so far. The last
/// kReserve receives are kept for messages that do nothing but say so: a side that has used up its
/// ordinary budget can then still release its peer, which releases it in turn.
/// Cost: O(1), no allocation.
class ControlBudget {
 public:
  /// Receives that each side keeps posted on its control QP.
  static constexpr std::uint32_t kReceives = 32;
  static constexpr std::uint32_t kReserve = 2;
  /// Received messages after which silence would be rude.
  static constexpr std::uint32_t kOwe = kReceives / 2;

  /// True when an ordinary message may be sent.
  [[nodiscard]] bool may_send() const noexcept { return unconfirmed() < kReceives - kReserve; }
  /// True when a message must be sent for the peer's sake alone, and may be.
  [[nodiscard]] bool must_confirm() const noexcept {
    return received_ - told_ >= kOwe && unconfirmed() < kReceives;
  }

  /// A message that carries received() was sent.
  void on_sent() noexcept {
    ++sent_;
    told_ = received_;
  }
  /// A message was received and its receive is posted again.
  void on_received() noexcept { ++received_; }
  /// A message said that the peer has received `total` of ours. False, and nothing changed, when
  /// that cannot be.
  [[nodiscard]] bool on_confirmed(std::uint32_t total) noexcept {
    if (static_cast<std::int32_t>(total - confirmed_) < 0) return false;
    if (static_cast<std::int32_t>(sent_ - total) < 0) return false;
    confirmed_ = total;
    return true;
  }

  [[nodiscard]] std::uint32_t sent() const noexcept { return sent_; }
  [[nodiscard]] std::uint32_t confirmed() const noexcept { return confirmed_; }
  [[nodiscard]] std::uint32_t received() const noexcept { return received_; }
  [[nodiscard]] std::uint32_t unconfirmed() const noexcept { return sent_ - confirmed_; }

 private:
  std::uint32_t sent_ = 0;  // all mod 2^32
  std::uint32_t confirmed_ = 0;
  std::uint32_t received_ = 0;
  std::uint32_t told_ = 0;
};

}  // namespace braid::channel
