#pragma once

#include <braid/channel.h>
#include <braid/device.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "null_verbs.h"

namespace braid::bench {

/// Segments that one phase moves: less than the window, so that neither side waits for news.
inline constexpr std::uint32_t kPhaseSegments = 512;
inline constexpr std::uint32_t kPhaseSegmentBytes = 4096;

/// Two channels joined over a NullVerbs, driven one side at a time, so that each side's cost can be
/// measured apart.
///
/// Turn: send(), receive(), settle(), and again.
class ChannelPhases {
 public:
  /// Errors: whatever the channel says; `why` gets a sentence.
  Status open(std::uint32_t lanes, std::string& why);

  /// One put of kPhaseSegments segments that notifies, until its completion was polled.
  Status send() noexcept;
  /// At the peer: until the notification was polled.
  Status receive() noexcept;
  /// Both sides exchange their control messages. Errors of all three: kInternal when the channel is
  /// not open or nothing moves any more.
  Status settle() noexcept;

  /// Mean work requests per call that posts, of everything so far.
  [[nodiscard]] double chain_length() const noexcept;
  [[nodiscard]] std::uint64_t faults() const noexcept { return verbs_.faults(); }

 private:
  Result<std::unique_ptr<ChannelCore>> make_side(const ChannelOptions& options, std::uint64_t seed,
                                                 std::string& why);
  void tick() noexcept { now_ += std::chrono::microseconds(1); }

  // In the order in which they are needed: the last goes first.
  NullVerbs verbs_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Memory> source_, target_;
  std::unique_ptr<Channel> sender_, receiver_;
  TimePoint now_{};
};

/// The same work with nothing but ibv_post_send, ibv_poll_cq and ibv_post_recv: the queue pairs in
/// turn, the same number of requests per chain, per lane and per poll.
class BarePhases {
 public:
  ~BarePhases();
  BarePhases() = default;
  BarePhases(const BarePhases&) = delete;
  BarePhases& operator=(const BarePhases&) = delete;

  /// Shape: chain in 1..kMaxChain. Errors: kInternal.
  Status open(std::uint32_t lanes, std::uint32_t chain) noexcept;
  Status send() noexcept;
  Status receive() noexcept;

  static constexpr std::uint32_t kMaxChain = 16;

 private:
  struct Lane {
    ibv_qp* sender = nullptr;
    ibv_qp* receiver = nullptr;
    std::uint32_t to_repost = 0;
    std::array<ibv_send_wr, kMaxChain> sends{};
    std::array<ibv_sge, kMaxChain> sges{};
    std::array<ibv_recv_wr, kMaxChain> receives{};
  };
  static constexpr int kBatch = 32;

  Status open_lane(Lane& lane, std::uint32_t number) noexcept;
  bool post(Lane& lane) noexcept;
  bool repost(Lane& lane, std::uint32_t count) noexcept;

  NullVerbs verbs_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* send_cq_ = nullptr;
  ibv_cq* receive_cq_ = nullptr;
  std::vector<Lane> lanes_;
  std::uint32_t chain_ = 1;
  std::uint32_t next_ = 0;
  std::uint32_t sequence_ = 0;
  std::uint32_t sequences_seen_ = 0;  // xor of what arrived, so that it is looked at
  std::array<ibv_wc, kBatch> batch_{};
};

}  // namespace braid::bench
