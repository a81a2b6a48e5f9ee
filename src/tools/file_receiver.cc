#include "tools/file_receiver.h"

#include <algorithm>
#include <memory>
#include <span>

#include "tools/exit_code.h"
#include "tools/progress_bar.h"

namespace braid::tools {
namespace {

Failure sender_gave_up(const Letter& letter) {
  return {letter.exit_code == kExitFile ? kExitFile : kExitTransfer,
          "the sender gave up: " + printable(letter.text)};
}

}  // namespace

MaybeFailure FileReceiver::run(const std::string& output, bool overwrite) {
  Letter offer;
  offer.type = LetterType::kOffer;
  offer.chunk_bytes = kChunkBytes;
  offer.slot_count = kSlots;
  MaybeFailure failure = session_.send_letter(offer);
  Letter header;
  if (!failure) failure = session_.wait_letter(header);
  if (failure) return failure;
  if (header.type != LetterType::kHeader) {
    return Failure{kExitTransfer, "the sender did not say which file it sends"};
  }
  bytes_ = header.file_bytes;
  name_ = output.empty() ? safe_file_name(header.text) : output;
  if (name_.empty()) {
    return tell({kExitFile, "the sender's file name \"" + printable(header.text) +
                                "\" cannot be used here (give one with -o)"});
  }
  std::string why;
  Result<std::unique_ptr<PartFile>> file = PartFile::create(name_, bytes_, overwrite, why);
  if (!file) return tell({kExitFile, why});
  failure = session_.notify(kAccepted);
  if (!failure) failure = receive_chunks(**file);
  if (!failure) failure = finish(**file);
  return failure;
}

MaybeFailure FileReceiver::receive_chunks(PartFile& file) {
  ProgressBar bar(bytes_, session_.now());
  while (bytes_taken_ < bytes_) {
    MaybeFailure failure = session_.pump();
    if (!failure) failure = check_early_trailer();
    if (failure) return failure;
    if (session_.chunk_count - chunks_taken_ > kSlots) {
      return Failure{kExitTransfer, "the sender sent more than there are slots"};
    }
    if (chunks_taken_ == session_.chunk_count) continue;
    // One chunk per round: the channel gets its turn between two writes.
    failure = take_chunk(file);
    if (failure) return failure;
    bar.update(bytes_taken_, session_.now());
  }
  return std::nullopt;
}

MaybeFailure FileReceiver::take_chunk(PartFile& file) {
  const std::uint64_t bytes = std::min<std::uint64_t>(kChunkBytes, bytes_ - bytes_taken_);
  const std::span<const std::byte> chunk(slots_.data() + chunks_taken_ % kSlots * kChunkBytes,
                                         bytes);
  hash_.update(chunk);
  std::string why;
  if (!file.write(bytes_taken_, chunk, why).ok()) return tell({kExitFile, why});
  bytes_taken_ += bytes;
  ++chunks_taken_;
  return session_.notify(kSlotFree);
}

MaybeFailure FileReceiver::finish(PartFile& file) {
  Letter trailer;
  MaybeFailure failure = session_.wait_letter(trailer);
  if (failure) return failure;
  if (trailer.type != LetterType::kTrailer) {
    return Failure{kExitTransfer, "the sender ended out of turn"};
  }
  if (!trailer.ok) return sender_gave_up(trailer);
  digest_ = hash_.finish();
  if (digest_ != trailer.digest) {
    return tell({kExitMismatch, "the received bytes have SHA-256 " + to_hex(digest_) +
                                    ", the sent ones " + to_hex(trailer.digest)});
  }
  std::string why;
  if (!file.finish(why).ok()) return tell({kExitFile, why});
  Letter result;
  result.type = LetterType::kResult;
  result.digest = digest_;
  failure = session_.send_letter(result);
  if (!failure) failure = session_.drain_last_letter();
  return failure;
}

MaybeFailure FileReceiver::check_early_trailer() {
  Letter letter;
  if (!session_.take_letter(letter)) return std::nullopt;
  if (letter.type == LetterType::kTrailer && !letter.ok) return sender_gave_up(letter);
  return Failure{kExitTransfer, "the sender spoke out of turn"};
}

Failure FileReceiver::tell(Failure failure) {
  Letter result;
  result.type = LetterType::kResult;
  result.ok = false;
  result.exit_code = static_cast<std::uint32_t>(failure.exit_code);
  result.text = failure.text;
  // This side has its failure already; one more, about the letter, would only hide it.
  if (!session_.send_letter(result)) (void)session_.drain();
  return failure;
}

}  // namespace braid::tools
