#pragma once

#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/exchange_stream.h"

namespace braid::test {

/// Two ends of an exchange within one test. What is sent arrives at once, in order.
class MemoryStream final : public bootstrap::ExchangeStream {
 public:
  using Frame = std::pair<bootstrap::FrameType, std::vector<std::byte>>;
  /// One direction; a test that holds it can put frames in, or close it.
  struct Way {
    std::deque<Frame> frames;
    bool closed = false;
    bool stuck = false;  // nothing comes out for now
  };

  MemoryStream(std::shared_ptr<Way> out, std::shared_ptr<Way> in)
      : out_(std::move(out)), in_(std::move(in)) {}
  ~MemoryStream() override { out_->closed = true; }

  void send(bootstrap::FrameType type, std::span<const std::byte> payload) override {
    out_->frames.emplace_back(type, std::vector<std::byte>(payload.begin(), payload.end()));
  }
  Status flush() noexcept override { return Status(); }
  Status receive(bootstrap::FrameType& type, std::vector<std::byte>& payload) override {
    if (in_->stuck) return Status(StatusCode::kWouldBlock);
    if (in_->frames.empty()) {
      return Status(in_->closed ? StatusCode::kAborted : StatusCode::kWouldBlock);
    }
    type = in_->frames.front().first;
    payload = std::move(in_->frames.front().second);
    in_->frames.pop_front();
    return Status();
  }
  [[nodiscard]] const std::string& why() const noexcept override { return why_; }

 private:
  std::shared_ptr<Way> out_, in_;
  std::string why_;
};

}  // namespace braid::test
