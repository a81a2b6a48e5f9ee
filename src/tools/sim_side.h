#pragma once

#include <braid/channel.h>
#include <braid/device.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "tools/sim_case.h"

namespace braid::tools {

/// One end of a channel under test: issues operations, makes the calls in random order, and checks
/// what comes back against what it knows itself. It uses the public interface and compares memory;
/// nothing of the channel's own bookkeeping is believed, but for the counts of posts.
class SimSide {
 public:
  /// Allocates and fills the memory. Errors go to violation().
  SimSide(Device& device, const ChannelOptions& options, std::uint32_t operations,
          std::uint32_t bytes, std::uint64_t seed);

  /// Options with the exports filled in.
  [[nodiscard]] const ChannelOptions& options() const noexcept { return options_; }
  /// Joins it to its channel and to the other end.
  void start(std::unique_ptr<Channel> channel, SimSide& peer) noexcept;

  /// Makes some calls. Returns true when anything happened.
  bool act(TimePoint now);
  /// Everything issued, completed and notified, or failed and everything ended.
  [[nodiscard]] bool is_done() const noexcept;
  [[nodiscard]] bool has_failed() const noexcept;
  /// Says that nothing follows.
  void close() noexcept { channel_->close(); }
  [[nodiscard]] bool is_closed() const noexcept;
  /// Looks at what can only be known at the end.
  void check_end(bool may_lose_lanes, bool may_fail);
  void destroy_channel() noexcept { channel_.reset(); }

  [[nodiscard]] std::uint64_t issued_count() const noexcept { return issued_count_; }
  /// Queue pairs that were given up and replaced.
  [[nodiscard]] std::uint64_t recovery_count() const noexcept {
    return channel_->stats().lane_recoveries;
  }
  /// Empty while every invariant holds; else the first that did not.
  [[nodiscard]] const std::string& violation() const noexcept { return violation_; }
  [[nodiscard]] std::string describe() const;

 private:
  enum class Kind : std::uint8_t { kPut, kNotify, kGet, kFetchAdd };
  struct Issued {
    Kind kind = Kind::kPut;
    std::uint64_t user_data = 0;
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };
  struct Announced {
    std::uint8_t index = 0;
    std::uint64_t end = 0;  // bytes of all puts so far
  };

  bool issue();
  bool issue_put();
  bool issue_notify();
  bool issue_get();
  bool issue_fetch_add();
  bool accept(const Result<Ticket>& ticket, const Issued& issued);
  bool poll_completions();
  void check_completion(const Completion& completion);
  bool poll_notifications();
  void check_notification(const Notification& notification);
  void check_window();
  void report(const std::string& what);

  ChannelOptions options_;
  Random random_;
  std::uint32_t operations_left_;
  std::uint64_t bytes_;
  std::unique_ptr<Memory> source_;   // immutable; the peer may read it
  std::unique_ptr<Memory> inbox_;    // written by the peer
  std::unique_ptr<Memory> fetched_;  // results of gets
  std::unique_ptr<Memory> counter_;  // the peer adds to it
  std::unique_ptr<Memory> results_;  // of fetch_adds
  std::unique_ptr<Channel> channel_;
  SimSide* peer_ = nullptr;
  std::map<std::uint64_t, Issued> issued_;  // by ticket
  std::vector<Announced> announced_;        // to the peer, in order
  std::size_t announced_seen_ = 0;          // of the peer's
  std::uint64_t put_bytes_ = 0;
  std::uint64_t verified_bytes_ = 0;  // of the inbox, by notifications
  std::uint64_t added_ = 0;           // by completed fetch_adds
  std::uint64_t unknown_added_ = 0;   // by fetch_adds that ended with kUnknownOutcome
  std::uint64_t issued_count_ = 0;
  std::uint64_t completed_count_ = 0;
  std::string violation_;
};

}  // namespace braid::tools
