#include "roce/engine_bed.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "roce/icrc.h"

namespace braid::roce::testing {

bool RecordingEvents::saw(ibv_event_type type) const {
  return std::find(types.begin(), types.end(), type) != types.end();
}

Side::Side(const EngineOptions& options, IpAddress own_address)
    : ip(own_address), buffer(kBufferBytes) {
  auto created = Engine::create(options, events);
  EXPECT_TRUE(created.has_value());
  engine = std::move(created).value();
  auto inserted = engine->memory().insert(PdId{1}, buffer.data(), address(0), buffer.size(),
                                          IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                              IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
  EXPECT_TRUE(inserted.has_value());
  key = *inserted;
}

ibv_sge Side::sge(std::uint64_t offset, std::uint32_t bytes) {
  return {address(offset), bytes, key};
}

int Side::post(ibv_wr_opcode opcode, std::uint64_t wr_id, std::vector<ibv_sge> sges,
               std::uint64_t remote_address, std::uint32_t rkey, unsigned flags,
               std::uint32_t imm) {
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.opcode = opcode;
  wr.sg_list = sges.data();
  wr.num_sge = static_cast<int>(sges.size());
  wr.send_flags = flags;
  wr.imm_data = imm;
  wr.wr.rdma.remote_addr = remote_address;
  wr.wr.rdma.rkey = rkey;
  const ibv_send_wr* bad = nullptr;
  return engine->post_send(*qp, &wr, &bad);
}

int Side::post_atomic(ibv_wr_opcode opcode, std::uint64_t wr_id, ibv_sge sge,
                      std::uint64_t remote_address, std::uint32_t rkey, std::uint64_t compare_add,
                      std::uint64_t swap) {
  ibv_send_wr wr{};
  wr.wr_id = wr_id;
  wr.opcode = opcode;
  wr.sg_list = &sge;
  wr.num_sge = 1;
  wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
  wr.wr.atomic.remote_addr = remote_address;
  wr.wr.atomic.rkey = rkey;
  wr.wr.atomic.compare_add = compare_add;
  wr.wr.atomic.swap = swap;
  const ibv_send_wr* bad = nullptr;
  return engine->post_send(*qp, &wr, &bad);
}

int Side::post_recv(std::uint64_t wr_id, std::vector<ibv_sge> sges) {
  ibv_recv_wr wr{};
  wr.wr_id = wr_id;
  wr.sg_list = sges.data();
  wr.num_sge = static_cast<int>(sges.size());
  const ibv_recv_wr* bad = nullptr;
  return engine->post_recv(*qp, &wr, &bad);
}

std::vector<ibv_wc> Side::poll(CompletionQueue& cq) {
  std::vector<ibv_wc> out(2048);
  out.resize(cq.poll(out.size(), out.data()));
  return out;
}

EngineBed::EngineBed(const EngineOptions& options, std::uint64_t seed)
    : a(options, IpAddress::from_v4(0x0A000001)),
      b(options, IpAddress::from_v4(0x0A000002)),
      random_(seed) {}

namespace {

void create(Side& side, const QpOptions& options) {
  QpInit init;
  init.pd = PdId{1};
  init.send_cq = &side.send_cq;
  init.recv_cq = &side.recv_cq;
  init.max_send_wr = init.max_recv_wr = options.queue_depth;
  init.max_send_sge = init.max_recv_sge = 16;
  init.max_inline_bytes = options.max_inline_bytes;
  init.signal_all = options.signal_all;
  auto created = side.engine->create_qp(init);
  ASSERT_TRUE(created.has_value());
  side.qp = *created;
}

void bring_up(Side& side, const Side& peer, const QpOptions& own, const QpOptions& other) {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.qp_access_flags = static_cast<unsigned>(own.access);
  attr.dest_qp_num = qpn_of(*peer.qp);
  attr.rq_psn = other.start_psn;
  attr.max_dest_rd_atomic = own.rd_atomic;
  attr.min_rnr_timer = own.min_rnr_timer;
  for (std::uint32_t mtu = 256; mtu <= own.mtu_bytes; mtu *= 2) {
    attr.path_mtu = static_cast<ibv_mtu>(static_cast<int>(attr.path_mtu) + 1);
  }
  FlowAddress flow;
  flow.source = side.ip;
  flow.destination = peer.ip;
  flow.source_port = 0xC123;
  side.engine->modify_qp(*side.qp, attr,
                         IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_AV | IBV_QP_DEST_QPN |
                             IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER |
                             IBV_QP_PATH_MTU,
                         flow);
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = own.start_psn;
  attr.timeout = own.timeout_code;
  attr.retry_cnt = own.retry_count;
  attr.rnr_retry = own.rnr_retry;
  attr.max_rd_atomic = other.rd_atomic;
  side.engine->modify_qp(*side.qp, attr,
                         IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                             IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
                         flow);
}

}  // namespace

void EngineBed::connect(const QpOptions& for_a, const QpOptions& for_b) {
  create(a, for_a);
  create(b, for_b);
  bring_up(a, b, for_a, for_b);
  bring_up(b, a, for_b, for_a);
}

void EngineBed::carry(bool to_b, const FlowAddress& flow, std::vector<std::uint8_t> bytes) {
  if (recording) sent.push_back({now, order_++, to_b, flow, bytes});
  if (to_b) {
    const std::size_t index = sent_by_a++;
    if (std::find(drop_next_of_a.begin(), drop_next_of_a.end(), index) != drop_next_of_a.end()) {
      return;
    }
  }
  if (cut || random_.chance_ppm(faults.drop_ppm)) return;
  const int copies = random_.chance_ppm(faults.duplicate_ppm) ? 2 : 1;
  for (int i = 0; i < copies; ++i) {
    TimePoint due = now + latency;
    if (random_.chance_ppm(faults.reorder_ppm)) {
      due += Duration(static_cast<std::int64_t>(random_.below(30'000)));
    }
    std::vector<std::uint8_t> copy = bytes;
    if (random_.chance_ppm(faults.corrupt_ppm)) {
      copy[random_.below(copy.size())] ^= static_cast<std::uint8_t>(1U << random_.below(8));
    }
    in_flight_.push_back({due, order_++, to_b, flow, std::move(copy)});
  }
}

void EngineBed::pump(Side& from, bool to_b) {
  do {
    batch_.clear();
    from.engine->poll_transmit(batch_, now);
    for (const TxPacket& packet : batch_.packets()) {
      std::vector<std::uint8_t> bytes;
      for (const iovec& piece : batch_.iovs().subspan(packet.first_iov, packet.iov_count)) {
        const auto* data = static_cast<const std::uint8_t*>(piece.iov_base);
        bytes.insert(bytes.end(), data, data + piece.iov_len);
      }
      carry(to_b, *packet.flow, std::move(bytes));
    }
  } while (!batch_.empty());
}

void EngineBed::deliver(const Datagram& datagram) {
  RxDatagram rx;
  rx.payload = datagram.bytes;
  rx.source = datagram.flow.source;
  rx.destination = datagram.flow.destination;
  rx.source_port = datagram.flow.source_port;
  (datagram.to_b ? b : a).engine->handle_packet(rx, now);
}

void EngineBed::transmit() {
  pump(a, true);
  pump(b, false);
}

bool EngineBed::step() {
  transmit();
  const auto earliest = std::min_element(
      in_flight_.begin(), in_flight_.end(), [](const Datagram& x, const Datagram& y) {
        return std::pair(x.due, x.order) < std::pair(y.due, y.order);
      });
  const TimePoint timer = std::min(a.engine->next_deadline(), b.engine->next_deadline());
  if (earliest != in_flight_.end() && earliest->due <= timer) {
    now = std::max(now, earliest->due);
    const Datagram datagram = std::move(*earliest);
    in_flight_.erase(earliest);
    deliver(datagram);
    return true;
  }
  if (timer == kNever) return false;
  now = std::max(now, timer);
  a.engine->handle_timeout(now);
  b.engine->handle_timeout(now);
  return true;
}

std::size_t EngineBed::run(std::size_t limit) {
  std::size_t steps = 0;
  while (steps < limit && step()) ++steps;
  return steps;
}

void EngineBed::inject(bool to_b, std::span<const std::uint8_t> bytes) {
  FlowAddress flow;
  flow.source = to_b ? a.ip : b.ip;
  flow.destination = to_b ? b.ip : a.ip;
  flow.source_port = 0xC123;
  deliver({now, 0, to_b, flow, {bytes.begin(), bytes.end()}});
}

void EngineBed::inject(bool to_b, Headers headers, std::span<const std::uint8_t> payload) {
  headers.pad_bytes = static_cast<std::uint8_t>((4 - payload.size() % 4) % 4);
  std::vector<std::uint8_t> bytes(64);
  bytes.resize(encode_headers(headers, bytes.data()));
  bytes.insert(bytes.end(), payload.begin(), payload.end());
  bytes.resize(bytes.size() + headers.pad_bytes);
  FlowAddress flow;
  flow.source = to_b ? a.ip : b.ip;
  flow.destination = to_b ? b.ip : a.ip;
  flow.source_port = 0xC123;
  const iovec piece{bytes.data(), bytes.size()};
  const std::uint32_t icrc = compute_icrc(flow, {&piece, 1});
  for (unsigned i = 0; i < 4; ++i) bytes.push_back(static_cast<std::uint8_t>(icrc >> (8 * i)));
  deliver({now, 0, to_b, flow, std::move(bytes)});
}

Packet parse(const EngineBed::Datagram& datagram) {
  Packet packet;
  EXPECT_EQ(parse_packet(datagram.bytes, packet), DropReason::kNone);
  return packet;
}

}  // namespace braid::roce::testing
