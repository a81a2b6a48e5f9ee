#pragma once

#include <braid/status.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bootstrap/messages.h"

namespace braid::bootstrap {

/// Where two sides exchange frames while no queue pair between them works: before there is one,
/// and when the control queue pair has died. Keeps order, loses nothing, and never waits.
///
/// Thread: none. Cost: allocates; it belongs on cold paths.
class ExchangeStream {
 public:
  ExchangeStream() = default;
  virtual ~ExchangeStream() = default;

  /// Queues a frame; flush() and receive() send it.
  virtual void send(FrameType type, std::span<const std::byte> payload) = 0;
  /// Sends what can be sent. Ok when everything is out, kWouldBlock, kAborted (the peer closed), or
  /// kNetwork.
  virtual Status flush() noexcept = 0;
  /// Takes the next whole frame. Ok, kWouldBlock, kAborted (the peer closed), kNetwork, or
  /// kProtocol; why() then says what was wrong.
  virtual Status receive(FrameType& type, std::vector<std::byte>& payload) = 0;
  [[nodiscard]] virtual const std::string& why() const noexcept = 0;

 protected:
  ExchangeStream(ExchangeStream&&) = default;
  ExchangeStream& operator=(ExchangeStream&&) = default;
};

}  // namespace braid::bootstrap
