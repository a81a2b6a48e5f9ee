#include "tools/file_session.h"

#include <braid/blocking.h>

#include <array>
#include <csignal>
#include <utility>

#include "tools/exit_code.h"

namespace braid::tools {
namespace {

// The only process-wide state: what a signal handler may touch.
volatile std::sig_atomic_t interrupt_seen = 0;

void on_interrupt(int) { interrupt_seen = 1; }

constexpr Duration kFarewell = std::chrono::seconds(2);

}  // namespace

void catch_interrupts() noexcept {
  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
}

bool interrupted() noexcept { return interrupt_seen != 0; }

MaybeFailure FileSession::prepare(Device& device) {
  Result<Memory> in = device.allocate(kLetterBytes, MemoryAccess::kRemoteWrite);
  if (!in) return Failure{kExitConnect, "no memory for letters: " + in.error().to_string()};
  Result<Memory> out = device.allocate(kLetterBytes, MemoryAccess::kLocal);
  if (!out) return Failure{kExitConnect, "no memory for letters: " + out.error().to_string()};
  inbox_ = std::move(*in);
  outbox_ = std::move(*out);
  return std::nullopt;
}

void FileSession::attach(Channel& channel, Duration timeout, TimePoint now) {
  channel_ = &channel;
  timeout_ = timeout;
  now_ = last_event_ = now;
}

MaybeFailure FileSession::pump() {
  now_ = blocking::now();
  const bool moved = channel_->progress(now_);
  std::array<Completion, 16> completions{};
  const std::size_t completed = channel_->poll_completions(completions);
  for (std::size_t i = 0; i < completed; ++i) {
    if (!completions[i].status.ok()) continue;  // the channel has failed; told below
    last_event_ = now_;
    if (completions[i].user_data != 0) {
      slots_completed.push_back(static_cast<std::uint32_t>(completions[i].user_data - 1));
    }
  }
  std::array<Notification, 16> notifications{};
  const std::size_t notified = channel_->poll_notifications(notifications);
  for (std::size_t i = 0; i < notified; ++i) {
    last_event_ = now_;
    MaybeFailure failure = handle_notification(notifications[i]);
    if (failure) return failure;
  }
  if (interrupted()) return Failure{kExitInterrupt, "interrupted"};
  if (completed == 0 && notified == 0) {
    MaybeFailure failure = check_silence();
    if (failure) return failure;
  }
  idler_.on_round(moved || completed > 0 || notified > 0);
  return std::nullopt;
}

MaybeFailure FileSession::check_silence() {
  if (letter_waiting_) return std::nullopt;  // its reader comes first
  if (channel_->state() == ChannelState::kFailed) {
    return Failure{kExitTransfer, "the transfer broke: " + channel_->error().to_string()};
  }
  if (channel_->peer_closed() || channel_->state() == ChannelState::kClosed) {
    return Failure{kExitTransfer, "the peer left before the transfer was complete"};
  }
  if (now_ - last_event_ >= timeout_) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout_).count();
    return Failure{kExitTransfer, "the peer at " + channel_->peer_address() + " gave no sign for " +
                                      std::to_string(seconds) + " s (--timeout)"};
  }
  return std::nullopt;
}

MaybeFailure FileSession::handle_notification(const Notification& notification) {
  if (notification.index == kLetter) {
    // The notification says that every byte of the letter is here.
    const Status status = decode({inbox_.data(), kLetterBytes}, letter_);
    if (!status.ok() || letter_waiting_) {
      return Failure{kExitTransfer, "the peer does not speak the file protocol of this release"};
    }
    letter_waiting_ = true;
  } else if (notification.index == kAccepted) {
    ++accepted_count;
  } else if (notification.index == kChunk) {
    ++chunk_count;
  } else if (notification.index == kSlotFree) {
    ++slot_free_count;
  } else {
    return Failure{kExitTransfer, "the peer sent a notification that means nothing"};
  }
  return std::nullopt;
}

bool FileSession::take_letter(Letter& letter) {
  if (!letter_waiting_) return false;
  letter = letter_;
  letter_waiting_ = false;
  return true;
}

MaybeFailure FileSession::wait_letter(Letter& letter) {
  while (!take_letter(letter)) {
    MaybeFailure failure = pump();
    if (failure) return failure;
  }
  return std::nullopt;
}

MaybeFailure FileSession::send_letter(const Letter& letter) {
  // The box may still be the source of the letter before.
  MaybeFailure failure = drain();
  if (failure) return failure;
  if (channel_->remote_memories().empty()) {
    return Failure{kExitTransfer, "the peer has no letter box: it is not a file transfer program"};
  }
  const std::size_t bytes = encode(letter, {outbox_.data(), kLetterBytes});
  const Result<Ticket> ticket = channel_->put(
      outbox_.range(0, bytes), channel_->remote_memories()[0].range(0, bytes), {.notify = kLetter});
  if (ticket) return std::nullopt;
  return Failure{kExitTransfer, "a letter to the peer failed: " + ticket.error().to_string()};
}

MaybeFailure FileSession::drain() {
  while (!channel_->drained()) {
    MaybeFailure failure = pump();
    if (failure) return failure;
  }
  return std::nullopt;
}

MaybeFailure FileSession::drain_last_letter() {
  while (!channel_->drained() && !channel_->peer_closed()) {
    MaybeFailure failure = pump();
    if (failure && !channel_->peer_closed()) return failure;
  }
  return std::nullopt;
}

Failure FileSession::refused(const char* what, Status status) const {
  // A channel that breaks between two rounds says the same here as in a round.
  if (channel_->state() == ChannelState::kFailed) {
    return Failure{kExitTransfer, "the transfer broke: " + channel_->error().to_string()};
  }
  return Failure{kExitTransfer, std::string(what) + " failed: " + status.to_string()};
}

MaybeFailure FileSession::put_chunk(LocalRange local, RemoteRange remote, std::uint32_t slot) {
  for (;;) {
    const Result<Ticket> ticket =
        channel_->put(local, remote, {.notify = kChunk, .user_data = slot + 1ULL});
    if (ticket) return std::nullopt;
    if (ticket.error().code() != StatusCode::kWouldBlock) {
      return refused("a put", ticket.error());
    }
    MaybeFailure failure = pump();
    if (failure) return failure;
  }
}

MaybeFailure FileSession::notify(NotifyIndex index) {
  for (;;) {
    const Result<Ticket> ticket = channel_->notify(index);
    if (ticket) return std::nullopt;
    if (ticket.error().code() != StatusCode::kWouldBlock) {
      return refused("a notification", ticket.error());
    }
    MaybeFailure failure = pump();
    if (failure) return failure;
  }
}

void FileSession::close() {
  // Both sides know the outcome by now; whether the farewell arrives changes nothing about it.
  (void)blocking::close(*channel_, kFarewell);
}

}  // namespace braid::tools
