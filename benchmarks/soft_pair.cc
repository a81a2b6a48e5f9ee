#include "soft_pair.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <utility>

#include "verbs/rc_setup.h"

namespace braid::bench {
namespace {

constexpr std::uint32_t kDepth = 128;
constexpr std::uint32_t kInlineBytes = 64;
constexpr unsigned kPatienceSeconds = 120;

TimePoint read_clock() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return TimePoint(std::chrono::seconds(time.tv_sec) + Duration(time.tv_nsec));
}

Status internal(int error = 0) noexcept { return Status::from_errno(StatusCode::kInternal, error); }

bool send_all(int socket, const void* data, std::size_t bytes) noexcept {
  return ::send(socket, data, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}
bool receive_all(int socket, void* data, std::size_t bytes) noexcept {
  return ::recv(socket, data, bytes, MSG_WAITALL) == static_cast<ssize_t>(bytes);
}

struct MemoryCard {
  std::uint64_t address;
  std::uint32_t key;
};

/// Runs `child` in a forked process with one end of a socket pair, `parent` here with the other.
/// The child's exit status is the verdict of its side.
Result<double> run_pair(const std::function<bool(int)>& child,
                        const std::function<Result<double>(int)>& parent) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) != 0) return internal(errno);
  std::fflush(stdout);
  const pid_t pid = ::fork();
  if (pid < 0) return internal(errno);
  if (pid == 0) {
    ::alarm(kPatienceSeconds);  // whatever happens to the parent, it ends
    ::close(sockets[0]);
    const bool good = child(sockets[1]);
    ::_exit(good ? 0 : 1);
  }
  ::close(sockets[1]);
  Result<double> result = parent(sockets[0]);
  ::close(sockets[0]);  // tells the child to leave
  int status = 0;
  ::waitpid(pid, &status, 0);
  if (result && status != 0) return internal();
  return result;
}

/// Posts a write for each that completes, until a point in time. Returns the WRs completed.
Result<std::uint64_t> pump_writes(SoftEnd& end, std::uint32_t message_bytes, TimePoint until) {
  std::uint64_t completed = 0;
  ibv_wc done[16];
  while (read_clock() < until) {
    const int count = ibv_poll_cq(end.cq(), 16, done);
    if (count < 0) return internal();
    for (int i = 0; i < count; ++i) {
      if (done[i].status != IBV_WC_SUCCESS) return Status::from_completion(done[i].status);
      ++completed;
      const auto qp = static_cast<std::uint32_t>(done[i].wr_id);
      const Status posted = end.post_write(qp, message_bytes, qp, false, 0, 0);
      if (!posted.ok()) return posted;
    }
  }
  return completed;
}

std::size_t resident_bytes() {
  std::FILE* file = std::fopen("/proc/self/statm", "r");
  unsigned long size = 0;
  unsigned long resident = 0;
  if (file == nullptr || std::fscanf(file, "%lu %lu", &size, &resident) != 2) resident = 0;
  if (file != nullptr) std::fclose(file);
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// What the buffer of the writing side holds, so that the other side can tell that it arrived.
std::uint8_t pattern_at(std::size_t offset) noexcept {
  return static_cast<std::uint8_t>(offset * 131 + offset / 4096 + 1);
}

bool wait_for(SoftEnd& end, const std::atomic_ref<std::uint64_t>& word, std::uint64_t value) {
  ibv_wc done[4];
  // A peer that has died does not answer; the clock is looked at seldom enough not to be seen.
  constexpr std::uint64_t kPollsPerLook = 1U << 20U;
  const TimePoint give_up = read_clock() + std::chrono::seconds(kPatienceSeconds);
  for (std::uint64_t polls = 1; word.load(std::memory_order_acquire) != value; ++polls) {
    if (polls % kPollsPerLook == 0 && read_clock() > give_up) return false;
    const int count = ibv_poll_cq(end.cq(), 4, done);
    for (int i = 0; i < count; ++i) {
      if (done[i].status != IBV_WC_SUCCESS) return false;
    }
    if (count < 0) return false;
  }
  return true;
}

/// One side of the rounds [from, to]. The word received lies at 0, the word sent at 8.
bool play(SoftEnd& end, std::uint64_t from, std::uint64_t to, bool first) {
  std::atomic_ref<std::uint64_t> inbox(
      *static_cast<std::uint64_t*>(static_cast<void*>(end.buffer())));
  for (std::uint64_t round = from; round <= to; ++round) {
    if (!first && !wait_for(end, inbox, round)) return false;
    std::memcpy(end.buffer() + 8, &round, sizeof round);
    if (!end.post_write(0, 8, round, true, 8, 0).ok()) return false;
    if (first && !wait_for(end, inbox, round)) return false;
  }
  return true;
}

}  // namespace

Status SoftEnd::open(std::uint32_t qp_count, std::size_t buffer_bytes) noexcept {
  auto api = softverbs::SoftVerbs::create(SoftDeviceOptions{});
  if (!api) return api.error();
  api_ = std::move(api).value();
  ibv_device** list = api_->get_device_list(nullptr);
  context_ = api_->open_device(list[0]);
  api_->free_device_list(list);
  if (context_ == nullptr) return internal(errno);
  pd_ = api_->alloc_pd(context_);
  buffer_ = std::make_unique<std::uint8_t[]>(buffer_bytes);
  mr_ = api_->reg_mr_iova(pd_, buffer_.get(), buffer_bytes,
                          reinterpret_cast<std::uint64_t>(buffer_.get()),
                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  cq_ = api_->create_cq(context_, static_cast<int>(std::min(qp_count * 2 * kDepth, 1U << 20U)),
                        nullptr, nullptr, 0);
  if (pd_ == nullptr || mr_ == nullptr || cq_ == nullptr) return internal(errno);
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = cq_;
  init.cap = {kDepth, kDepth, 1, 1, kInlineBytes};
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 1;
  for (std::uint32_t i = 0; i < qp_count; ++i) {
    ibv_qp* qp = api_->create_qp(pd_, &init);
    if (qp == nullptr) return internal(errno);
    qps_.push_back(qp);
  }
  return {};
}

SoftEnd::~SoftEnd() {
  for (ibv_qp* qp : qps_) api_->destroy_qp(qp);
  if (cq_ != nullptr) api_->destroy_cq(cq_);
  if (mr_ != nullptr) api_->dereg_mr(mr_);
  if (pd_ != nullptr) api_->dealloc_pd(pd_);
  if (context_ != nullptr) api_->close_device(context_);
}

Status SoftEnd::connect(int socket) noexcept {
  verbs::RcOptions options;
  for (ibv_qp* qp : qps_) {
    verbs::QpEndpoint own;
    own.qpn = qp->qp_num;
    own.psn = qp->qp_num & 0xFFFFFF;
    own.mtu = IBV_MTU_4096;
    own.rd_atomic = 16;
    api_->query_gid(context_, 1, 0, &own.gid);
    verbs::QpEndpoint peer = own;  // to itself, where there is no socket
    if (socket >= 0 &&
        (!send_all(socket, &own, sizeof own) || !receive_all(socket, &peer, sizeof peer))) {
      return internal(errno);
    }
    if (const Status status = verbs::connect_rc(*api_, qp, options, own, peer); !status.ok()) {
      return status;
    }
  }
  if (socket < 0) return {};
  MemoryCard own{reinterpret_cast<std::uint64_t>(buffer_.get()), mr_->rkey};
  MemoryCard peer{};
  if (!send_all(socket, &own, sizeof own) || !receive_all(socket, &peer, sizeof peer)) {
    return internal(errno);
  }
  peer_address_ = peer.address;
  peer_key_ = peer.key;
  return {};
}

Status SoftEnd::post_write(std::uint32_t qp, std::uint32_t bytes, std::uint64_t wr_id, bool inlined,
                           std::uint64_t local_offset, std::uint64_t remote_offset) noexcept {
  ibv_sge sge{reinterpret_cast<std::uint64_t>(buffer_.get()) + local_offset, bytes, mr_->lkey};
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.send_flags = inlined ? IBV_SEND_INLINE : 0;
  wr.wr.rdma.remote_addr = peer_address_ + remote_offset;
  wr.wr.rdma.rkey = peer_key_;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qps_[qp], &wr, &bad);
  return error == 0 ? Status() : Status::from_verbs(StatusCode::kInternal, error);
}

Result<double> measure_write_goodput(std::uint32_t qp_count, std::uint32_t message_bytes,
                                     std::uint32_t in_flight, Duration duration) noexcept {
  const auto child = [&](int socket) {
    SoftEnd end;
    if (!end.open(qp_count, message_bytes).ok() || !end.connect(socket).ok()) return false;
    char byte = 0;
    if (::recv(socket, &byte, 1, 0) != 0) return false;  // until the parent closes
    for (std::size_t i = 0; i < message_bytes; ++i) {
      if (end.buffer()[i] != pattern_at(i)) return false;
    }
    return true;
  };
  const auto parent = [&](int socket) -> Result<double> {
    SoftEnd end;
    if (const Status status = end.open(qp_count, message_bytes); !status.ok()) return status;
    if (const Status status = end.connect(socket); !status.ok()) return status;
    for (std::size_t i = 0; i < message_bytes; ++i) end.buffer()[i] = pattern_at(i);
    for (std::uint32_t i = 0; i < in_flight * qp_count; ++i) {
      const std::uint32_t qp = i % qp_count;
      const Status posted = end.post_write(qp, message_bytes, qp, false, 0, 0);
      if (!posted.ok()) return posted;
    }
    auto warm = pump_writes(end, message_bytes, read_clock() + duration / 10);
    if (!warm) return warm.error();
    const TimePoint begin = read_clock();
    auto completed = pump_writes(end, message_bytes, begin + duration);
    if (!completed) return completed.error();
    const std::chrono::duration<double> elapsed = read_clock() - begin;
    return static_cast<double>(*completed) * message_bytes / elapsed.count();
  };
  return run_pair(child, parent);
}

Result<double> measure_write_ping_pong(std::uint64_t round_trips) noexcept {
  const std::uint64_t warm_up = round_trips / 10 + 1;
  const auto child = [&](int socket) {
    SoftEnd end;
    if (!end.open(1, 64).ok() || !end.connect(socket).ok()) return false;
    return play(end, 1, warm_up + round_trips, false);
  };
  const auto parent = [&](int socket) -> Result<double> {
    SoftEnd end;
    if (const Status status = end.open(1, 64); !status.ok()) return status;
    if (const Status status = end.connect(socket); !status.ok()) return status;
    if (!play(end, 1, warm_up, true)) return Status(StatusCode::kNetwork);
    const TimePoint begin = read_clock();
    if (!play(end, warm_up + 1, warm_up + round_trips, true)) {
      return Status(StatusCode::kNetwork);
    }
    const std::chrono::duration<double> elapsed = read_clock() - begin;
    return elapsed.count() / static_cast<double>(round_trips);
  };
  return run_pair(child, parent);
}

Result<double> measure_memory_per_qp(std::uint32_t qp_count) noexcept {
  const auto child = [&](int socket) {
    // Each QP may send from a port of its own, hence a socket of its own.
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
    double per_qp = -1;
    const std::size_t before = resident_bytes();
    SoftEnd end;
    if (end.open(qp_count, 64).ok() && end.connect(-1).ok()) {
      per_qp = static_cast<double>(resident_bytes() - before) / qp_count;
    }
    return send_all(socket, &per_qp, sizeof per_qp) && per_qp > 0;
  };
  const auto parent = [&](int socket) -> Result<double> {
    double per_qp = 0;
    if (!receive_all(socket, &per_qp, sizeof per_qp) || per_qp <= 0) return internal();
    return per_qp;
  };
  return run_pair(child, parent);
}

}  // namespace braid::bench
