#pragma once

#include <braid/connect.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/frame_stream.h"
#include "bootstrap/messages.h"
#include "channel/channel_core.h"

namespace braid {

/// State machine behind Connection: the stages of ConnectStage over one TCP connection. Both sides
/// run the same one; the listening side starts with the peer's capabilities already read.
class ConnectionImpl {
 public:
  /// The connecting side. Errors as Connection::connect().
  static Result<std::unique_ptr<ConnectionImpl>> connect(std::shared_ptr<DeviceCore> device,
                                                         std::string_view host, std::uint16_t port,
                                                         const ChannelOptions& options,
                                                         TimePoint now, std::string& why);
  /// The listening side. Problems show in step().
  static std::unique_ptr<ConnectionImpl> accepted(std::shared_ptr<DeviceCore> device,
                                                  bootstrap::FrameStream stream,
                                                  const bootstrap::Capabilities& theirs,
                                                  const ChannelOptions& options, TimePoint now);

  Status step(TimePoint now);
  [[nodiscard]] ConnectStage stage() const noexcept { return stage_; }
  [[nodiscard]] const std::string& why() const noexcept { return why_; }
  [[nodiscard]] int descriptor() noexcept { return stream_.socket().descriptor(); }
  [[nodiscard]] std::unique_ptr<ChannelCore> take() noexcept { return std::move(core_); }

 private:
  ConnectionImpl(std::shared_ptr<DeviceCore> device, bootstrap::FrameStream stream,
                 const ChannelOptions& options, TimePoint now);

  Status advance();
  Status finish_socket();
  Status exchange_capabilities();
  Status agree();
  Status create_queues();
  Status exchange_endpoints();
  Status modify_queues();
  Status await_ready();
  /// The next frame, which has to be of the given type.
  Status expect(bootstrap::FrameType type, std::vector<std::byte>& payload);
  Status fail(Status status, std::string why);
  [[nodiscard]] bootstrap::Capabilities capabilities() const noexcept;

  std::shared_ptr<DeviceCore> device_;
  bootstrap::FrameStream stream_;
  ChannelOptions options_;
  TimePoint deadline_;
  ConnectStage stage_ = ConnectStage::kInit;
  Status failure_;
  std::string why_;
  std::string host_;  // connecting side only
  std::uint16_t port_ = 0;
  std::size_t addresses_tried_ = 0;
  std::string peer_name_;
  bool have_theirs_ = false;
  bootstrap::Capabilities theirs_;
  bootstrap::Endpoints their_endpoints_;
  std::unique_ptr<ChannelCore> core_;
};

}  // namespace braid
