#include "bootstrap/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

namespace braid::bootstrap {
namespace {

constexpr int kBacklog = 4096;  // the system lowers it to its own limit

struct AddressDeleter {
  void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, AddressDeleter>;

// Repeats a call that a signal interrupted.
template <typename Call>
auto retry_interrupted(Call call) noexcept {
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

AddressList resolve(std::string_view host, std::uint16_t port, int flags, int family) {
  addrinfo hints{};
  hints.ai_family = family;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  const std::string node(host);
  const std::string service = std::to_string(port);
  const int error =
      ::getaddrinfo(node.empty() ? nullptr : node.c_str(), service.c_str(), &hints, &list);
  return AddressList(error == 0 ? list : nullptr);
}

void set_option(int descriptor, int level, int name) noexcept {
  const int one = 1;
  // Only a matter of latency or of quick restarts: a socket without it still works.
  (void)::setsockopt(descriptor, level, name, &one, sizeof one);
}

Result<Socket> listen_on(const addrinfo& entry, bool both_families) noexcept {
  Socket socket(::socket(entry.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Status::from_errno(StatusCode::kIo, errno);
  set_option(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR);
  if (entry.ai_family == AF_INET6) {
    const int only = both_families ? 0 : 1;
    (void)::setsockopt(socket.descriptor(), IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
  }
  if (::bind(socket.descriptor(), entry.ai_addr, entry.ai_addrlen) != 0 ||
      ::listen(socket.descriptor(), kBacklog) != 0) {
    return Status::from_errno(StatusCode::kIo, errno);
  }
  return socket;
}

bool would_block(int error) noexcept { return error == EAGAIN || error == EWOULDBLOCK; }

}  // namespace

Result<Socket> Socket::listen(std::string_view address, std::uint16_t port) noexcept {
  const int flags = AI_PASSIVE | AI_NUMERICHOST;
  if (address.empty()) {
    const AddressList any6 = resolve({}, port, flags, AF_INET6);
    if (any6) {
      Result<Socket> socket = listen_on(*any6, true);
      // A host without IPv6 still has IPv4; a port that is taken is taken on both.
      if (socket || socket.error().detail() == EADDRINUSE) return socket;
    }
    const AddressList any4 = resolve({}, port, flags, AF_INET);
    if (!any4) return Status(StatusCode::kIo);
    return listen_on(*any4, false);
  }
  const AddressList list = resolve(address, port, flags, AF_UNSPEC);
  if (!list) return Status(StatusCode::kInvalidArgument);
  return listen_on(*list, false);
}

Result<Socket> Socket::connect(std::string_view host, std::uint16_t port,
                               std::size_t skip) noexcept {
  const AddressList list = resolve(host, port, 0, AF_UNSPEC);
  const addrinfo* entry = list.get();
  for (; entry != nullptr && skip > 0; --skip) entry = entry->ai_next;
  if (entry == nullptr) return Status(StatusCode::kNotFound);
  Socket socket(::socket(entry->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return Status::from_errno(StatusCode::kIo, errno);
  set_option(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY);
  if (::connect(socket.descriptor(), entry->ai_addr, entry->ai_addrlen) != 0 &&
      errno != EINPROGRESS && errno != EINTR) {
    return Status::from_errno(StatusCode::kConnectionFailed, errno);
  }
  return socket;
}

Status Socket::finish_connect() noexcept {
  pollfd entry{descriptor_, POLLOUT, 0};
  const int ready = retry_interrupted([&] { return ::poll(&entry, 1, 0); });
  if (ready < 0) return Status::from_errno(StatusCode::kIo, errno);
  if (ready == 0) return Status(StatusCode::kWouldBlock);
  int error = 0;
  socklen_t size = sizeof error;
  if (::getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  return error == 0 ? Status() : Status::from_errno(StatusCode::kConnectionFailed, error);
}

Result<Socket> Socket::accept() noexcept {
  const int peer = retry_interrupted(
      [&] { return ::accept4(descriptor_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC); });
  if (peer >= 0) {
    set_option(peer, IPPROTO_TCP, TCP_NODELAY);
    return Socket(peer);
  }
  // accept(2): errors of the waiting connection itself are to be treated like "none waits".
  const int error = errno;
  if (would_block(error) || error == ECONNABORTED || error == EPROTO || error == ENETDOWN ||
      error == EHOSTDOWN || error == EHOSTUNREACH || error == ENETUNREACH || error == ENONET ||
      error == EPERM) {
    return Status(StatusCode::kWouldBlock);
  }
  return Status::from_errno(StatusCode::kIo, error);
}

Result<std::size_t> Socket::send(std::span<const std::byte> data) noexcept {
  const ssize_t sent = retry_interrupted(
      [&] { return ::send(descriptor_, data.data(), data.size(), MSG_NOSIGNAL); });
  if (sent >= 0) return static_cast<std::size_t>(sent);
  if (would_block(errno)) return std::size_t{0};
  return Status::from_errno(StatusCode::kNetwork, errno);
}

Result<std::size_t> Socket::receive(std::span<std::byte> buffer) noexcept {
  if (buffer.empty()) return std::size_t{0};
  const ssize_t got =
      retry_interrupted([&] { return ::recv(descriptor_, buffer.data(), buffer.size(), 0); });
  if (got > 0) return static_cast<std::size_t>(got);
  if (got == 0) return Status(StatusCode::kAborted);
  if (would_block(errno)) return std::size_t{0};
  return Status::from_errno(StatusCode::kNetwork, errno);
}

std::uint16_t Socket::local_port() const noexcept {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  std::array<char, NI_MAXSERV> service{};
  if (::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, nullptr, 0, service.data(),
                    service.size(), NI_NUMERICSERV) != 0) {
    return 0;
  }
  return static_cast<std::uint16_t>(std::stoul(service.data()));
}

std::string Socket::peer_name() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> service{};
  if (::getpeername(descriptor_, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(),
                    service.data(), service.size(), NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown peer";
  }
  return std::string(host.data()) + ":" + service.data();
}

void Socket::close() noexcept {
  // Linux frees the descriptor even when close() is interrupted, so it is not repeated.
  if (descriptor_ >= 0) ::close(descriptor_);
  descriptor_ = -1;
}

}  // namespace braid::bootstrap
