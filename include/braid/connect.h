#pragma once

#include <braid/channel.h>
#include <braid/channel_options.h>
#include <braid/device.h>
#include <braid/result.h>
#include <braid/time.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace braid {

/// TCP port of the exchange when none is given.
inline constexpr std::uint16_t kDefaultBootstrapPort = 60001;

/// Where a connection stands. Each step() passes at most one stage.
enum class ConnectStage : std::uint8_t {
  kInit,
  kSocketOk,      // the TCP connection stands
  kCapExchanged,  // both sides' capabilities were compared and agree
  kQpCreated,     // queues exist, receives are posted
  kDataExchange,  // queue pair numbers, PSNs, GIDs and regions were exchanged
  kQpModified,    // all queue pairs can send
  kReady,         // both sides said so; the TCP connection is kept for repairs only
  kFailed,
};

class ConnectionImpl;

/// A channel on its way up. Sans-blocking: call step() until it stops saying kWouldBlock.
///
/// Thread: none; the owner serialises. Deadlines come from ChannelOptions::connect_timeout.
class Connection {
 public:
  /// Begins connecting to a listener. `host` is an address or a name (looked up here, which may
  /// block in the resolver). Errors: kNotFound (name), kInvalidArgument (options; `why` names
  /// which), kIo (no socket).
  static Result<Connection> connect(const Device& device, std::string_view host, std::uint16_t port,
                                    const ChannelOptions& options, TimePoint now,
                                    std::string* why = nullptr) noexcept;

  explicit Connection(std::unique_ptr<ConnectionImpl> impl) noexcept;
  ~Connection();
  Connection(Connection&&) noexcept;
  Connection& operator=(Connection&&) noexcept;

  /// Does what can be done without waiting. Ok: take() the channel. kWouldBlock: not yet.
  /// Anything else is final, and why() says it in one sentence: kTimeout, kConnectionFailed (the
  /// sides disagree, or nobody listens), kProtocol (the peer speaks something else), kPermission,
  /// kOutOfMemory, kIo, kNetwork.
  [[nodiscard]] Status step(TimePoint now) noexcept;

  [[nodiscard]] ConnectStage stage() const noexcept;
  [[nodiscard]] const std::string& why() const noexcept;
  /// Descriptor to wait on (poll(2)); -1 when there is none.
  [[nodiscard]] int descriptor() const noexcept;
  /// The channel, once step() said ok. Call it once.
  [[nodiscard]] std::unique_ptr<Channel> take() noexcept;

 private:
  std::unique_ptr<ConnectionImpl> impl_;
};

class ListenerImpl;

/// Listens for peers. A socket that says nothing, speaks garbage or dies is dropped after its
/// deadline, counted, and never stops the listener.
class Listener {
 public:
  /// `address` is an IPv4 or IPv6 address, empty = any. `port` 0 = the system chooses: see port().
  /// Errors: kInvalidArgument (address), kIo (the errno says e.g. that it is taken).
  static Result<Listener> create(std::string_view address, std::uint16_t port,
                                 std::string* why = nullptr) noexcept;

  explicit Listener(std::unique_ptr<ListenerImpl> impl) noexcept;
  ~Listener();
  Listener(Listener&&) noexcept;
  Listener& operator=(Listener&&) noexcept;

  /// Accepts and reads without waiting. Gives a Connection once a peer has introduced itself
  /// properly; kWouldBlock before that. Peers that did not are counted and dropped.
  Result<Connection> poll(const Device& device, const ChannelOptions& options,
                          TimePoint now) noexcept;

  [[nodiscard]] std::uint16_t port() const noexcept;
  [[nodiscard]] int descriptor() const noexcept;
  /// Sockets dropped because they were silent, spoke garbage or closed early.
  [[nodiscard]] std::uint64_t dropped_peers() const noexcept;

 private:
  std::unique_ptr<ListenerImpl> impl_;
};

}  // namespace braid
