#pragma once

#include <braid/channel.h>
#include <braid/device.h>
#include <braid/time.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "blocking/idler.h"
#include "tools/failure.h"
#include "tools/file_protocol.h"

namespace braid::tools {

/// From now on SIGINT and SIGTERM are remembered instead of ending the process, so that partial
/// files are removed.
void catch_interrupts() noexcept;
[[nodiscard]] bool interrupted() noexcept;

/// What both ends of a file transfer share: letter boxes, the pump, and knowing when to give up.
class FileSession {
 public:
  /// Allocates the letter boxes. Call exports() before connecting and attach() after.
  MaybeFailure prepare(Device& device);
  [[nodiscard]] RemoteMemory inbox() const noexcept { return inbox_.remote(); }
  void attach(Channel& channel, Duration timeout, TimePoint now);

  /// One round: progress, completions, notifications. Fails when the channel does, when the peer
  /// leaves, when nothing happens for the timeout, or when the user interrupts.
  MaybeFailure pump();

  /// Sends a letter to the peer's box.
  MaybeFailure send_letter(const Letter& letter);
  /// Pumps until a letter is there.
  MaybeFailure wait_letter(Letter& letter);
  /// Takes a letter that has come; false when there is none.
  [[nodiscard]] bool take_letter(Letter& letter);
  /// Pumps until everything posted has completed.
  MaybeFailure drain();
  /// Pumps until the letter that ends the conversation has completed, or the peer has said goodbye:
  /// it says so only after it has read that letter, and may be gone before its acknowledgement of
  /// it arrives.
  MaybeFailure drain_last_letter();
  /// Says goodbye, and waits for the peer's a little.
  void close();

  /// Puts a slot of `memory` and notifies. `slot` comes back in slots_completed.
  MaybeFailure put_chunk(LocalRange local, RemoteRange remote, std::uint32_t slot);
  MaybeFailure notify(NotifyIndex index);

  // Counts since attach(), kept by pump().
  std::uint64_t accepted_count = 0;
  std::uint64_t chunk_count = 0;
  std::uint64_t slot_free_count = 0;
  /// Slots whose chunk completed, in order of completion; the owner empties it.
  std::vector<std::uint32_t> slots_completed;

  [[nodiscard]] Channel& channel() noexcept { return *channel_; }
  [[nodiscard]] TimePoint now() const noexcept { return now_; }

 private:
  MaybeFailure handle_notification(const Notification& notification);
  MaybeFailure check_silence();
  [[nodiscard]] Failure refused(const char* what, Status status) const;

  Channel* channel_ = nullptr;
  Memory inbox_;
  Memory outbox_;
  Duration timeout_{0};
  TimePoint now_{};
  TimePoint last_event_{};
  Idler idler_;
  bool letter_waiting_ = false;
  Letter letter_;
};

}  // namespace braid::tools
