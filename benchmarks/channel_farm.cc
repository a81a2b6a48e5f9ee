#include "channel_farm.h"

#include <braid/blocking.h>
#include <braid/connect.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <thread>

namespace braid::bench {
namespace {

constexpr Duration kPatience = std::chrono::seconds(60);

std::size_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  unsigned long total = 0, resident = 0;
  const int read = std::fscanf(file, "%lu %lu", &total, &resident);
  std::fclose(file);
  return read == 2 ? resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

/// Steps every connection on its way; moves those that are ready to `open`.
bool step_all(std::vector<Connection>& rising, std::vector<std::unique_ptr<Channel>>& open,
              Status& failure) {
  bool moved = false;
  for (std::size_t i = 0; i < rising.size();) {
    const ConnectStage stage = rising[i].stage();
    const Status status = rising[i].step(blocking::now());
    moved = moved || rising[i].stage() != stage;
    if (status.code() == StatusCode::kWouldBlock) {
      ++i;
      continue;
    }
    if (status.ok()) {
      open.push_back(rising[i].take());
    } else {
      failure = status;
      (void)std::fprintf(stderr, "connecting: %s\n", rising[i].why().c_str());
    }
    rising.erase(rising.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return moved;
}

/// Progresses every channel, and lets go of those that are closed.
bool progress_all(std::vector<std::unique_ptr<Channel>>& open) {
  bool moved = false;
  for (auto& channel : open) {
    moved = channel->progress(blocking::now()) || moved;
    if (channel->peer_closed()) channel->close();
  }
  std::erase_if(open, [](auto& channel) { return channel->state() != ChannelState::kOpen; });
  return moved;
}

[[noreturn]] void serve(const ChannelOptions& options, int pipe) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  raise_descriptor_limit();
  Result<Device> device = Device::open_soft({});
  Result<Listener> listener = Listener::create("127.0.0.1", 0);
  if (!device || !listener) ::_exit(1);
  const std::uint16_t port = listener->port();
  if (::write(pipe, &port, sizeof port) != sizeof port) ::_exit(1);
  std::vector<Connection> rising;
  std::vector<std::unique_ptr<Channel>> open;
  TimePoint next_look{};
  for (;;) {
    bool moved = false;
    Result<Connection> one = listener->poll(*device, options, blocking::now());
    if (one) {
      rising.push_back(std::move(*one));
      moved = true;
    }
    Status ignored;  // a peer that fails says so in its own process
    moved = step_all(rising, open, ignored) || moved;
    // Idle channels are looked at now and then: they wait for their peer's farewell only.
    if (blocking::now() >= next_look) {
      (void)progress_all(open);
      next_look = blocking::now() + std::chrono::milliseconds(5);
    }
    if (!moved) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

Status close_all(std::vector<std::unique_ptr<Channel>>& open) {
  for (auto& channel : open) channel->close();
  const TimePoint deadline = blocking::now() + kPatience;
  while (!open.empty()) {
    if (blocking::now() > deadline) return Status(StatusCode::kTimeout);
    if (!progress_all(open)) std::this_thread::yield();
  }
  return {};
}

}  // namespace

void raise_descriptor_limit() noexcept {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

Status ChannelFarm::start(const ChannelOptions& options) noexcept {
  int ends[2];
  if (::pipe(ends) != 0) return Status::from_errno(StatusCode::kInternal, errno);
  child_ = ::fork();
  if (child_ == 0) serve(options, ends[1]);
  ::close(ends[1]);
  const bool told = child_ > 0 && ::read(ends[0], &port_, sizeof port_) == sizeof port_;
  ::close(ends[0]);
  return told ? Status() : Status(StatusCode::kInternal);
}

ChannelFarm::~ChannelFarm() {
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  ::waitpid(child_, nullptr, 0);
}

Result<double> measure_connect(Device& device, const ChannelFarm& farm,
                               const ChannelOptions& options) noexcept {
  const TimePoint begin = blocking::now();
  Result<std::unique_ptr<Channel>> channel =
      blocking::connect(device, "127.0.0.1", farm.port(), options, kPatience);
  const std::chrono::duration<double> elapsed = blocking::now() - begin;
  if (!channel) return channel.error();
  std::vector<std::unique_ptr<Channel>> open;
  open.push_back(std::move(*channel));
  if (const Status status = close_all(open); !status.ok()) return status;
  return elapsed.count();
}

Result<CrowdFigures> measure_crowd(Device& device, const ChannelFarm& farm,
                                   const ChannelOptions& options, std::size_t count) noexcept {
  std::vector<Connection> rising;
  std::vector<std::unique_ptr<Channel>> open;
  rising.reserve(count);
  open.reserve(count);
  const std::size_t before = resident_bytes();
  const TimePoint begin = blocking::now();
  for (std::size_t i = 0; i < count; ++i) {
    Result<Connection> one =
        Connection::connect(device, "127.0.0.1", farm.port(), options, blocking::now());
    if (!one) return one.error();
    rising.push_back(std::move(*one));
    // It says who it is: of the silent ones a listener keeps few.
    for (int step = 0; step < 2; ++step) (void)rising.back().step(blocking::now());
  }
  Status failure;
  while (!rising.empty()) {
    if (!step_all(rising, open, failure)) std::this_thread::yield();
    if (!failure.ok()) return failure;
  }
  const std::chrono::duration<double> elapsed = blocking::now() - begin;
  const double grown = static_cast<double>(resident_bytes()) - static_cast<double>(before);
  if (const Status status = close_all(open); !status.ok()) return status;
  return CrowdFigures{elapsed.count(), grown / static_cast<double>(count)};
}

}  // namespace braid::bench
