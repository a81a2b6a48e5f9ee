#pragma once

#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bootstrap/exchange_stream.h"
#include "sim/fabric_core.h"

namespace braid::sim {

/// One end of the exchange of two simulated peers: frames arrive in order, after a fixed time.
/// Stands in for the TCP connection, which travels over a network of its own here. Memory: the
/// frames under way, which are as few as over TCP. Thread: the fabric's.
class SimStream final : public bootstrap::ExchangeStream {
 public:
  /// What is under way in one direction.
  struct Way {
    struct Frame {
      TimePoint due;
      bootstrap::FrameType type;
      std::vector<std::byte> payload;
    };
    std::deque<Frame> frames;
    bool is_closed = false;
  };

  SimStream(std::shared_ptr<FabricCore> fabric, Duration delay, std::shared_ptr<Way> out,
            std::shared_ptr<Way> in) noexcept
      : fabric_(std::move(fabric)), delay_(delay), out_(std::move(out)), in_(std::move(in)) {}
  ~SimStream() override { out_->is_closed = true; }

  void send(bootstrap::FrameType type, std::span<const std::byte> payload) override {
    out_->frames.push_back({fabric_->now() + delay_, type, {payload.begin(), payload.end()}});
  }
  Status flush() noexcept override { return Status(); }
  Status receive(bootstrap::FrameType& type, std::vector<std::byte>& payload) override {
    if (in_->frames.empty()) {
      return Status(in_->is_closed ? StatusCode::kAborted : StatusCode::kWouldBlock);
    }
    Way::Frame& frame = in_->frames.front();
    if (frame.due > fabric_->now()) return Status(StatusCode::kWouldBlock);
    type = frame.type;
    payload = std::move(frame.payload);
    in_->frames.pop_front();
    return Status();
  }
  [[nodiscard]] const std::string& why() const noexcept override { return why_; }

 private:
  std::shared_ptr<FabricCore> fabric_;
  Duration delay_;
  std::shared_ptr<Way> out_, in_;
  std::string why_;
};

}  // namespace braid::sim
