#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "softverbs/udp_driver.h"

namespace braid::softverbs::testing {

/// Counts what the engine reports.
class CountingEvents final : public roce::EngineEvents {
 public:
  void on_completion_event(roce::CompletionQueue&) noexcept override {
    completion_events.fetch_add(1);
    completion_events.notify_all();
  }
  void on_qp_event(roce::Qp&, ibv_event_type) noexcept override {}
  void on_cq_event(roce::CompletionQueue&, ibv_event_type) noexcept override {}
  void on_srq_event(roce::ReceiveQueue&, ibv_event_type) noexcept override {}

  std::atomic<int> completion_events{0};
};

/// A device with one QP and a registered buffer, without the verbs objects.
class Node {
 public:
  explicit Node(const SoftDeviceOptions& options = {}, std::size_t buffer_bytes = 1U << 20U)
      : buffer(buffer_bytes) {
    std::string error;
    auto made = UdpDriver::create(options, events, &error);
    EXPECT_TRUE(made) << error;
    driver = std::move(*made);
    const std::lock_guard lock(driver->mutex());
    key = *driver->engine().memory().insert(
        roce::PdId{1}, buffer.data(), address(0), buffer.size(),
        IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
    roce::QpInit init;
    init.pd = roce::PdId{1};
    init.send_cq = init.recv_cq = &cq;
    init.max_send_wr = init.max_recv_wr = 256;
    init.max_send_sge = init.max_recv_sge = 4;
    qp = *driver->engine().create_qp(init);
  }
  ~Node() {
    const std::lock_guard lock(driver->mutex());
    driver->engine().destroy_qp(qp);
    if (port != 0) driver->close_source_port(ip(), port);
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  [[nodiscard]] const roce::IpAddress& ip() const { return driver->addresses()[0]; }
  [[nodiscard]] std::uint64_t address(std::size_t offset) const {
    return reinterpret_cast<std::uint64_t>(buffer.data()) + offset;
  }

  void connect(const Node& peer, std::uint16_t source_port) {
    const std::lock_guard lock(driver->mutex());
    port = source_port;
    ASSERT_TRUE(driver->open_source_port(ip(), port).ok());
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_RTR;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    attr.dest_qp_num = roce::qpn_of(*peer.qp);
    attr.max_dest_rd_atomic = 16;
    attr.min_rnr_timer = 1;
    attr.path_mtu = IBV_MTU_4096;
    roce::FlowAddress flow;
    flow.source = ip();
    flow.destination = peer.ip();
    flow.source_port = port;
    driver->engine().modify_qp(*qp, attr,
                               IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_AV | IBV_QP_DEST_QPN |
                                   IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                   IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MTU,
                               flow);
    attr.qp_state = IBV_QPS_RTS;
    attr.timeout = 12;  // 17 ms
    attr.retry_cnt = attr.rnr_retry = 7;
    attr.max_rd_atomic = 16;
    driver->engine().modify_qp(*qp, attr,
                               IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                   IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
                               flow);
  }

  /// Posts one signaled WRITE of [offset, offset + bytes) to the same place of the peer.
  int post_write(const Node& peer, std::uint64_t wr_id, std::size_t offset, std::uint32_t bytes) {
    ibv_sge sge{address(offset), bytes, key};
    ibv_send_wr wr{};
    wr.wr_id = wr_id;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = peer.address(offset);
    wr.wr.rdma.rkey = peer.key;
    const ibv_send_wr* bad = nullptr;
    const std::lock_guard lock(driver->mutex());
    const int result = driver->engine().post_send(*qp, &wr, &bad);
    driver->after_post();
    return result;
  }

  CountingEvents events;
  roce::CompletionQueue cq{1024, nullptr};
  std::vector<std::uint8_t> buffer;
  std::unique_ptr<UdpDriver> driver;
  std::uint32_t key = 0;
  roce::Qp* qp = nullptr;
  std::uint16_t port = 0;
};

}  // namespace braid::softverbs::testing
