#include "verbs/conformance/conformance_fixture.h"
#include "verbs/gid_choice.h"

// Path MTUs, packet sequence numbers at their wrap, many QPs, source ports.
namespace braid::verbs::conformance {
namespace {

TEST_P(Paths, EveryMtuUpToThePorts_SameBytes) {
  for (int code = IBV_MTU_256; code <= IBV_MTU_4096; ++code) {
    SCOPED_TRACE(code);
    TearDown();
    SetUp();
    make();
    if (code > a_->port.active_mtu || code > b_->port.active_mtu) break;
    a_->port.active_mtu = static_cast<ibv_mtu>(code);  // what describe() offers
    bring_up();
    constexpr std::size_t kBytes = 50'001;
    const auto local = a_->memory(2 * kBytes);
    const auto remote = b_->memory(kBytes);
    local->set(0, pattern(kBytes, static_cast<std::uint64_t>(code)));
    SendWr write(IBV_WR_RDMA_WRITE);
    ASSERT_EQ(run(write.from(*local, 0, kBytes).to(*remote)), IBV_WC_SUCCESS);
    SendWr read(IBV_WR_RDMA_READ);
    ASSERT_EQ(run(read.from(*local, kBytes, kBytes).to(*remote)), IBV_WC_SUCCESS);
    EXPECT_EQ(remote->get(0, kBytes), local->get(0, kBytes));
    EXPECT_EQ(local->get(kBytes, kBytes), local->get(0, kBytes));
  }
}

TEST_P(Paths, MtuSmallerThanThePorts_PacketsStillReassemble) {
  make();
  a_->port.active_mtu = IBV_MTU_256;
  bring_up();
  const auto source = a_->memory(1U << 20U);
  const auto target = b_->memory(1U << 20U);
  source->set(0, pattern(1U << 20U, 6));
  ASSERT_EQ(post_receive(*b_, 1, target.get(), 0, 1U << 20U), 0);
  SendWr wr(IBV_WR_SEND);
  ASSERT_EQ(run(wr.from(*source, 0, 1U << 20U)), IBV_WC_SUCCESS);
  EXPECT_EQ(target->get(0, 1U << 20U), source->get(0, 1U << 20U));
}

TEST_P(Paths, SequenceNumbersWrap_NothingNotices) {
  for (const std::uint32_t psn : {0xFFFFFFU, 0xFFFFFEU, 0xFFFFF0U, 0x7FFFF8U}) {
    SCOPED_TRACE(psn);
    TearDown();
    SetUp();
    make();
    a_->first_psn = psn;
    b_->first_psn = 0xFFFFFF - (psn & 7);
    bring_up();
    constexpr std::size_t kBytes = 100'000;
    const auto local = a_->memory(2 * kBytes + 8);
    const auto remote = b_->memory(kBytes);
    local->set(0, pattern(kBytes, psn));
    SendWr write(IBV_WR_RDMA_WRITE);
    ASSERT_EQ(run(write.from(*local, 0, kBytes).to(*remote)), IBV_WC_SUCCESS);
    SendWr read(IBV_WR_RDMA_READ);
    ASSERT_EQ(run(read.from(*local, kBytes, kBytes).to(*remote)), IBV_WC_SUCCESS);
    EXPECT_EQ(local->get(kBytes, kBytes), pattern(kBytes, psn));
    SendWr atomic(IBV_WR_ATOMIC_FETCH_AND_ADD);
    ASSERT_EQ(run(atomic.from(*local, 2 * kBytes, 8).to(*remote).compare_add(1)), IBV_WC_SUCCESS);
    EXPECT_EQ(remote->word(0), local->word(0) + 1);
  }
}

TEST_P(Paths, ManyQpsAtOnce_EachDeliversItsOwn) {
  EndpointOptions options;
  options.cq_entries = 2048;
  connect(options);
  constexpr std::size_t kQps = 16;
  constexpr std::size_t kBytes = 30'000;
  const auto source = a_->memory(kQps * kBytes);
  const auto target = b_->memory(kQps * kBytes);
  source->set(0, pattern(kQps * kBytes, 9));
  std::vector<ibv_qp*> qps_a;
  std::vector<ibv_qp*> qps_b;
  for (std::size_t i = 0; i < kQps; ++i) {
    qps_a.push_back(a_->make_qp());
    qps_b.push_back(b_->make_qp());
    RcOptions rc = patient();
    rc.gid_index = a_->side.gid_index;
    ASSERT_TRUE(
        connect_rc(a_->api, qps_a[i], rc, a_->describe(qps_a[i]), b_->describe(qps_b[i])).ok());
    rc.gid_index = b_->side.gid_index;
    ASSERT_TRUE(
        connect_rc(b_->api, qps_b[i], rc, b_->describe(qps_b[i]), a_->describe(qps_a[i])).ok());
  }
  for (std::size_t i = 0; i < kQps; ++i) {
    SendWr wr(IBV_WR_RDMA_WRITE, i);
    ASSERT_EQ(wr.from(*source, i * kBytes, kBytes).to(*target, i * kBytes).post(qps_a[i]), 0);
  }
  ASSERT_TRUE(wait_sends(*a_, kQps));
  for (const ibv_wc& wc : a_->sends) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    EXPECT_EQ(wc.qp_num, qps_a[wc.wr_id]->qp_num);
  }
  EXPECT_EQ(target->get(0, kQps * kBytes), source->get(0, kQps * kBytes));
  for (ibv_qp* qp : qps_a) EXPECT_EQ(a_->api.destroy_qp(qp), 0);
  for (ibv_qp* qp : qps_b) EXPECT_EQ(b_->api.destroy_qp(qp), 0);
}

TEST_P(Paths, SourcePort_WhereTheDeviceReportsIt_IsTheOneAskedFor) {
  RcOptions rc = patient();
  rc.source_port = 0xC123;
  connect({}, rc);
  const auto report = request_source_port(a_->api, a_->qp, rc);
  ASSERT_TRUE(report.has_value()) << report.error().to_string();
  EXPECT_EQ(report->requested, 0xC123);
  EXPECT_NE(report->means, SourcePortMeans::kNone);
  if (report->verified != 0) {
    EXPECT_EQ(report->verified, 0xC123);
  }
  SendWr wr(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(wr), IBV_WC_SUCCESS);
}

TEST_P(Paths, SharedCq_BothQueuesCompleteIntoIt) {
  EndpointOptions options;
  options.own_cqs = false;
  connect(options);
  ASSERT_EQ(post_receive(*a_, 1), 0);
  SendWr forth(IBV_WR_RDMA_WRITE, 2);
  ASSERT_EQ(forth.post(a_->qp), 0);
  SendWr back(IBV_WR_SEND, 3);
  ASSERT_EQ(back.post(b_->qp), 0);
  ASSERT_TRUE(wait_sends(*a_, 2));  // with one CQ everything is counted as a send
  bool received = false;
  for (const ibv_wc& wc : a_->sends) {
    EXPECT_EQ(wc.status, IBV_WC_SUCCESS);
    received = received || wc.opcode == IBV_WC_RECV;
  }
  EXPECT_TRUE(received);
}

TEST_P(Paths, PortAndDevice_DescribeThemselves) {
  make();
  EXPECT_EQ(a_->port.state, IBV_PORT_ACTIVE);
  EXPECT_GE(a_->port.active_mtu, IBV_MTU_256);
  EXPECT_LE(a_->port.active_mtu, a_->port.max_mtu);
  EXPECT_GE(a_->port.max_msg_sz, 1U << 20U);
  EXPECT_GT(a_->port.gid_tbl_len, a_->side.gid_index);
  EXPECT_GE(a_->device.max_qp, 2);
  EXPECT_GE(a_->device.max_sge, 16);
  EXPECT_GE(a_->device.max_qp_rd_atom, 1);
  EXPECT_GE(a_->device.phys_port_cnt, 1);
  ibv_port_attr port{};
  EXPECT_NE(a_->api.query_port(a_->side.context, 0, &port), 0);
  EXPECT_NE(a_->api.query_port(a_->side.context, 200, &port), 0);
  __be16 pkey = 0;
  ASSERT_EQ(a_->api.query_pkey(a_->side.context, a_->side.port, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xFFFF);
  ibv_gid gid{};
  EXPECT_NE(a_->api.query_gid(a_->side.context, a_->side.port, a_->port.gid_tbl_len, &gid), 0);
}

TEST_P(Paths, GidChoice_FindsTheGidOfTheSideByValue) {
  make();
  const auto best = choose_gid(a_->api, a_->side.context, {.port = a_->side.port});
  ASSERT_TRUE(best.has_value()) << best.error().to_string();
  GidRequest request;
  request.port = a_->side.port;
  request.value = a_->describe().gid;
  const auto same = choose_gid(a_->api, a_->side.context, request);
  ASSERT_TRUE(same.has_value()) << same.error().to_string();
  EXPECT_EQ(same->chosen.index, a_->side.gid_index);
}

}  // namespace
}  // namespace braid::verbs::conformance
