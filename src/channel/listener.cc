#include <braid/connect.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "channel/connection_impl.h"

namespace braid {

using bootstrap::FrameType;

/// Sockets that have not introduced themselves yet, each with its deadline.
class ListenerImpl {
 public:
  explicit ListenerImpl(bootstrap::Socket socket) : socket_(std::move(socket)) {
    waiting_.reserve(kMaxWaiting);
  }

  Result<Connection> poll(const Device& device, const ChannelOptions& options, TimePoint now) {
    // Those who have introduced themselves come first, so that none of them counts as silent.
    Result<Connection> one = take_introduced(device, options, now);
    if (one) return one;
    const Status accepted = accept_waiting(now);
    if (!accepted.ok()) return accepted;
    return take_introduced(device, options, now);
  }

  [[nodiscard]] const bootstrap::Socket& socket() const noexcept { return socket_; }
  [[nodiscard]] std::uint64_t dropped() const noexcept { return dropped_; }

 private:
  static constexpr std::size_t kMaxWaiting = 64;
  static constexpr Duration kIntroduction = std::chrono::seconds(5);
  static constexpr Duration kGrace = std::chrono::milliseconds(100);

  struct Waiting {
    bootstrap::FrameStream stream;
    TimePoint accepted;
  };

  /// The first who has said properly who it is; kWouldBlock when nobody has.
  Result<Connection> take_introduced(const Device& device, const ChannelOptions& options,
                                     TimePoint now) {
    for (std::size_t i = 0; i < waiting_.size();) {
      FrameType type = FrameType::kReady;
      std::vector<std::byte> payload;
      bootstrap::Capabilities theirs;
      const Status status = waiting_[i].stream.receive(type, payload);
      if (status.code() == StatusCode::kWouldBlock && now < waiting_[i].accepted + kIntroduction) {
        ++i;
        continue;
      }
      bootstrap::FrameStream stream = std::move(waiting_[i].stream);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      if (!status.ok() || type != FrameType::kCapabilities ||
          !bootstrap::decode(payload, theirs).ok()) {
        ++dropped_;  // and the socket closes: whoever it was, the next peer is served
        continue;
      }
      return Connection(
          ConnectionImpl::accepted(device.core(), std::move(stream), theirs, options, now));
    }
    return Status(StatusCode::kWouldBlock);
  }

  /// Accepts while there is room. When there is none, the oldest makes room if it has been silent
  /// for a while: silent sockets must not keep an honest peer out, nor many honest ones each other.
  /// What is not accepted stays in the backlog.
  Status accept_waiting(TimePoint now) {
    for (std::size_t i = 0; i < kMaxWaiting; ++i) {
      const bool full = waiting_.size() == kMaxWaiting;
      if (full && now < waiting_.front().accepted + kGrace) return Status();
      Result<bootstrap::Socket> peer = socket_.accept();
      if (!peer) {
        return peer.error().code() == StatusCode::kWouldBlock ? Status() : peer.error();
      }
      if (full) {
        waiting_.erase(waiting_.begin());
        ++dropped_;
      }
      waiting_.push_back({bootstrap::FrameStream(std::move(*peer)), now});
    }
    return Status();
  }

  bootstrap::Socket socket_;
  std::vector<Waiting> waiting_;
  std::uint64_t dropped_ = 0;
};

Result<Listener> Listener::create(std::string_view address, std::uint16_t port,
                                  std::string* why) noexcept {
  Result<bootstrap::Socket> socket = bootstrap::Socket::listen(address, port);
  if (!socket) {
    if (why != nullptr) {
      const Status status = socket.error();
      const std::string where =
          (address.empty() ? std::string("any address") : std::string(address)) + " port " +
          std::to_string(port);
      *why = status.code() == StatusCode::kInvalidArgument
                 ? "\"" + std::string(address) + "\" is not an address to listen on"
                 : "cannot listen on " + where + ": " + std::strerror(status.detail());
    }
    return socket.error();
  }
  return Listener(std::make_unique<ListenerImpl>(std::move(*socket)));
}

Listener::Listener(std::unique_ptr<ListenerImpl> impl) noexcept : impl_(std::move(impl)) {}
Listener::~Listener() = default;
Listener::Listener(Listener&&) noexcept = default;
Listener& Listener::operator=(Listener&&) noexcept = default;

Result<Connection> Listener::poll(const Device& device, const ChannelOptions& options,
                                  TimePoint now) noexcept {
  return impl_->poll(device, options, now);
}
std::uint16_t Listener::port() const noexcept { return impl_->socket().local_port(); }
int Listener::descriptor() const noexcept { return impl_->socket().descriptor(); }
std::uint64_t Listener::dropped_peers() const noexcept { return impl_->dropped(); }

}  // namespace braid
