#include "tools/file_sender.h"

#include <algorithm>
#include <span>
#include <utility>

#include "tools/exit_code.h"
#include "tools/progress_bar.h"

namespace braid::tools {
namespace {

// A receiver may choose how it buffers, but not how much memory this side spends on it.
constexpr std::uint64_t kMaxStagingBytes = 1ULL << 30U;

Failure refusal(const Letter& letter) {
  const bool mismatch = letter.exit_code == kExitMismatch;
  return {mismatch ? kExitMismatch : kExitFile, "the receiver gave up: " + printable(letter.text)};
}

}  // namespace

MaybeFailure FileSender::run(Device& device, const std::string& name) {
  MaybeFailure failure = negotiate(device, name);
  if (!failure) failure = send_chunks();
  if (failure) return failure;
  digest_ = hash_.finish();
  Letter trailer;
  trailer.type = LetterType::kTrailer;
  trailer.digest = digest_;
  failure = session_.send_letter(trailer);
  Letter result;
  if (!failure) failure = session_.wait_letter(result);
  if (!failure) failure = judge(result);
  return failure;
}

void FileSender::give_up(const Failure& failure) {
  if (session_.channel().state() != ChannelState::kOpen) return;
  Letter trailer;
  trailer.type = LetterType::kTrailer;
  trailer.ok = false;
  trailer.exit_code = static_cast<std::uint32_t>(failure.exit_code);
  trailer.text = failure.text;
  // This side has its failure already; one more, about the letter, would only hide it.
  if (!session_.send_letter(trailer)) (void)session_.drain();
}

MaybeFailure FileSender::negotiate(Device& device, const std::string& name) {
  Letter offer;
  MaybeFailure failure = session_.wait_letter(offer);
  if (!failure) failure = prepare_staging(device, offer);
  if (failure) return failure;
  Letter header;
  header.type = LetterType::kHeader;
  header.file_bytes = source_.bytes();
  header.text = name;
  failure = session_.send_letter(header);
  while (!failure && session_.accepted_count == 0) {
    failure = session_.pump();
    if (!failure) failure = check_early_result();
  }
  return failure;
}

MaybeFailure FileSender::prepare_staging(Device& device, const Letter& offer) {
  chunk_bytes_ = offer.chunk_bytes;
  slot_count_ = offer.slot_count;
  const std::uint64_t staging = std::uint64_t{chunk_bytes_} * slot_count_;
  const auto regions = session_.channel().remote_memories();
  if (offer.type != LetterType::kOffer || staging == 0 || staging > kMaxStagingBytes ||
      regions.size() < 2 || regions[1].bytes() < staging) {
    return Failure{kExitTransfer, "the receiver offered no usable buffer"};
  }
  Result<Memory> memory = device.allocate(staging, MemoryAccess::kLocal);
  if (!memory) {
    return Failure{kExitConnect, "no memory for " + std::to_string(staging) +
                                     " bytes of staging: " + memory.error().to_string()};
  }
  staging_ = std::move(*memory);
  busy_.assign(slot_count_, false);
  return std::nullopt;
}

MaybeFailure FileSender::send_chunks() {
  ProgressBar bar(source_.bytes(), session_.now());
  const std::uint64_t total = source_.bytes();
  const std::uint64_t chunks = total / chunk_bytes_ + (total % chunk_bytes_ != 0 ? 1 : 0);
  // The end is when the receiver has taken every chunk; until then it may still object.
  while (chunks_sent_ < chunks || session_.slot_free_count < chunks) {
    MaybeFailure failure;
    if (chunks_sent_ < chunks) failure = send_next_chunk();
    if (!failure) failure = session_.pump();
    if (!failure) failure = check_early_result();
    if (failure) return failure;
    for (const std::uint32_t done : session_.slots_completed) busy_[done] = false;
    session_.slots_completed.clear();
    if (session_.slot_free_count > chunks_sent_) {
      return Failure{kExitTransfer, "the receiver freed more than it was sent"};
    }
    bar.update(std::min(total, session_.slot_free_count * chunk_bytes_), session_.now());
  }
  return std::nullopt;
}

MaybeFailure FileSender::send_next_chunk() {
  const auto slot = static_cast<std::uint32_t>(chunks_sent_ % slot_count_);
  const bool taken = chunks_sent_ - session_.slot_free_count >= slot_count_;
  if (taken || busy_[slot]) return std::nullopt;
  const std::uint64_t bytes = std::min<std::uint64_t>(chunk_bytes_, source_.bytes() - bytes_sent_);
  const std::uint64_t at = std::uint64_t{slot} * chunk_bytes_;
  const std::span<std::byte> buffer(staging_.data() + at, bytes);
  MaybeFailure failure = source_.read(bytes_sent_, buffer);
  if (failure) return failure;
  hash_.update(buffer);
  busy_[slot] = true;
  failure = session_.put_chunk(staging_.range(at, bytes),
                               session_.channel().remote_memories()[1].range(at, bytes), slot);
  bytes_sent_ += bytes;
  ++chunks_sent_;
  return failure;
}

MaybeFailure FileSender::check_early_result() {
  Letter letter;
  if (!session_.take_letter(letter)) return std::nullopt;
  if (letter.type == LetterType::kResult && !letter.ok) return refusal(letter);
  return Failure{kExitTransfer, "the receiver answered out of turn"};
}

MaybeFailure FileSender::judge(const Letter& result) {
  if (result.type != LetterType::kResult) {
    return Failure{kExitTransfer, "the receiver answered out of turn"};
  }
  if (!result.ok) return refusal(result);
  if (result.digest != digest_) {
    return Failure{kExitMismatch, "the received file has SHA-256 " + to_hex(result.digest) +
                                      ", this one " + to_hex(digest_)};
  }
  return std::nullopt;
}

}  // namespace braid::tools
