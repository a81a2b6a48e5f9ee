#pragma once

#include <braid/status.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/exchange_stream.h"
#include "bootstrap/messages.h"
#include "bootstrap/socket.h"

namespace braid::bootstrap {

/// Frames over one TCP connection.
///
/// Memory: at most one incoming frame (64 KiB) and the frames queued by send(), of which a
/// handshake has three and a channel at most twice ControlBudget::kReceives.
class FrameStream final : public ExchangeStream {
 public:
  explicit FrameStream(Socket socket) noexcept : socket_(std::move(socket)) {}

  void send(FrameType type, std::span<const std::byte> payload) override;
  Status flush() noexcept override;
  Status receive(FrameType& type, std::vector<std::byte>& payload) override;
  [[nodiscard]] const std::string& why() const noexcept override { return why_; }

  [[nodiscard]] Socket& socket() noexcept { return socket_; }
  [[nodiscard]] bool anything_received() const noexcept { return filled_ > 0; }

 private:
  Socket socket_;
  std::vector<std::byte> out_;
  std::size_t out_sent_ = 0;
  std::vector<std::byte> in_ = std::vector<std::byte>(kHeaderBytes);
  std::size_t filled_ = 0;
  bool header_done_ = false;
  FrameHeader header_;
  std::string why_;
};

}  // namespace braid::bootstrap
