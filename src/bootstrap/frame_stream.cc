#include "bootstrap/frame_stream.h"

#include <algorithm>
#include <array>

namespace braid::bootstrap {

void FrameStream::send(FrameType type, std::span<const std::byte> payload) {
  std::array<std::byte, kHeaderBytes> header{};
  encode_header({type, static_cast<std::uint32_t>(payload.size())}, header);
  out_.insert(out_.end(), header.begin(), header.end());
  out_.insert(out_.end(), payload.begin(), payload.end());
}

Status FrameStream::flush() noexcept {
  while (out_sent_ < out_.size()) {
    const Result<std::size_t> sent = socket_.send(std::span(out_).subspan(out_sent_));
    if (!sent) return sent.error();
    if (*sent == 0) return Status(StatusCode::kWouldBlock);
    out_sent_ += *sent;
  }
  out_.clear();
  out_sent_ = 0;
  return Status();
}

Status FrameStream::receive(FrameType& type, std::vector<std::byte>& payload) {
  for (;;) {
    if (filled_ == in_.size()) {
      if (header_done_) {
        type = header_.type;
        payload.assign(in_.begin() + kHeaderBytes, in_.end());
        in_.resize(kHeaderBytes);
        filled_ = 0;
        header_done_ = false;
        return Status();
      }
      const Status status = decode_header(std::span(in_).first<kHeaderBytes>(), header_, why_);
      if (!status.ok()) return status;
      header_done_ = true;
      in_.resize(kHeaderBytes + header_.payload_bytes);
      continue;
    }
    const Result<std::size_t> got = socket_.receive(std::span(in_).subspan(filled_));
    if (!got) return got.error();
    if (*got == 0) return Status(StatusCode::kWouldBlock);
    filled_ += *got;
  }
}

}  // namespace braid::bootstrap
