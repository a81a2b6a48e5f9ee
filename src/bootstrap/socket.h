#pragma once

#include <braid/result.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace braid::bootstrap {

/// A non-blocking TCP socket. Every call retries EINTR and never raises SIGPIPE.
/// Owner: closes its descriptor. Thread: none.
class Socket {
 public:
  Socket() noexcept = default;
  explicit Socket(int descriptor) noexcept : descriptor_(descriptor) {}
  ~Socket() { close(); }
  Socket(Socket&& other) noexcept : descriptor_(other.release()) {}
  Socket& operator=(Socket&& other) noexcept {
    if (this != &other) {
      close();
      descriptor_ = other.release();
    }
    return *this;
  }

  /// Listens on a numeric address, empty = any (IPv6 with IPv4, else IPv4). Errors:
  /// kInvalidArgument (not an address), kIo with the errno.
  static Result<Socket> listen(std::string_view address, std::uint16_t port) noexcept;
  /// Begins to connect to a numeric address or a name; finish_connect() tells the outcome. A name
  /// may stand for several addresses: `skip` leaves out so many that were tried already.
  /// Errors: kNotFound (name, or no address left), kIo or kConnectionFailed with the errno.
  static Result<Socket> connect(std::string_view host, std::uint16_t port,
                                std::size_t skip = 0) noexcept;

  /// Ok, kWouldBlock, or kConnectionFailed with the errno.
  [[nodiscard]] Status finish_connect() noexcept;
  /// A socket of a peer; kWouldBlock when none waits; kIo with the errno.
  Result<Socket> accept() noexcept;

  /// Bytes moved, 0 = none at the moment. Errors: kAborted (the peer closed), kNetwork (errno).
  Result<std::size_t> send(std::span<const std::byte> data) noexcept;
  Result<std::size_t> receive(std::span<std::byte> buffer) noexcept;

  [[nodiscard]] int descriptor() const noexcept { return descriptor_; }
  [[nodiscard]] bool valid() const noexcept { return descriptor_ >= 0; }
  /// Port that a listening socket really has; 0 when it cannot be asked.
  [[nodiscard]] std::uint16_t local_port() const noexcept;
  /// "address:port" of the peer, or "an unknown peer".
  [[nodiscard]] std::string peer_name() const;
  void close() noexcept;

 private:
  int release() noexcept {
    const int out = descriptor_;
    descriptor_ = -1;
    return out;
  }
  int descriptor_ = -1;
};

}  // namespace braid::bootstrap
