#include "softverbs/udp_driver.h"

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <random>
#include <system_error>
#include <utility>

namespace braid::softverbs {
namespace {

std::uint64_t seed_from_system() {
  std::random_device device;
  return static_cast<std::uint64_t>(device()) << 32 | device();
}

TimePoint read_clock() noexcept {
  timespec time{};
  (void)::clock_gettime(CLOCK_MONOTONIC, &time);
  return TimePoint(std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec));
}

void explain(std::string* out, const char* text) {
  if (out != nullptr) *out = text;
}

}  // namespace

Result<std::unique_ptr<UdpDriver>> UdpDriver::create(const SoftDeviceOptions& options,
                                                     roce::EngineEvents& events,
                                                     std::string* error) noexcept {
  const std::uint64_t seed = options.seed != 0 ? options.seed : seed_from_system();
  auto wire = UdpWire::create(options, error);
  if (!wire) return wire.error();

  std::unique_ptr<PathShaper> shaper;
  if (!options.impairments.empty()) {
    auto made = PathShaper::create(options.impairments, seed);
    if (!made) {
      explain(error,
              "the soft device's impairments are not valid: at most one entry per source port, "
              "probabilities up to 1000000 ppm, times not negative, queue_packets at least 1");
      return made.error();
    }
    shaper = std::move(*made);
  }

  roce::EngineOptions engine_options;
  engine_options.window_packets = options.window_packets;
  engine_options.verify_icrc = options.verify_icrc;
  engine_options.seed = seed;
  // A QP's turn is what one segmented send takes.
  engine_options.burst_packets = UdpWire::packets_per_send((*wire)->max_mtu_bytes());
  auto engine = roce::Engine::create(engine_options, events);
  if (!engine) {
    explain(error, "the RoCE engine refuses the soft device's options: see window_packets");
    return engine.error();
  }

  std::unique_ptr<UdpDriver> driver(
      new UdpDriver(std::move(*wire), std::move(shaper), std::move(*engine)));
  if (const Status status = driver->start(); !status.ok()) {
    explain(error, "cannot start the soft device's thread: see `ulimit -n` and `ulimit -u`");
    return status;
  }
  return driver;
}

UdpDriver::UdpDriver(std::unique_ptr<UdpWire> wire, std::unique_ptr<PathShaper> shaper,
                     std::unique_ptr<roce::Engine> engine)
    : wire_(std::move(wire)),
      shaper_(std::move(shaper)),
      engine_(std::move(engine)),
      batch_(kBatchPackets),
      released_(shaper_ != nullptr ? kBatchPackets : 1) {}

Status UdpDriver::start() noexcept {
  wake_event_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  timer_ = FileDescriptor(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!wake_event_.valid() || !timer_.valid()) return Status::from_errno(StatusCode::kIo, errno);
  // The thread inherits the mask: signals are the application's business.
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  Status status;
  try {
    thread_ = std::thread([this] { run_thread(); });
  } catch (const std::system_error& failure) {
    status = Status::from_errno(StatusCode::kIo, failure.code().value());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return status;
}

UdpDriver::~UdpDriver() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    wake_thread();
  }
  thread_.join();
}

TimePoint UdpDriver::now() noexcept { return read_clock(); }

Status UdpDriver::open_source_port(const roce::IpAddress& source, std::uint16_t port) noexcept {
  if (source != wire_->address()) return Status(StatusCode::kInvalidArgument);
  return wire_->open_source_port(port);
}

void UdpDriver::close_source_port(const roce::IpAddress& /*source*/, std::uint16_t port) noexcept {
  wire_->close_source_port(port);
}

void UdpDriver::after_post() noexcept {
  const TimePoint now = read_clock();
  const bool poller_active = leased_ && now - last_drive_.load() < kPollerGone;
  const bool first = posts_since_drive_ % kMaxDeferredPosts == 0;
  ++posts_since_drive_;
  // With a poller at work only the first of a series pays for a system call: latency matters to
  // it alone, and those behind it share one.
  if (!poller_active || first) (void)transmit(now);
  publish_work();
  attend_deadline();
}

void UdpDriver::drive() noexcept {
  const TimePoint called = read_clock();
  count_drive(called);
  const bool earns_lease = !leased_ && drives_in_a_row_ >= drives_for_lease_;
  // In small talk the answer is a packet away, and looking first would cost as much as receiving.
  const bool small_talk = leased_ && last_sent_packets_ <= kSmallTalkPackets;
  if (silent_ && !earns_lease && !small_talk && !has_work(called)) return;
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;

  const TimePoint now = read_clock();  // another thread may have been here since `called`
  posts_since_drive_ = 0;
  const std::size_t received = receive(now);
  const bool look_first =
      leased_ && !reply_pending_ && received != 0 && received <= kMessagesToLookAt;
  const bool sent = !look_first && transmit(now);
  reply_pending_ = look_first;
  // A long round is not an absence.
  if (!small_talk && (received != 0 || sent)) last_drive_ = read_clock();
  if (earns_lease && !leased_) {
    leased_ = true;
    if (watching_) wake_thread();
  }
  publish_work();
  if (!leased_) attend_deadline();
}

void UdpDriver::count_drive(TimePoint now) noexcept {
  const bool continued = now - last_drive_.load() < kPollerGone;
  last_drive_ = now;
  // Pollers on several threads may lose a count here, which only delays the lease.
  drives_in_a_row_ = continued ? drives_in_a_row_ + 1 : 1;
}

bool UdpDriver::has_work(TimePoint now) const noexcept {
  if (work_due_.load() <= now) return true;
  pollfd receive{wire_->receive_fd(), POLLIN, 0};
  return ::poll(&receive, 1, 0) != 0;
}

void UdpDriver::publish_work() noexcept {
  work_due_ = engine_->wants_transmit() ? TimePoint::min() : next_deadline();
}

void UdpDriver::flush() noexcept {
  (void)transmit(read_clock());
  publish_work();
}

void UdpDriver::on_armed() noexcept {
  drives_in_a_row_ = 0;
  if (!leased_) return;
  leased_ = false;
  wake_thread();
}

void UdpDriver::on_datagrams(std::span<const roce::RxDatagram> datagrams, TimePoint now) noexcept {
  for (const roce::RxDatagram& datagram : datagrams) engine_->handle_packet(datagram, now);
}

std::size_t UdpDriver::receive(TimePoint now) noexcept {
  // After silence a single message is what comes, if any: looking for a second one would cost more
  // than it finds.
  const std::size_t wanted = silent_ ? 1 : kMessagesPerRound;
  const std::size_t received = wire_->receive(*this, now, wanted);
  silent_ = received == 0;
  if (engine_->next_deadline() <= now) engine_->handle_timeout(now);
  return received;
}

bool UdpDriver::run_round(TimePoint now) noexcept {
  const std::size_t received = receive(now);
  const bool sent = transmit(now);
  publish_work();
  return sent || received != 0;
}

bool UdpDriver::transmit(TimePoint now) noexcept {
  reply_pending_ = false;
  bool sent = false;
  std::size_t packets = 0;
  for (int i = 0; i < kBatchesPerRound && engine_->wants_transmit(); ++i) {
    batch_.clear();
    engine_->poll_transmit(batch_, now);
    if (batch_.empty()) break;
    packets += batch_.size();
    send(batch_, now);
    sent = true;
  }
  if (sent) last_sent_packets_ = packets;
  if (shaper_ != nullptr) sent |= send_released(now);
  return sent;
}

void UdpDriver::send(roce::TxBatch& batch, TimePoint now) noexcept {
  const std::span<roce::TxPacket> packets = batch.packets();
  if (shaper_ == nullptr) {
    wire_->send(packets, batch.iovs());
    return;
  }
  std::size_t direct = 0;
  for (const roce::TxPacket& packet : packets) {
    if (shaper_->applies_to(packet.flow->source_port)) {
      shaper_->admit(packet, batch.iovs(), now);
    } else {
      packets[direct++] = packet;
    }
  }
  wire_->send(packets.first(direct), batch.iovs());
}

bool UdpDriver::send_released(TimePoint now) noexcept {
  bool sent = false;
  for (int i = 0; i < kBatchesPerRound && shaper_->next_deadline() <= now; ++i) {
    released_.clear();
    shaper_->release(released_, now);
    wire_->send(released_.packets(), released_.iovs());
    sent = true;
  }
  return sent;
}

TimePoint UdpDriver::next_deadline() const noexcept {
  const TimePoint engine = engine_->next_deadline();
  return shaper_ != nullptr ? std::min(engine, shaper_->next_deadline()) : engine;
}

}  // namespace braid::softverbs
