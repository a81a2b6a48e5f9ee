#include "udp_baseline.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <memory>
#include <vector>

namespace braid::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMessageBytes = 65536;
constexpr std::size_t kReceiveMessages = 32;
constexpr std::chrono::seconds kPatience{5};
constexpr std::uint8_t kStopByte = 0xFF;  // a datagram of this one byte ends the exchange

struct Endpoint {
  int fd;
  sockaddr_in peer;

  [[nodiscard]] bool send(const void* data, std::size_t bytes) const noexcept {
    return ::sendto(fd, data, bytes, 0, reinterpret_cast<const sockaddr*>(&peer), sizeof(peer)) ==
           static_cast<ssize_t>(bytes);
  }
};

/// A pair of UDP sockets on 127.0.0.1. Index 0 is the parent's, 1 the child's. They are not
/// connected, as a RoCE device's must not be: every message names its destination.
class SocketPair {
 public:
  explicit SocketPair(bool blocking) {
    const int flags = SOCK_DGRAM | SOCK_CLOEXEC | (blocking ? 0 : SOCK_NONBLOCK);
    for (std::size_t i = 0; i < 2; ++i) {
      fds_[i] = ::socket(AF_INET, flags, 0);
      addresses_[i].sin_family = AF_INET;
      addresses_[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
      socklen_t bytes = sizeof(sockaddr_in);
      auto* const address = reinterpret_cast<sockaddr*>(&addresses_[i]);
      if (fds_[i] < 0 || ::bind(fds_[i], address, bytes) != 0 ||
          ::getsockname(fds_[i], address, &bytes) != 0) {
        error_ = errno;
        return;
      }
      widen(fds_[i]);
    }
  }
  ~SocketPair() {
    for (const int fd : fds_) {
      if (fd >= 0) ::close(fd);
    }
  }
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;

  [[nodiscard]] int error() const noexcept { return error_; }
  /// One end: its own descriptor and where the other end is.
  [[nodiscard]] Endpoint end(std::size_t i) const noexcept { return {fds_[i], addresses_[1 - i]}; }

 private:
  static void widen(int fd) noexcept {
    const int bytes = 8 << 20;
    for (const auto& [forced, plain] :
         {std::pair(SO_RCVBUFFORCE, SO_RCVBUF), std::pair(SO_SNDBUFFORCE, SO_SNDBUF)}) {
      if (::setsockopt(fd, SOL_SOCKET, forced, &bytes, sizeof(bytes)) != 0) {
        (void)::setsockopt(fd, SOL_SOCKET, plain, &bytes, sizeof(bytes));
      }
    }
    const timeval patience{kPatience.count(), 0};
    (void)::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  }

  std::array<int, 2> fds_{-1, -1};
  std::array<sockaddr_in, 2> addresses_{};
  int error_ = 0;
};

/// A forked process. The destructor ends it if it has not ended by itself.
class PeerProcess {
 public:
  template <typename Body>
  explicit PeerProcess(Body body) : pid_(::fork()) {
    if (pid_ != 0) return;
    (void)::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::_exit(body() ? 0 : 1);
  }
  ~PeerProcess() {
    if (pid_ <= 0) return;
    (void)::kill(pid_, SIGKILL);
    (void)::waitpid(pid_, nullptr, 0);
  }
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  [[nodiscard]] bool valid() const noexcept { return pid_ > 0; }

 private:
  pid_t pid_;
};

Status failure(int error) noexcept {
  const bool late = error == EAGAIN || error == EWOULDBLOCK;
  return Status::from_errno(late ? StatusCode::kTimeout : StatusCode::kIo, error);
}

/// Message headers over buffers of their own.
class MessageBlock {
 public:
  MessageBlock(std::size_t count, std::size_t bytes_each)
      : buffer_(count * bytes_each, 0x5A), iovs_(count), headers_(count), control_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      iovs_[i] = {buffer_.data() + i * bytes_each, bytes_each};
      headers_[i].msg_hdr.msg_iov = &iovs_[i];
      headers_[i].msg_hdr.msg_iovlen = 1;
    }
  }
  [[nodiscard]] mmsghdr* headers() noexcept { return headers_.data(); }
  [[nodiscard]] std::size_t count() const noexcept { return headers_.size(); }
  [[nodiscard]] const std::uint8_t* data(std::size_t i) const noexcept {
    return static_cast<const std::uint8_t*>(iovs_[i].iov_base);
  }
  void address_to(const sockaddr_in& peer) noexcept {
    peer_ = peer;
    for (mmsghdr& header : headers_) {
      header.msg_hdr.msg_name = &peer_;
      header.msg_hdr.msg_namelen = sizeof(peer_);
    }
  }
  void offer_control() noexcept {
    for (std::size_t i = 0; i < headers_.size(); ++i) {
      headers_[i].msg_hdr.msg_control = control_[i].data();
      headers_[i].msg_hdr.msg_controllen = control_[i].size();
    }
  }

 private:
  std::vector<std::uint8_t> buffer_;
  std::vector<iovec> iovs_;
  std::vector<mmsghdr> headers_;
  struct alignas(cmsghdr) Control : std::array<std::uint8_t, 64> {};
  std::vector<Control> control_;
  sockaddr_in peer_{};
};

std::size_t datagrams_in(mmsghdr& message) noexcept {
  for (cmsghdr* c = CMSG_FIRSTHDR(&message.msg_hdr); c != nullptr;
       c = CMSG_NXTHDR(&message.msg_hdr, c)) {
    if (c->cmsg_level != IPPROTO_UDP || c->cmsg_type != UDP_GRO) continue;
    int size = 0;
    std::memcpy(&size, CMSG_DATA(c), sizeof(size));
    return (message.msg_len + static_cast<std::size_t>(size) - 1) / static_cast<std::size_t>(size);
  }
  return 1;
}

/// The child of (a) and (b): counts and acknowledges until it is told to stop.
bool receive_and_count(const Endpoint& end, const UdpBaselineOptions& options) {
  MessageBlock messages(kReceiveMessages, kMessageBytes);
  const std::uint64_t step = std::max<std::uint64_t>(options.window_count / 4, 1);
  std::uint64_t received = 0;
  std::uint64_t acknowledged = 0;
  for (bool stop = false; !stop;) {
    messages.offer_control();
    const int got =
        ::recvmmsg(end.fd, messages.headers(), kReceiveMessages, MSG_WAITFORONE, nullptr);
    if (got <= 0) return false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(got); ++i) {
      mmsghdr& message = messages.headers()[i];
      const bool last = message.msg_len == 1 && *messages.data(i) == kStopByte;
      stop |= last;
      if (!last) received += datagrams_in(message);
    }
    if (received - acknowledged < step && !stop) continue;
    acknowledged = received;
    if (!end.send(&received, sizeof(received))) return false;
  }
  return true;
}

/// The parent of (a) and (b).
class WindowedSender {
 public:
  WindowedSender(const Endpoint& end, const UdpBaselineOptions& options, bool segmented)
      : end_(end),
        options_(options),
        messages_(
            segmented ? 1 : options.batch_count,
            segmented ? options.batch_count * options.datagram_bytes : options.datagram_bytes) {
    messages_.address_to(end.peer);
  }

  Result<UdpGoodput> run() noexcept {
    const auto warm = Clock::now() + options_.duration / 10;
    if (const Status status = run_until(warm); !status.ok()) return status;
    const std::uint64_t first_count = acknowledged_;
    const auto first_time = acknowledged_at_;
    if (const Status status = run_until(first_time + options_.duration); !status.ok()) {
      return status;
    }
    UdpGoodput out;
    const std::chrono::duration<double> seconds = acknowledged_at_ - first_time;
    const auto datagrams = static_cast<double>(acknowledged_ - first_count);
    out.bytes_per_second =
        datagrams * static_cast<double>(options_.datagram_bytes) / seconds.count();

    if (!end_.send(&kStopByte, 1)) return failure(errno);
    // The answer to the stop is the last; what it leaves uncounted was lost.
    std::uint64_t total = acknowledged_;
    const timeval short_wait{0, 200'000};
    (void)::setsockopt(end_.fd, SOL_SOCKET, SO_RCVTIMEO, &short_wait, sizeof(short_wait));
    while (total < sent_ && ::recv(end_.fd, &total, sizeof(total), 0) == sizeof(total)) {
    }
    out.lost_datagrams = sent_ - total;
    return out;
  }

 private:
  Status run_until(Clock::time_point end) noexcept {
    while (acknowledged_at_ < end) {
      if (sent_ - acknowledged_ + options_.batch_count <= options_.window_count) {
        const auto count = static_cast<unsigned>(messages_.count());
        const int sent = ::sendmmsg(end_.fd, messages_.headers(), count, 0);
        if (sent < 0 && errno != ENOBUFS) return failure(errno);
        if (sent > 0) sent_ += options_.batch_count / count * static_cast<std::uint64_t>(sent);
        if (!take_acknowledgement(MSG_DONTWAIT) && errno != EAGAIN) return failure(errno);
      } else if (!take_acknowledgement(0)) {
        return failure(errno);
      }
    }
    return Status();
  }

  bool take_acknowledgement(int flags) noexcept {
    std::uint64_t count = 0;
    if (::recv(end_.fd, &count, sizeof(count), flags) != sizeof(count)) return false;
    acknowledged_ = count;
    acknowledged_at_ = Clock::now();
    return true;
  }

  Endpoint end_;
  const UdpBaselineOptions& options_;
  MessageBlock messages_;
  std::uint64_t sent_ = 0;
  std::uint64_t acknowledged_ = 0;
  Clock::time_point acknowledged_at_{};
};

Result<UdpGoodput> measure(const UdpBaselineOptions& options, bool segmented) noexcept {
  const SocketPair sockets(true);
  if (sockets.error() != 0) return failure(sockets.error());
  if (segmented) {
    const int segment_bytes = static_cast<int>(options.datagram_bytes);
    const int on = 1;
    if (::setsockopt(sockets.end(0).fd, IPPROTO_UDP, UDP_SEGMENT, &segment_bytes,
                     sizeof(segment_bytes)) != 0 ||
        ::setsockopt(sockets.end(1).fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) != 0) {
      return Status::from_errno(StatusCode::kNotSupported, errno);
    }
  }
  const PeerProcess peer([&] { return receive_and_count(sockets.end(1), options); });
  if (!peer.valid()) return failure(errno);
  return WindowedSender(sockets.end(0), options, segmented).run();
}

/// Spins until a datagram is there. False when none comes.
bool spin_receive(int fd) noexcept {
  constexpr std::uint32_t kSpinsPerLook = 1U << 16U;
  const auto give_up = Clock::now() + kPatience;
  std::uint64_t value = 0;
  for (std::uint32_t spins = 1;; ++spins) {
    if (::recv(fd, &value, sizeof(value), 0) == sizeof(value)) return true;
    if (errno != EAGAIN && errno != EWOULDBLOCK) return false;
    if (spins % kSpinsPerLook == 0 && Clock::now() > give_up) {
      errno = EAGAIN;
      return false;
    }
  }
}

bool send_one(const Endpoint& end) noexcept {
  const std::uint64_t value = 0;
  return end.send(&value, sizeof(value));
}

}  // namespace

Result<UdpGoodput> measure_udp_batches(const UdpBaselineOptions& options) noexcept {
  return measure(options, false);
}

Result<UdpGoodput> measure_udp_segmented(const UdpBaselineOptions& options) noexcept {
  return measure(options, true);
}

Result<double> measure_udp_ping_pong(std::uint64_t round_trips) noexcept {
  const std::uint64_t warm_up = round_trips / 10;
  const SocketPair sockets(false);
  if (sockets.error() != 0) return failure(sockets.error());
  const PeerProcess peer([&] {
    for (std::uint64_t i = 0; i < warm_up + round_trips; ++i) {
      if (!spin_receive(sockets.end(1).fd) || !send_one(sockets.end(1))) return false;
    }
    return true;
  });
  if (!peer.valid()) return failure(errno);
  Clock::time_point start{};
  for (std::uint64_t i = 0; i < warm_up + round_trips; ++i) {
    if (i == warm_up) start = Clock::now();
    if (!send_one(sockets.end(0)) || !spin_receive(sockets.end(0).fd)) return failure(errno);
  }
  const std::chrono::duration<double> seconds = Clock::now() - start;
  return seconds.count() / static_cast<double>(round_trips);
}

}  // namespace braid::bench
