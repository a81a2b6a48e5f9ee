#include "engine_cost.h"

#include <isa-l/crc.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "roce/engine.h"

namespace braid::bench {
namespace {

constexpr std::uint32_t kMtu = 4096;
constexpr std::uint32_t kMessageBytes = 1U << 18;
constexpr std::size_t kBatch = 32;

class NoEvents final : public roce::EngineEvents {
 public:
  void on_completion_event(roce::CompletionQueue&) noexcept override {}
  void on_qp_event(roce::Qp&, ibv_event_type) noexcept override {}
  void on_cq_event(roce::CompletionQueue&, ibv_event_type) noexcept override {}
  void on_srq_event(roce::ReceiveQueue&, ibv_event_type) noexcept override {}
};

double read_ns() noexcept {
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

/// An engine with one QP and one registered buffer.
struct Node {
  explicit Node(std::uint32_t address) : ip(roce::IpAddress::from_v4(address)) {
    auto made = roce::Engine::create({}, events);
    if (!made) std::abort();
    engine = std::move(made).value();
    auto inserted = engine->memory().insert(
        roce::PdId{1}, buffer.data(), reinterpret_cast<std::uint64_t>(buffer.data()), buffer.size(),
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    if (!inserted) std::abort();
    key = *inserted;
    roce::QpInit init;
    init.pd = roce::PdId{1};
    init.send_cq = init.recv_cq = &cq;
    init.max_send_wr = 64;
    init.signal_all = true;
    auto created = engine->create_qp(init);
    if (!created) std::abort();
    qp = *created;
  }

  void connect(const Node& peer) {
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTS;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = roce::qpn_of(*peer.qp);
    attr.timeout = 0;
    roce::FlowAddress flow;
    flow.source = ip;
    flow.destination = peer.ip;
    flow.source_port = 0xC000;
    engine->modify_qp(*qp, attr,
                      IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_AV | IBV_QP_PATH_MTU |
                          IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT,
                      flow);
  }

  NoEvents events;
  roce::IpAddress ip;
  std::unique_ptr<roce::Engine> engine;
  roce::CompletionQueue cq{256, nullptr};
  std::vector<std::uint8_t> buffer = std::vector<std::uint8_t>(kMessageBytes, 0x5A);
  std::uint32_t key = 0;
  roce::Qp* qp = nullptr;
};

void top_up(Node& from, const Node& to) {
  ibv_wc done[64];
  static_cast<void>(from.cq.poll(64, done));
  ibv_sge sge{reinterpret_cast<std::uint64_t>(from.buffer.data()), kMessageBytes, from.key};
  ibv_send_wr wr{};
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.opcode = IBV_WR_RDMA_WRITE;
  wr.wr.rdma.remote_addr = reinterpret_cast<std::uint64_t>(to.buffer.data());
  wr.wr.rdma.rkey = to.key;
  const ibv_send_wr* bad = nullptr;
  while (roce::send_room_of(*from.qp) != 0) {
    if (from.engine->post_send(*from.qp, &wr, &bad) != 0) std::abort();
  }
}

/// Packets of a batch laid end to end, as a socket delivers them.
struct Wire {
  std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(kBatch * (kMtu + 64));
  std::vector<std::size_t> sizes;
  const roce::FlowAddress* flow = nullptr;

  void take(roce::TxBatch& batch) {
    sizes.clear();
    std::size_t at = 0;
    for (const roce::TxPacket& packet : batch.packets()) {
      flow = packet.flow;
      for (const iovec& piece : batch.iovs().subspan(packet.first_iov, packet.iov_count)) {
        std::memcpy(bytes.data() + at, piece.iov_base, piece.iov_len);
        at += piece.iov_len;
      }
      sizes.push_back(packet.bytes);
    }
  }

  void deliver(roce::Engine& to) const {
    std::size_t at = 0;
    for (const std::size_t size : sizes) {
      roce::RxDatagram datagram;
      datagram.payload = {bytes.data() + at, size};
      datagram.source = flow->source;
      datagram.destination = flow->destination;
      datagram.source_port = flow->source_port;
      to.handle_packet(datagram, TimePoint{});
      at += size;
    }
  }
};

}  // namespace

EngineCost measure_engine_cost(std::uint64_t packet_count) {
  Node a(0x0A000001);
  Node b(0x0A000002);
  a.connect(b);
  b.connect(a);
  roce::TxBatch batch(kBatch);
  Wire wire;
  EngineCost cost;
  std::uint64_t packets = 0;
  unsigned crc = 0;
  for (int pass = 0; pass < 2; ++pass) {  // the first to warm up
    cost = EngineCost{};
    for (packets = 0; packets < packet_count;) {
      top_up(a, b);
      batch.clear();
      const double t0 = read_ns();
      a.engine->poll_transmit(batch, TimePoint{});
      const double t1 = read_ns();
      wire.take(batch);
      packets += batch.size();
      const double t2 = read_ns();
      wire.deliver(*b.engine);
      const double t3 = read_ns();
      for (std::size_t i = 0; i < batch.size(); ++i) {
        crc = crc32_gzip_refl(crc, wire.bytes.data() + i * (kMtu + 16), kMtu);
      }
      const double t4 = read_ns();
      for (std::size_t i = 0; i < batch.size(); ++i) {
        std::memcpy(b.buffer.data() + (i * kMtu) % kMessageBytes,
                    wire.bytes.data() + i * (kMtu + 16), kMtu);
      }
      const double t5 = read_ns();
      cost.transmit_ns += t1 - t0;
      cost.receive_ns += t3 - t2;
      cost.crc_ns += t4 - t3;
      cost.copy_ns += t5 - t4;
      batch.clear();
      b.engine->poll_transmit(batch, TimePoint{});
      wire.take(batch);
      wire.deliver(*a.engine);
    }
  }
  // Keeps the CRC loop from being optimised away; a CRC of 0 over this data would be a miracle.
  if (crc == 0) std::fputs("", stderr);
  const auto count = static_cast<double>(packets);
  return {cost.transmit_ns / count, cost.receive_ns / count, cost.crc_ns / count,
          cost.copy_ns / count};
}

}  // namespace braid::bench
