#pragma once

#include <braid/channel_options.h>
#include <braid/memory.h>
#include <braid/result.h>
#include <braid/time.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace braid {

class ChannelCore;

/// Names an accepted operation until its completion is polled. Never reused within 2^32
/// operations of the same slot.
struct Ticket {
  std::uint64_t value = 0;
  friend constexpr bool operator==(Ticket, Ticket) noexcept = default;
};

/// Index into the notify ids of the peer: 1..127; 0 = no notification.
struct NotifyIndex {
  std::uint8_t value = 0;
  friend constexpr bool operator==(NotifyIndex, NotifyIndex) noexcept = default;
};
inline constexpr NotifyIndex kNoNotify{};

struct PutOptions {
  /// What the peer is told once every byte of this and of every earlier put is visible to it.
  NotifyIndex notify = kNoNotify;
  /// Handed back in the completion; the channel does not look at it.
  std::uint64_t user_data = 0;
  /// Instead of ChannelOptions::policy, for this put.
  std::optional<SchedulerPolicy> policy = std::nullopt;
};

/// Extent of an atomic and of its result, and the alignment of its target.
inline constexpr std::uint64_t kAtomicBytes = 8;

/// End of one operation. Each accepted operation has exactly one.
struct Completion {
  Ticket ticket;
  /// Ok, of a put: the peer's device acknowledged every byte and the source is reusable; of a get
  /// or atomic: every byte of the result is here.
  Status status;
  std::uint64_t user_data = 0;
  std::uint64_t bytes = 0;
};

/// A notification of the peer, in the order of its operations.
struct Notification {
  std::uint32_t id = 0;  // from ChannelOptions::notify_ids of this side
  NotifyIndex index;
};

enum class ChannelState : std::uint8_t {
  kOpen,
  kClosed,  // by either side, with everything that the peer sent delivered
  kFailed,  // error() says why
};

/// What happened to a channel beside its operations.
struct ChannelEvent {
  enum class Kind : std::uint8_t {
    kLaneDown,      // its queue pair failed, here or at the peer
    kLaneReplayed,  // what it carried and the peer lacks goes over other lanes
    kLaneUp,        // a new queue pair was tried and is in use
    kLaneMoved,     // it was much slower than the others and uses another source port now
    kControlDown,   // the control queue pair failed; the TCP connection stands in
    kControlUp,
  };
  Kind kind = Kind::kLaneDown;
  std::uint32_t lane = 0;         // of the kinds about a lane
  std::uint32_t generation = 0;   // queue pairs that the lane has had before
  Status status;                  // kLaneDown, kControlDown: the cause; ok = the peer said so
  std::uint32_t segments = 0;     // kLaneReplayed
  Duration duration{0};           // kLaneUp, kControlUp: since it went down; kLaneMoved: to drain
  std::uint16_t source_port = 0;  // kLaneMoved: the new one
};
[[nodiscard]] const char* to_string(ChannelEvent::Kind kind) noexcept;

struct LaneStats {
  std::uint32_t lane = 0;
  bool up = true;                // false while its queue pair is being replaced
  std::uint32_t generation = 0;  // queue pairs that it has had before
  std::uint32_t qpn = 0;
  std::uint32_t peer_qpn = 0;
  std::uint16_t source_port_requested = 0;  // 0 = none
  std::uint16_t source_port_effective = 0;  // 0 = the device cannot tell
  std::uint64_t posted_segments = 0;
  std::uint64_t completed_segments = 0;
  std::uint64_t completed_bytes = 0;
  std::uint64_t received_segments = 0;
  std::uint64_t received_bytes = 0;
  std::uint64_t fetched_parts = 0;  // parts of gets, and atomics, that completed
  std::uint64_t fetched_bytes = 0;
  std::uint64_t replayed_segments = 0;  // taken over by other lanes when this one failed
  Duration completion_time_sum{0};      // from post to completion, over completed_segments
  std::uint64_t moves = 0;              // to another source port and back, because it was slow
  double rate_bytes_per_second = 0;     // that it was last seen to deliver; 0 = not known
  std::uint64_t window_bytes = 0;       // that adaptive lets it have under way
  std::uint64_t outstanding_bytes = 0;  // under way now
  std::uint64_t errors = 0;

  [[nodiscard]] Duration mean_completion_time() const noexcept {
    return completed_segments == 0
               ? Duration(0)
               : completion_time_sum / static_cast<Duration::rep>(completed_segments);
  }
};

struct ChannelStats {
  std::uint32_t control_qpn = 0;             // of the queue pair of control messages
  bool control_up = true;                    // false while it is being replaced
  std::uint64_t duplicate_segments = 0;      // received twice and rejected
  std::uint64_t out_of_window_segments = 0;  // received outside the window and rejected
  std::uint64_t malformed_segments = 0;      // announced with an immediate that no peer sends
  std::uint32_t reorder_high_water = 0;      // most sequences waited beyond the oldest missing
  std::uint64_t window_stalls = 0;           // rounds in which the window held a segment back
  std::uint64_t credit_stalls = 0;           // rounds in which no lane had credit and room
  std::uint64_t unknown_completions = 0;     // completions for work that is not under way
  std::uint64_t keepalives = 0;
  std::uint64_t lane_failures = 0;    // queue pairs given up, the control queue pair's included
  std::uint64_t lane_recoveries = 0;  // queue pairs put in their place and in use
  std::uint64_t replayed_parts = 0;   // parts of gets taken over by other lanes
  std::uint64_t events_dropped = 0;   // events that nobody polled in time
};

/// Why a channel failed, with both ends of what failed.
struct ChannelError {
  Status status;
  int lane = -1;  // -1: the control QP, or no QP at all
  std::uint32_t qpn = 0;
  std::uint32_t peer_qpn = 0;
  std::string device;
  std::string local_address;
  std::string peer_address;
  std::uint16_t source_port = 0;
  std::uint32_t vendor_error = 0;
  std::string text;  // one sentence: what happened and what to look at

  [[nodiscard]] const std::string& to_string() const noexcept { return text; }
};

/// One ordered, reliable channel to a peer, braided from N queue pairs.
///
/// Everything is non-blocking. put(), get() and the like accept work into bounded queues;
/// progress() posts it, takes completions and receives, and never waits. Blocking helpers are in
/// braid/blocking.h.
///
/// Ordering: when a notification is delivered, all bytes of every put that the peer issued before
/// it on this channel, with or without notification, on whichever lane, are visible here. Gets and
/// atomics go beside the puts and one another, on any lane and in any order; fence() and
/// completions order them. A get sees a put of the same side only when it is issued after the put's
/// completion.
/// Failure: when a queue pair or its path dies, what it carried and the peer lacks goes over the
/// other lanes, and it is replaced in the background; operations just take longer. An atomic that
/// was on it ends with kUnknownOutcome: it was executed once or not at all. What cannot heal (a key
/// or range that the peer does not allow, a peer that is gone, recovery_timeout) fails the channel
/// as a whole; every accepted operation then completes once with the error.
/// Thread: none; the owner serialises all calls on one channel. Different channels are
/// independent.
/// Owner: the channel keeps its device open. Local memory belongs to the channel from the call
/// until the operation's completion.
/// Cost: operations, progress() and the polls never allocate, lock or read a clock.
class Channel {
 public:
  explicit Channel(std::unique_ptr<ChannelCore> core) noexcept;
  /// Destroys the QPs at once; close() first to let the peer know.
  ~Channel();
  Channel(Channel&&) noexcept;
  Channel& operator=(Channel&&) noexcept;

  /// Writes `local` to `remote`, cut into segments over the lanes, and notifies the peer if asked.
  ///
  /// Shape: equal extents, 0..2^63 bytes; zero bytes still take a sequence number and notify.
  /// Errors: kWouldBlock (operation_capacity reached: poll completions), kNotFound (a range leaves
  /// its region), kInvalidArgument (extents differ, notify index beyond the peer's table),
  /// kAborted (closed), or the status the channel failed with. Nothing was accepted then.
  Result<Ticket> put(LocalRange local, RemoteRange remote, PutOptions options = {}) noexcept;

  /// Notifies the peer without data; ordered after every earlier put. Errors: as put().
  Result<Ticket> notify(NotifyIndex index, std::uint64_t user_data = 0) noexcept;

  /// Reads `remote` into `local`, cut into parts over the lanes.
  ///
  /// Shape: equal extents, 0..2^63 bytes; zero bytes read nothing and complete at once.
  /// Errors: kWouldBlock (operation_capacity reached: poll completions), kNotFound (a range leaves
  /// its region), kInvalidArgument (extents differ), kNotSupported (read_depth is 0 here or a
  /// device reads nothing), kAborted (closed), or the status the channel failed with. Nothing was
  /// accepted then. `local` holds anything until the completion says ok.
  Result<Ticket> get(LocalRange local, RemoteRange remote, std::uint64_t user_data = 0) noexcept;

  /// Adds `operand` to the 64-bit word at `target`, mod 2^64, in one step as seen from the peer's
  /// device, and stores what was there before to `result`, both in host byte order.
  ///
  /// Shape: 8 bytes each; the target's address is a multiple of 8, and its region allows
  /// kRemoteAtomic. Errors: as get(), kInvalidArgument (extent or alignment), kNotSupported (the
  /// device has no atomics).
  /// Whether it is atomic to the peer's processor, too, is up to the peer's device.
  Result<Ticket> fetch_add(LocalRange result, RemoteRange target, std::uint64_t operand,
                           std::uint64_t user_data = 0) noexcept;

  /// Stores `desired` at `target` when the 64-bit word there equals `expected`, in one step; what
  /// was there before goes to `result` either way. Shape and errors: as fetch_add().
  Result<Ticket> compare_swap(LocalRange result, RemoteRange target, std::uint64_t expected,
                              std::uint64_t desired, std::uint64_t user_data = 0) noexcept;

  /// Orders every operation issued from now on, on whichever lane, after the completion of every
  /// get and atomic issued before. Never waits: later operations do. Cost: O(1); without gets and
  /// atomics before it, nothing. Errors: kAborted (closed), or the status the channel failed with.
  Status fence() noexcept;

  /// Moves everything forward that can move: takes completions and receives, posts segments,
  /// grants credits, checks deadlines.
  ///
  /// `now` never goes backwards. Cost: O(work found), bounded per call. Returns true when
  /// anything happened, so that an idle caller knows when to yield.
  bool progress(TimePoint now) noexcept;

  /// Takes completions of operations, at most completions.size(); returns how many.
  [[nodiscard]] std::size_t poll_completions(std::span<Completion> completions) noexcept;
  /// Takes the completion of one operation, which poll_completions() will then not give. Errors:
  /// kWouldBlock (still under way), kNotFound (unknown, or taken before).
  [[nodiscard]] Status take(Ticket ticket, Completion& completion) noexcept;
  /// Takes notifications of the peer, in order, at most notifications.size(); returns how many.
  [[nodiscard]] std::size_t poll_notifications(std::span<Notification> notifications) noexcept;
  /// Takes the oldest notification with this index and leaves the others in their order; false
  /// when there is none. Cost: O(notifications waiting).
  [[nodiscard]] bool take_notification(NotifyIndex index, Notification& notification) noexcept;

  /// Takes events, oldest first, at most events.size(); returns how many. 64 are kept; when they
  /// are full the newest is dropped and counted.
  [[nodiscard]] std::size_t poll_events(std::span<ChannelEvent> events) noexcept;

  /// True when no accepted operation is still under way; completions may be left to poll.
  [[nodiscard]] bool drained() const noexcept;

  /// Tells the peer that nothing follows, and refuses new operations. Operations under way go on;
  /// keep calling progress() until state() is not kOpen.
  void close() noexcept;

  [[nodiscard]] ChannelState state() const noexcept;
  /// True once the peer said that nothing follows and everything before that was delivered.
  [[nodiscard]] bool peer_closed() const noexcept;
  /// Meaningful when state() is kFailed.
  [[nodiscard]] const ChannelError& error() const noexcept;

  /// Regions that the peer exported at connect.
  [[nodiscard]] std::span<const RemoteMemory> remote_memories() const noexcept;
  /// Options as they hold after both sides agreed (segment size, window, depths, MTU).
  [[nodiscard]] const ChannelOptions& options() const noexcept;
  [[nodiscard]] std::uint32_t lane_count() const noexcept;
  [[nodiscard]] LaneStats lane_stats(std::uint32_t lane) const noexcept;
  [[nodiscard]] ChannelStats stats() const noexcept;
  [[nodiscard]] const std::string& peer_address() const noexcept;

 private:
  std::unique_ptr<ChannelCore> core_;
};

}  // namespace braid
