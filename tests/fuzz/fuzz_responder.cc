// A connected engine fed with packets of a peer that may say anything: requests and responses with
// a correct ICRC and chosen fields, raw bytes, posts and passing time between them.

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "fuzz/require.h"
#include "roce/engine.h"
#include "roce/icrc.h"

namespace {

using namespace braid;
using namespace braid::roce;

constexpr std::size_t kRegionBytes = 8192;
constexpr std::size_t kGuardBytes = 256;
constexpr std::uint8_t kGuard = 0xC3;

class NoEvents final : public EngineEvents {
 public:
  void on_completion_event(CompletionQueue&) noexcept override {}
  void on_qp_event(Qp&, ibv_event_type) noexcept override {}
  void on_cq_event(CompletionQueue&, ibv_event_type) noexcept override {}
  void on_srq_event(ReceiveQueue&, ibv_event_type) noexcept override {}
};

/// Reads numbers off the input; zeros when it has run out.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), left_(size) {}
  [[nodiscard]] bool empty() const { return left_ == 0; }
  template <typename T>
  T take() {
    T value{};
    const std::size_t bytes = std::min(sizeof value, left_);
    std::memcpy(&value, data_, bytes);
    data_ += bytes;
    left_ -= bytes;
    return value;
  }

 private:
  const std::uint8_t* data_;
  std::size_t left_;
};

class Target {
 public:
  Target() {
    memory_.fill(kGuard);
    EngineOptions options;
    options.max_qp = 2;
    options.max_mr = 4;
    options.window_packets = 16;
    auto made = Engine::create(options, events_);
    BRAID_REQUIRE(made.has_value());
    engine_ = std::move(made).value();
    constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                            IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    auto key = engine_->memory().insert(PdId{1}, region(), address(), kRegionBytes, kAccess);
    BRAID_REQUIRE(key.has_value());
    key_ = *key;
    QpInit init;
    init.pd = PdId{1};
    init.send_cq = &send_cq_;
    init.recv_cq = &recv_cq_;
    init.max_send_wr = init.max_recv_wr = 8;
    init.signal_all = true;
    auto qp = engine_->create_qp(init);
    BRAID_REQUIRE(qp.has_value());
    qp_ = *qp;
    connect();
  }

  void step(Input& in) {
    switch (in.take<std::uint8_t>() % 8) {
      case 0: post_recv(in); break;
      case 1: post_send(in); break;
      case 2:
        now_ += std::chrono::microseconds(in.take<std::uint16_t>());
        engine_->handle_timeout(now_);
        break;
      case 3: raw(in); break;
      default: request(in); break;
    }
    transmit();
    check();
  }

 private:
  [[nodiscard]] std::uint8_t* region() { return memory_.data() + kGuardBytes; }
  [[nodiscard]] std::uint64_t address() { return reinterpret_cast<std::uint64_t>(region()); }

  void connect() {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.qp_access_flags =
        IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    attr.path_mtu = IBV_MTU_256;
    attr.dest_qp_num = 77;
    attr.rq_psn = 0xFFFFF0;
    attr.sq_psn = 0xFFFFF8;
    attr.timeout = 8;
    attr.retry_cnt = 2;
    attr.rnr_retry = 2;
    attr.max_rd_atomic = attr.max_dest_rd_atomic = 4;
    flow_.source = IpAddress::from_v4(0x0A000001);
    flow_.destination = IpAddress::from_v4(0x0A000002);
    flow_.source_port = 0xC000;
    engine_->modify_qp(*qp_, attr,
                       IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_AV | IBV_QP_PATH_MTU |
                           IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
                           IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
                           IBV_QP_MAX_DEST_RD_ATOMIC,
                       flow_);
  }

  void post_recv(Input& in) {
    ibv_sge sge{address() + in.take<std::uint16_t>() % kRegionBytes, in.take<std::uint16_t>(),
                key_};
    ibv_recv_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = in.take<std::uint8_t>() % 2;
    const ibv_recv_wr* bad = nullptr;
    posted_receives_ += engine_->post_recv(*qp_, &wr, &bad) == 0 ? 1U : 0U;
  }

  void post_send(Input& in) {
    constexpr ibv_wr_opcode kOpcodes[] = {
        IBV_WR_SEND,      IBV_WR_SEND_WITH_IMM,      IBV_WR_RDMA_WRITE,
        IBV_WR_RDMA_READ, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD};
    ibv_sge sge{address() + in.take<std::uint16_t>() % kRegionBytes, in.take<std::uint16_t>(),
                key_};
    ibv_send_wr wr{};
    wr.opcode = kOpcodes[in.take<std::uint8_t>() % 6];
    if (wr.opcode >= IBV_WR_ATOMIC_CMP_AND_SWP) sge.length = 8;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = in.take<std::uint8_t>() % 2 != 0 ? IBV_SEND_FENCE : 0;
    const ibv_send_wr* bad = nullptr;
    posted_sends_ += engine_->post_send(*qp_, &wr, &bad) == 0 ? 1U : 0U;
  }

  void request(Input& in) {
    Headers headers;
    headers.opcode = static_cast<Opcode>(in.take<std::uint8_t>() % 0x18);
    const bool response = traits_of(static_cast<std::uint8_t>(headers.opcode)).response;
    // Near what the engine expects, mostly: far off, everything is dropped alike.
    const std::uint32_t base = response ? sq_psn_of(*qp_) : rq_psn_of(*qp_);
    headers.psn = Psn(base) + static_cast<std::uint32_t>(in.take<std::int8_t>() / 8);
    headers.destination_qpn = qpn_of(*qp_);
    headers.ack_request = in.take<std::uint8_t>() % 2 != 0;
    headers.rkey = key_ ^ (in.take<std::uint8_t>() == 0xFF ? 1U : 0U);
    headers.remote_address = address() + in.take<std::uint16_t>() % (kRegionBytes + 64);
    headers.dma_length = in.take<std::uint16_t>();
    headers.syndrome = in.take<std::uint8_t>();
    headers.swap_or_add = in.take<std::uint32_t>();
    std::vector<std::uint8_t> payload;
    if (traits_of(static_cast<std::uint8_t>(headers.opcode)).payload) {
      payload.resize(in.take<std::uint16_t>() % 300, 0x5A);
      if (in.take<std::uint8_t>() % 2 != 0) payload.resize(256, 0x5A);
    }
    headers.pad_bytes = static_cast<std::uint8_t>((4 - payload.size() % 4) % 4);
    std::vector<std::uint8_t> bytes(64);
    bytes.resize(encode_headers(headers, bytes.data()));
    bytes.insert(bytes.end(), payload.begin(), payload.end());
    bytes.resize(bytes.size() + headers.pad_bytes);
    FlowAddress back = flow_;
    std::swap(back.source, back.destination);
    const iovec piece{bytes.data(), bytes.size()};
    const std::uint32_t icrc = compute_icrc(back, {&piece, 1});
    for (unsigned i = 0; i < 4; ++i) bytes.push_back(static_cast<std::uint8_t>(icrc >> (8 * i)));
    deliver(bytes);
  }

  void raw(Input& in) {
    std::vector<std::uint8_t> bytes(in.take<std::uint8_t>());
    for (std::uint8_t& byte : bytes) byte = in.take<std::uint8_t>();
    deliver(bytes);
  }

  void deliver(const std::vector<std::uint8_t>& bytes) {
    RxDatagram datagram;
    datagram.payload = bytes;
    datagram.source = flow_.destination;
    datagram.destination = flow_.source;
    datagram.source_port = flow_.source_port;
    engine_->handle_packet(datagram, now_);
  }

  void transmit() {
    // An 8 KiB READ is 32 packets and four may be queued, twice over for replays: far below this.
    int rounds = 0;
    do {
      BRAID_REQUIRE(++rounds <= 100);
      batch_.clear();
      engine_->poll_transmit(batch_, now_);
    } while (!batch_.empty());
  }

  void check() {
    std::array<ibv_wc, 64> done;
    completed_sends_ += send_cq_.poll(done.size(), done.data());
    completed_receives_ += recv_cq_.poll(done.size(), done.data());
    BRAID_REQUIRE(completed_sends_ <= posted_sends_);
    BRAID_REQUIRE(completed_receives_ <= posted_receives_);
    if (state_of(*qp_) == IBV_QPS_ERR) {
      BRAID_REQUIRE(completed_sends_ == posted_sends_ && completed_receives_ == posted_receives_);
    }
    for (std::size_t i = 0; i < kGuardBytes; ++i) {
      BRAID_REQUIRE(memory_[i] == kGuard);
      BRAID_REQUIRE(memory_[kGuardBytes + kRegionBytes + i] == kGuard);
    }
  }

  NoEvents events_;
  std::unique_ptr<Engine> engine_;
  CompletionQueue send_cq_{64, nullptr};
  CompletionQueue recv_cq_{64, nullptr};
  alignas(8) std::array<std::uint8_t, kRegionBytes + 2 * kGuardBytes> memory_;
  std::uint32_t key_ = 0;
  Qp* qp_ = nullptr;
  FlowAddress flow_;
  TxBatch batch_{32};
  TimePoint now_{};
  std::size_t posted_sends_ = 0;
  std::size_t posted_receives_ = 0;
  std::size_t completed_sends_ = 0;
  std::size_t completed_receives_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input in(data, std::min(size, std::size_t{4096}));
  const auto target = std::make_unique<Target>();
  while (!in.empty()) target->step(in);
  return 0;
}
