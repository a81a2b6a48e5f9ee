#include <braid/connect.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <utility>

#include "channel/connection_impl.h"

namespace braid {

using bootstrap::FrameType;

namespace {

std::uint64_t system_random() {
  std::random_device device;
  return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

}  // namespace

ConnectionImpl::ConnectionImpl(std::shared_ptr<DeviceCore> device, bootstrap::FrameStream stream,
                               const ChannelOptions& options, TimePoint now)
    : device_(std::move(device)),
      stream_(std::move(stream)),
      options_(options),
      deadline_(now + options.connect_timeout) {}

Result<std::unique_ptr<ConnectionImpl>> ConnectionImpl::connect(std::shared_ptr<DeviceCore> device,
                                                                std::string_view host,
                                                                std::uint16_t port,
                                                                const ChannelOptions& options,
                                                                TimePoint now, std::string& why) {
  ChannelOptions resolved = options;
  const Status checked = resolve_options(*device, resolved, why);
  if (!checked.ok()) return checked;
  Result<bootstrap::Socket> socket = bootstrap::Socket::connect(host, port);
  if (!socket) {
    why = socket.error().code() == StatusCode::kNotFound
              ? "the host name " + std::string(host) + " has no address"
              : "nobody can be reached at " + std::string(host) + ":" + std::to_string(port) +
                    ": " + std::strerror(socket.error().detail());
    return socket.error();
  }
  std::unique_ptr<ConnectionImpl> impl(new ConnectionImpl(
      std::move(device), bootstrap::FrameStream(std::move(*socket)), resolved, now));
  impl->host_ = host;
  impl->port_ = port;
  impl->peer_name_ = std::string(host) + ":" + std::to_string(port);
  return impl;
}

std::unique_ptr<ConnectionImpl> ConnectionImpl::accepted(std::shared_ptr<DeviceCore> device,
                                                         bootstrap::FrameStream stream,
                                                         const bootstrap::Capabilities& theirs,
                                                         const ChannelOptions& options,
                                                         TimePoint now) {
  std::unique_ptr<ConnectionImpl> impl(
      new ConnectionImpl(std::move(device), std::move(stream), options, now));
  impl->peer_name_ = impl->stream_.socket().peer_name();
  impl->theirs_ = theirs;
  impl->have_theirs_ = true;
  impl->stage_ = ConnectStage::kSocketOk;
  if (impl->options_.lanes == 0) impl->options_.lanes = theirs.lanes;
  std::string why;
  const Status checked = resolve_options(*impl->device_, impl->options_, why);
  if (!checked.ok()) {
    (void)impl->fail(checked, std::move(why));
    return impl;
  }
  impl->stream_.send(FrameType::kCapabilities, bootstrap::encode(impl->capabilities()));
  return impl;
}

bootstrap::Capabilities ConnectionImpl::capabilities() const noexcept {
  bootstrap::Capabilities out;
  out.lanes = options_.lanes;
  out.notify_count = static_cast<std::uint32_t>(options_.notify_ids.size());
  out.window_segments = options_.window_segments;
  out.receive_depth = options_.receive_depth;
  return out;
}

Status ConnectionImpl::step(TimePoint now) {
  if (stage_ == ConnectStage::kReady) return Status();
  if (stage_ == ConnectStage::kFailed) return failure_;
  const Status status = advance();
  if (status.code() == StatusCode::kWouldBlock && now >= deadline_) {
    return fail(
        Status(StatusCode::kTimeout),
        "the peer " + peer_name_ + " did not answer in time" +
            (stage_ == ConnectStage::kInit ? " (no TCP connection)" : " (during the handshake)"));
  }
  if (!status.ok()) return status;
  return stage_ == ConnectStage::kReady ? Status() : Status(StatusCode::kWouldBlock);
}

Status ConnectionImpl::advance() {
  if (stage_ != ConnectStage::kInit) {
    const Status flushed = stream_.flush();
    // A peer that closed may have said why before: reading below finds out.
    if (flushed.code() == StatusCode::kWouldBlock) return flushed;
  }
  switch (stage_) {
    case ConnectStage::kInit: return finish_socket();
    case ConnectStage::kSocketOk: return exchange_capabilities();
    case ConnectStage::kCapExchanged: return create_queues();
    case ConnectStage::kQpCreated: return exchange_endpoints();
    case ConnectStage::kDataExchange: return modify_queues();
    case ConnectStage::kQpModified: return await_ready();
    case ConnectStage::kReady:
    case ConnectStage::kFailed: break;
  }
  return failure_;
}

Status ConnectionImpl::finish_socket() {
  const Status status = stream_.socket().finish_connect();
  if (status.code() == StatusCode::kWouldBlock) return status;
  if (!status.ok()) {
    // The name may have further addresses.
    Result<bootstrap::Socket> next = bootstrap::Socket::connect(host_, port_, ++addresses_tried_);
    if (next) {
      stream_ = bootstrap::FrameStream(std::move(*next));
      return Status(StatusCode::kWouldBlock);
    }
    return fail(status, "nobody can be reached at " + peer_name_ + ": " +
                            std::strerror(status.detail()) + " (does the peer listen there?)");
  }
  stage_ = ConnectStage::kSocketOk;
  stream_.send(FrameType::kCapabilities, bootstrap::encode(capabilities()));
  return Status();
}

Status ConnectionImpl::exchange_capabilities() {
  if (!have_theirs_) {
    std::vector<std::byte> payload;
    const Status status = expect(FrameType::kCapabilities, payload);
    if (!status.ok()) return status;
    if (!bootstrap::decode(payload, theirs_).ok()) {
      return fail(Status(StatusCode::kProtocol),
                  "the peer " + peer_name_ + " declared impossible capabilities");
    }
    have_theirs_ = true;
  }
  return agree();
}

Status ConnectionImpl::agree() {
  std::string why;
  const Status status = bootstrap::compare(capabilities(), theirs_, why);
  if (!status.ok()) return fail(status, std::move(why));
  stage_ = ConnectStage::kCapExchanged;
  return Status();
}

Status ConnectionImpl::create_queues() {
  ChannelCore::Agreed agreed;
  agreed.window_segments = std::min(options_.window_segments, theirs_.window_segments);
  agreed.peer_receive_depth = theirs_.receive_depth;
  std::string why;
  Result<std::unique_ptr<ChannelCore>> core =
      ChannelCore::create(device_, options_, agreed, system_random(), why);
  if (!core) return fail(core.error(), why + ": " + core.error().to_string());
  core_ = std::move(*core);
  stage_ = ConnectStage::kQpCreated;
  stream_.send(FrameType::kEndpoints, bootstrap::encode(core_->endpoints()));
  return Status();
}

Status ConnectionImpl::exchange_endpoints() {
  std::vector<std::byte> payload;
  const Status status = expect(FrameType::kEndpoints, payload);
  if (!status.ok()) return status;
  if (!bootstrap::decode(payload, their_endpoints_).ok()) {
    return fail(Status(StatusCode::kProtocol),
                "the peer " + peer_name_ + " described its queue pairs wrongly");
  }
  stage_ = ConnectStage::kDataExchange;
  return Status();
}

Status ConnectionImpl::modify_queues() {
  std::string why;
  const Status status = core_->connect(their_endpoints_, why);
  if (!status.ok()) return fail(status, why + ": " + status.to_string());
  stage_ = ConnectStage::kQpModified;
  stream_.send(FrameType::kReady, {});
  return Status();
}

Status ConnectionImpl::await_ready() {
  std::vector<std::byte> payload;
  const Status status = expect(FrameType::kReady, payload);
  if (!status.ok()) return status;
  stage_ = ConnectStage::kReady;
  core_->keep_stream(std::make_unique<bootstrap::FrameStream>(std::move(stream_)));
  return Status();
}

Status ConnectionImpl::expect(FrameType type, std::vector<std::byte>& payload) {
  FrameType got = type;
  const Status status = stream_.receive(got, payload);
  if (status.code() == StatusCode::kWouldBlock) return status;
  if (status.code() == StatusCode::kProtocol) {
    return fail(status, "the peer " + peer_name_ + " was dropped: " + stream_.why());
  }
  if (!status.ok()) {
    return fail(Status(StatusCode::kConnectionFailed),
                "the peer " + peer_name_ + " closed the connection during the handshake");
  }
  if (got == FrameType::kRefuse) {
    return fail(Status(StatusCode::kConnectionFailed),
                "the peer " + peer_name_ + " refused: " + bootstrap::printable(payload));
  }
  if (got != type) {
    return fail(Status(StatusCode::kProtocol),
                "the peer " + peer_name_ + " sent handshake messages out of order");
  }
  return Status();
}

Status ConnectionImpl::fail(Status status, std::string why) {
  failure_ = status;
  why_ = std::move(why);
  if (stage_ != ConnectStage::kInit) {
    const std::string_view text = std::string_view(why_).substr(0, bootstrap::kMaxReasonBytes);
    stream_.send(FrameType::kRefuse, std::as_bytes(std::span(text)));
    (void)stream_.flush();  // a courtesy: the peer also has its own deadline
  }
  stage_ = ConnectStage::kFailed;
  stream_.socket().close();
  core_.reset();
  return status;
}

Result<Connection> Connection::connect(const Device& device, std::string_view host,
                                       std::uint16_t port, const ChannelOptions& options,
                                       TimePoint now, std::string* why) noexcept {
  std::string reason;
  Result<std::unique_ptr<ConnectionImpl>> impl =
      ConnectionImpl::connect(device.core(), host, port, options, now, reason);
  if (!impl) {
    if (why != nullptr) *why = reason;
    return impl.error();
  }
  return Connection(std::move(*impl));
}

Connection::Connection(std::unique_ptr<ConnectionImpl> impl) noexcept : impl_(std::move(impl)) {}
Connection::~Connection() = default;
Connection::Connection(Connection&&) noexcept = default;
Connection& Connection::operator=(Connection&&) noexcept = default;

Status Connection::step(TimePoint now) noexcept { return impl_->step(now); }
ConnectStage Connection::stage() const noexcept { return impl_->stage(); }
const std::string& Connection::why() const noexcept { return impl_->why(); }
int Connection::descriptor() const noexcept { return impl_->descriptor(); }
std::unique_ptr<Channel> Connection::take() noexcept {
  std::unique_ptr<ChannelCore> core = impl_->take();
  return core == nullptr ? nullptr : std::make_unique<Channel>(std::move(core));
}

}  // namespace braid
