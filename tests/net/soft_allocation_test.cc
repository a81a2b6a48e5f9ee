#include <array>
#include <vector>

#include "softverbs/allocation_counter.h"
#include "softverbs/soft_bed.h"
#include "verbs/rc_setup.h"

// Posting, polling and the device's thread allocate nothing once a connection is up: two devices
// over UDP on loopback, with every allocation of the process counted.
namespace braid::softverbs::testing {
namespace {

struct Node {
  Node() : bytes(1U << 20U) {
    auto made = SoftVerbs::create(SoftDeviceOptions{});
    EXPECT_TRUE(made);
    api = std::move(made).value();
    ibv_device** list = api->get_device_list(nullptr);
    context = api->open_device(list[0]);
    api->free_device_list(list);
    EXPECT_NE(context, nullptr);
    pd = api->alloc_pd(context);
    channel = api->create_comp_channel(context);
    cq = api->create_cq(context, 256, nullptr, channel, 0);
    mr = api->reg_mr_iova(pd, bytes.data(), bytes.size(), address(), kEverything);
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = ibv_qp_cap{64, 64, 2, 2, 64};
    qp = api->create_qp(pd, &attr);
    EXPECT_NE(qp, nullptr);
    own.qpn = qp->qp_num;
    own.psn = 0xFFFFF0;  // wraps on the way
    own.mtu = IBV_MTU_4096;
    own.rd_atomic = 16;
    EXPECT_EQ(api->query_gid(context, 1, 0, &own.gid), 0);
  }
  ~Node() {
    EXPECT_EQ(api->destroy_qp(qp), 0);
    EXPECT_EQ(api->dereg_mr(mr), 0);
    EXPECT_EQ(api->destroy_cq(cq), 0);
    EXPECT_EQ(api->destroy_comp_channel(channel), 0);
    EXPECT_EQ(api->dealloc_pd(pd), 0);
    EXPECT_EQ(api->close_device(context), 0);
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  [[nodiscard]] std::uint64_t address() const {
    return reinterpret_cast<std::uint64_t>(bytes.data());
  }

  std::vector<std::uint8_t> bytes;
  std::unique_ptr<SoftVerbs> api;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  ibv_mr* mr = nullptr;
  ibv_qp* qp = nullptr;
  verbs::QpEndpoint own;
};

class SoftAllocation : public ::testing::Test {
 protected:
  void SetUp() override {
    verbs::RcOptions options;
    options.timeout = 16;
    ASSERT_TRUE(verbs::connect_rc(*a_.api, a_.qp, options, a_.own, b_.own).ok());
    ASSERT_TRUE(verbs::connect_rc(*b_.api, b_.qp, options, b_.own, a_.own).ok());
  }

  /// One of each operation, completed on both sides. False when one fails.
  bool exchange() {
    constexpr std::array kOpcodes{IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_SEND,
                                  IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
    std::size_t receives = 2;  // of the immediate and the SEND
    for (std::size_t i = 0; i < receives; ++i) {
      ibv_sge sge{b_.address(), 65536, b_.mr->lkey};
      ibv_recv_wr wr{};
      wr.sg_list = &sge;
      wr.num_sge = 1;
      ibv_recv_wr* bad = nullptr;
      if (ibv_post_recv(b_.qp, &wr, &bad) != 0) return false;
    }
    for (const ibv_wr_opcode opcode : kOpcodes) {
      const bool atomic = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
      ibv_sge sge{a_.address(), atomic ? 8U : 65536U, a_.mr->lkey};
      ibv_send_wr wr{};
      wr.opcode = opcode;
      wr.sg_list = &sge;
      wr.num_sge = 1;
      wr.send_flags = IBV_SEND_SIGNALED;
      if (atomic) {
        wr.wr.atomic.remote_addr = b_.address();
        wr.wr.atomic.rkey = b_.mr->rkey;
      } else {
        wr.wr.rdma.remote_addr = b_.address();
        wr.wr.rdma.rkey = b_.mr->rkey;
      }
      ibv_send_wr* bad = nullptr;
      if (ibv_post_send(a_.qp, &wr, &bad) != 0) return false;
    }
    std::size_t sends = kOpcodes.size();
    while (sends + receives != 0) {
      if (!take(a_.cq, sends) || !take(b_.cq, receives)) return false;
    }
    return true;
  }
  /// Polls, and counts down. False when a completion is an error.
  static bool take(ibv_cq* cq, std::size_t& left) {
    std::array<ibv_wc, 8> wcs;
    const int count = ibv_poll_cq(cq, 8, wcs.data());
    if (count < 0) return false;
    for (int i = 0; i < count; ++i) {
      if (wcs[static_cast<std::size_t>(i)].status != IBV_WC_SUCCESS) return false;
    }
    left -= static_cast<std::size_t>(count);
    return true;
  }

  Node a_;
  Node b_;
};

TEST_F(SoftAllocation, Polling_AllocatesNothing) {
  ASSERT_TRUE(exchange());
  const std::uint64_t before = braid::testing::allocation_count();
  ASSERT_GT(before, 0U) << "the counter does not count";
  for (int i = 0; i < 300; ++i) ASSERT_TRUE(exchange());
  EXPECT_EQ(braid::testing::allocation_count(), before);
}

TEST_F(SoftAllocation, SleepingOnEvents_AllocatesNothing) {
  ASSERT_TRUE(exchange());
  const std::uint64_t before = braid::testing::allocation_count();
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(ibv_req_notify_cq(a_.cq, 0), 0);
    ibv_sge sge{a_.address(), 4096, a_.mr->lkey};
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = b_.address();
    wr.wr.rdma.rkey = b_.mr->rkey;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(a_.qp, &wr, &bad), 0);
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    ASSERT_EQ(a_.api->get_cq_event(a_.channel, &cq, &context), 0);
    a_.api->ack_cq_events(cq, 1);
    std::size_t left = 1;
    while (left != 0) ASSERT_TRUE(take(a_.cq, left));
  }
  EXPECT_EQ(braid::testing::allocation_count(), before);
}

}  // namespace
}  // namespace braid::softverbs::testing
