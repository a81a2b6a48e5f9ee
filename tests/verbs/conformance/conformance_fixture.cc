#include "verbs/conformance/conformance_fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>

#include <algorithm>
#include <cstring>

#include "base/random.h"

namespace braid::verbs::conformance {
namespace {

void set_non_blocking(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  ASSERT_GE(flags, 0);
  ASSERT_EQ(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
}

}  // namespace

Bytes pattern(std::size_t count, std::uint64_t seed) {
  Bytes bytes(count);
  Random random(seed);
  for (std::size_t i = 0; i < count; i += 8) {
    const std::uint64_t value = random.next();
    std::memcpy(bytes.data() + i, &value, std::min<std::size_t>(8, count - i));
  }
  return bytes;
}

// --- Memory ----------------------------------------------------------------------------------

Memory::Memory(VerbsApi& api, ibv_pd* pd, std::size_t bytes, int access)
    : api_(api), storage_(bytes + 2 * kCanaryBytes, kCanary), size_(bytes) {
  iova_ = reinterpret_cast<std::uint64_t>(data());
  register_region(pd, access);
}

Memory::Memory(VerbsApi& api, ibv_pd* pd, std::size_t bytes, int access, std::uint64_t iova)
    : api_(api), storage_(bytes + 2 * kCanaryBytes, kCanary), size_(bytes), iova_(iova) {
  register_region(pd, access);
}

void Memory::register_region(ibv_pd* pd, int access) {
  mr_ = api_.reg_mr_iova(pd, data(), size_, iova_, access);
  EXPECT_NE(mr_, nullptr) << "reg_mr: errno " << errno;
  if (mr_ == nullptr) mr_ = &gone_;
}

Memory::~Memory() {
  EXPECT_TRUE(canaries_intact()) << "bytes beside the region were written";
  deregister();
}

void Memory::deregister() {
  if (mr_ == &gone_) return;
  gone_ = *mr_;
  EXPECT_EQ(api_.dereg_mr(mr_), 0);
  mr_ = &gone_;
}

void Memory::fill(std::uint8_t value) { std::memset(data(), value, size_); }
void Memory::set(std::size_t offset, const Bytes& bytes) {
  ASSERT_LE(offset + bytes.size(), size_);
  std::copy(bytes.begin(), bytes.end(), data() + offset);
}
Bytes Memory::get(std::size_t offset, std::size_t bytes) const {
  const auto first = storage_.begin() + static_cast<std::ptrdiff_t>(kCanaryBytes + offset);
  return Bytes(first, first + static_cast<std::ptrdiff_t>(bytes));
}
std::uint64_t Memory::word(std::size_t offset) const {
  std::uint64_t value = 0;
  std::memcpy(&value, storage_.data() + kCanaryBytes + offset, sizeof value);
  return value;
}
void Memory::set_word(std::size_t offset, std::uint64_t value) {
  std::memcpy(data() + offset, &value, sizeof value);
}
bool Memory::canaries_intact() const {
  const auto intact = [](auto first, auto last) {
    return std::all_of(first, last, [](std::uint8_t byte) { return byte == kCanary; });
  };
  const auto end = storage_.end();
  const auto canary = static_cast<std::ptrdiff_t>(kCanaryBytes);
  return intact(storage_.begin(), storage_.begin() + canary) && intact(end - canary, end);
}

// --- Endpoint --------------------------------------------------------------------------------

Endpoint::Endpoint(const Side& where, const EndpointOptions& wanted)
    : api(*where.api), side(where), options(wanted) {
  EXPECT_EQ(api.query_device(side.context, &device), 0);
  EXPECT_EQ(api.query_port(side.context, side.port, &port), 0);
  pd = api.alloc_pd(side.context);
  EXPECT_NE(pd, nullptr);
  if (options.use_channel) {
    send_channel = api.create_comp_channel(side.context);
    recv_channel = api.create_comp_channel(side.context);
    EXPECT_NE(send_channel, nullptr);
    EXPECT_NE(recv_channel, nullptr);
    set_non_blocking(send_channel->fd);
    set_non_blocking(recv_channel->fd);
  }
  set_non_blocking(side.context->async_fd);
  send_cq = api.create_cq(side.context, options.cq_entries, this, send_channel, 0);
  EXPECT_NE(send_cq, nullptr);
  recv_cq = options.own_cqs ? api.create_cq(side.context, options.cq_entries, this, recv_channel, 0)
                            : send_cq;
  EXPECT_NE(recv_cq, nullptr);
  if (options.use_srq) {
    ibv_srq_init_attr attr{};
    attr.attr.max_wr = options.recv_wr;
    attr.attr.max_sge = options.sge;
    srq = api.create_srq(pd, &attr);
    EXPECT_NE(srq, nullptr);
  }
  qp = make_qp();
}

ibv_qp* Endpoint::make_qp() {
  ibv_qp_init_attr attr{};
  attr.qp_context = this;
  attr.send_cq = send_cq;
  attr.recv_cq = recv_cq;
  attr.srq = srq;
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = options.signal_all ? 1 : 0;
  attr.cap.max_send_wr = options.send_wr;
  attr.cap.max_recv_wr = srq != nullptr ? 0 : options.recv_wr;
  attr.cap.max_send_sge = options.sge;
  attr.cap.max_recv_sge = srq != nullptr ? 0 : options.sge;
  attr.cap.max_inline_data = options.inline_bytes;
  ibv_qp* made = api.create_qp(pd, &attr);
  EXPECT_NE(made, nullptr) << "create_qp: errno " << errno;
  cap = attr.cap;
  return made;
}

void Endpoint::destroy_qp() {
  if (qp != nullptr) {
    EXPECT_EQ(api.destroy_qp(qp), 0);
  }
  qp = nullptr;
}

Endpoint::~Endpoint() {
  // Unread events of a QP or CQ would keep its destruction waiting on a kernel device.
  ibv_async_event event{};
  while (take_async_event(event)) continue;
  destroy_qp();
  if (srq != nullptr) {
    EXPECT_EQ(api.destroy_srq(srq), 0);
  }
  ibv_cq* cq = nullptr;
  for (ibv_comp_channel* channel : {send_channel, recv_channel}) {
    while (channel != nullptr && take_cq_event(api, channel, cq)) continue;
  }
  if (recv_cq != send_cq) {
    EXPECT_EQ(api.destroy_cq(recv_cq), 0);
  }
  EXPECT_EQ(api.destroy_cq(send_cq), 0);
  for (ibv_comp_channel* channel : {send_channel, recv_channel}) {
    if (channel != nullptr) {
      EXPECT_EQ(api.destroy_comp_channel(channel), 0);
    }
  }
  EXPECT_EQ(api.dealloc_pd(pd), 0);
}

std::unique_ptr<Memory> Endpoint::memory(std::size_t bytes, int access) {
  return std::make_unique<Memory>(api, pd, bytes, access);
}

QpEndpoint Endpoint::describe(ibv_qp* of) const {
  QpEndpoint endpoint;
  endpoint.qpn = (of != nullptr ? of : qp)->qp_num;
  endpoint.psn = first_psn;
  EXPECT_EQ(api.query_gid(side.context, side.port, side.gid_index, &endpoint.gid), 0);
  endpoint.lid = port.lid;
  endpoint.mtu = port.active_mtu;
  endpoint.rd_atomic = static_cast<std::uint8_t>(std::min(device.max_qp_rd_atom, 16));
  return endpoint;
}

ibv_qp_state Endpoint::state() {
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  EXPECT_EQ(api.query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
  return attr.qp_state;
}

void Endpoint::drain() {
  ibv_wc batch[16];
  for (ibv_cq* cq : {send_cq, recv_cq}) {
    for (int got = 16; got == 16;) {
      got = ibv_poll_cq(cq, 16, batch);
      EXPECT_GE(got, 0);
      for (int i = 0; i < got; ++i) (cq == send_cq ? sends : receives).push_back(batch[i]);
    }
    if (send_cq == recv_cq) break;
  }
}

bool Endpoint::take_async_event(ibv_async_event& event) {
  if (api.get_async_event(side.context, &event) != 0) return false;
  api.ack_async_event(&event);
  return true;
}

bool Endpoint::take_cq_event(VerbsApi& api, ibv_comp_channel* channel, ibv_cq*& cq) {
  void* context = nullptr;
  if (api.get_cq_event(channel, &cq, &context) != 0) return false;
  api.ack_cq_events(cq, 1);
  return true;
}

// --- SendWr ----------------------------------------------------------------------------------

SendWr::SendWr(ibv_wr_opcode opcode, std::uint64_t id) {
  wr_.opcode = opcode;
  wr_.wr_id = id;
  wr_.send_flags = IBV_SEND_SIGNALED;
}

SendWr& SendWr::from(const Memory& memory, std::size_t offset, std::size_t bytes) {
  return sge(memory.address(offset), static_cast<std::uint32_t>(bytes), memory.lkey());
}
SendWr& SendWr::sge(std::uint64_t address, std::uint32_t bytes, std::uint32_t lkey) {
  sges_.push_back({address, bytes, lkey});
  return *this;
}
SendWr& SendWr::to(const Memory& memory, std::size_t offset) {
  return to_address(memory.address(offset), memory.rkey());
}
SendWr& SendWr::to_address(std::uint64_t address, std::uint32_t rkey) {
  if (wr_.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr_.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
    wr_.wr.atomic.remote_addr = address;
    wr_.wr.atomic.rkey = rkey;
  } else {
    wr_.wr.rdma.remote_addr = address;
    wr_.wr.rdma.rkey = rkey;
  }
  return *this;
}
SendWr& SendWr::flags(unsigned flags) {
  wr_.send_flags = flags;
  return *this;
}
SendWr& SendWr::imm(std::uint32_t host_order) {
  wr_.imm_data = htonl(host_order);
  return *this;
}
SendWr& SendWr::compare_add(std::uint64_t value) {
  wr_.wr.atomic.compare_add = value;
  return *this;
}
SendWr& SendWr::swap(std::uint64_t value) {
  wr_.wr.atomic.swap = value;
  return *this;
}

ibv_send_wr* SendWr::link(ibv_send_wr* next) {
  wr_.sg_list = sges_.data();
  wr_.num_sge = static_cast<int>(sges_.size());
  wr_.next = next;
  return &wr_;
}

int SendWr::post(ibv_qp* qp) {
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(qp, link(nullptr), &bad);
  EXPECT_EQ(error != 0 ? &wr_ : nullptr, bad) << "bad_wr must name the refused WR, and only then";
  return error;
}

int post_receive(Endpoint& endpoint, std::uint64_t id, const Memory* memory, std::size_t offset,
                 std::size_t bytes) {
  ibv_sge sge{};
  ibv_recv_wr wr{};
  wr.wr_id = id;
  if (memory != nullptr && bytes != 0) {
    sge = {memory->address(offset), static_cast<std::uint32_t>(bytes), memory->lkey()};
    wr.sg_list = &sge;
    wr.num_sge = 1;
  }
  ibv_recv_wr* bad = nullptr;
  if (endpoint.srq != nullptr) return ibv_post_srq_recv(endpoint.srq, &wr, &bad);
  return ibv_post_recv(endpoint.qp, &wr, &bad);
}

// --- Conformance -----------------------------------------------------------------------------

void Conformance::SetUp() {
  bed_ = GetParam().create();
  ASSERT_NE(bed_, nullptr);
}

void Conformance::TearDown() {
  a_.reset();
  b_.reset();
  bed_.reset();
}

void Conformance::make(const EndpointOptions& options) {
  a_ = std::make_unique<Endpoint>(bed_->local(), options);
  b_ = std::make_unique<Endpoint>(bed_->remote(), options);
  ASSERT_NE(a_->qp, nullptr);
  ASSERT_NE(b_->qp, nullptr);
}

void Conformance::connect(const EndpointOptions& options, const RcOptions& rc) {
  ASSERT_NO_FATAL_FAILURE(make(options));
  bring_up(rc);
}

void Conformance::bring_up(const RcOptions& rc) {
  RcOptions of_a = rc;
  of_a.port = a_->side.port;
  of_a.gid_index = a_->side.gid_index;
  RcOptions of_b = rc;
  of_b.port = b_->side.port;
  of_b.gid_index = b_->side.gid_index;
  const Status status_a = connect_rc(a_->api, a_->qp, of_a, a_->describe(), b_->describe());
  const Status status_b = connect_rc(b_->api, b_->qp, of_b, b_->describe(), a_->describe());
  ASSERT_TRUE(status_a.ok()) << status_a.to_string();
  ASSERT_TRUE(status_b.ok()) << status_b.to_string();
}

RcOptions Conformance::patient() {
  RcOptions options;
  options.timeout = 16;
  return options;
}

RcOptions Conformance::quick() {
  RcOptions options;
  options.timeout = 8;
  options.retry_count = 3;
  options.rnr_retry = 3;
  options.min_rnr_timer = 1;
  return options;
}

bool Conformance::wait_for(const std::function<bool()>& done) {
  return bed_->progress_until(done, kPatience);
}

bool Conformance::wait_sends(Endpoint& endpoint, std::size_t count) {
  return wait_for([&] {
    endpoint.drain();
    return endpoint.sends.size() >= count;
  });
}

bool Conformance::wait_receives(Endpoint& endpoint, std::size_t count) {
  return wait_for([&] {
    endpoint.drain();
    return endpoint.receives.size() >= count;
  });
}

bool Conformance::wait_async_event(Endpoint& endpoint, ibv_event_type type,
                                   ibv_async_event& event) {
  // Others, COMM_EST for one, may come before it.
  return wait_for([&] {
    while (endpoint.take_async_event(event)) {
      if (event.event_type == type) return true;
    }
    return false;
  });
}

void Conformance::settle(Duration duration) {
  // Polls only afterwards: a poll can move virtual time further than was asked for.
  bed_->progress_until([] { return false; }, duration);
  if (a_ != nullptr) a_->drain();
  if (b_ != nullptr) b_->drain();
}

ibv_wc_status Conformance::run(SendWr& wr) {
  const std::size_t before = a_->sends.size();
  EXPECT_EQ(wr.post(a_->qp), 0);
  EXPECT_TRUE(wait_sends(*a_, before + 1)) << "the WR did not complete";
  return a_->sends.size() > before ? a_->sends[before].status : IBV_WC_GENERAL_ERR;
}

}  // namespace braid::verbs::conformance
