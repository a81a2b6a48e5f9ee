#include "verbs/rc_setup.h"

#include <gtest/gtest.h>

#include <set>

#include "verbs/fake_verbs.h"

namespace braid::verbs {
namespace {

TEST(FlowLabelForPort, EveryExpressiblePort_RoundTrips) {
  std::set<std::uint32_t> labels;
  for (std::uint32_t port = 0xC000; port <= 0xFFFF; ++port) {
    const auto label = flow_label_for_port(static_cast<std::uint16_t>(port));
    ASSERT_TRUE(label.has_value()) << port;
    EXPECT_NE(*label, 0U) << port;  // 0 lets the driver choose
    EXPECT_LE(*label, 0xFFFFFU) << port;
    EXPECT_EQ(ibv_flow_label_to_udp_sport(*label), port);
    labels.insert(*label);
  }
  EXPECT_EQ(labels.size(), 16384U);
}

TEST(FlowLabelForPort, GoldenValues) {
  EXPECT_EQ(flow_label_for_port(0xC000), 0x4001U);
  EXPECT_EQ(flow_label_for_port(0xC001), 0x0001U);
  EXPECT_EQ(flow_label_for_port(0xFFFF), 0x3FFFU);
}

TEST(FlowLabelForPort, BelowTheRange_Empty) {
  EXPECT_FALSE(flow_label_for_port(0xBFFF).has_value());
  EXPECT_FALSE(flow_label_for_port(10000).has_value());
  EXPECT_FALSE(flow_label_for_port(0).has_value());
}

TEST(MtuBytes, EveryCode) {
  EXPECT_EQ(mtu_bytes(IBV_MTU_256), 256U);
  EXPECT_EQ(mtu_bytes(IBV_MTU_512), 512U);
  EXPECT_EQ(mtu_bytes(IBV_MTU_1024), 1024U);
  EXPECT_EQ(mtu_bytes(IBV_MTU_2048), 2048U);
  EXPECT_EQ(mtu_bytes(IBV_MTU_4096), 4096U);
  EXPECT_EQ(mtu_bytes(static_cast<ibv_mtu>(0)), 0U);
  EXPECT_EQ(mtu_bytes(static_cast<ibv_mtu>(6)), 0U);
}

class RcSetup : public testing::Test {
 protected:
  void open(FakeOptions options) {
    api_ = std::make_unique<FakeVerbs>(std::move(options));
    ibv_device** list = api_->get_device_list(nullptr);
    context_ = api_->open_device(list[0]);
    api_->free_device_list(list);
    pd_ = api_->alloc_pd(context_);
    cq_ = api_->create_cq(context_, 16, nullptr, nullptr, 0);
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq_;
    attr.qp_type = IBV_QPT_RC;
    qp_ = api_->create_qp(pd_, &attr);
  }
  void SetUp() override { open({}); }
  void TearDown() override {
    api_->destroy_qp(qp_);
    api_->destroy_cq(cq_);
    api_->dealloc_pd(pd_);
    api_->close_device(context_);
    EXPECT_EQ(api_->live_objects(), 0U);
  }

  std::unique_ptr<FakeVerbs> api_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
};

TEST_F(RcSetup, ConnectRc_PassesEveryAttribute) {
  RcOptions options;
  options.gid_index = 3;
  options.traffic_class = 132;
  options.service_level = 4;
  options.source_port = 0xC123;
  options.max_rd_atomic = 16;
  QpEndpoint local{.qpn = qp_->qp_num, .psn = 0xFFFFFF, .mtu = IBV_MTU_4096, .rd_atomic = 8};
  QpEndpoint remote{.qpn = 77, .psn = 5, .mtu = IBV_MTU_1024, .rd_atomic = 4};
  remote.gid.raw[15] = 9;
  ASSERT_TRUE(connect_rc(*api_, qp_, options, local, remote).ok());

  ASSERT_EQ(api_->modifies().size(), 3U);
  const FakeModify& init = api_->modifies()[0];
  EXPECT_EQ(init.attr.qp_state, IBV_QPS_INIT);
  EXPECT_EQ(init.mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
  EXPECT_EQ(init.attr.port_num, 1);

  const FakeModify& rtr = api_->modifies()[1];
  EXPECT_EQ(rtr.attr.qp_state, IBV_QPS_RTR);
  EXPECT_EQ(rtr.attr.path_mtu, IBV_MTU_1024);
  EXPECT_EQ(rtr.attr.dest_qp_num, 77U);
  EXPECT_EQ(rtr.attr.rq_psn, 5U);
  EXPECT_EQ(rtr.attr.max_dest_rd_atomic, 8);
  EXPECT_EQ(rtr.attr.ah_attr.is_global, 1);
  EXPECT_EQ(rtr.attr.ah_attr.sl, 4);
  EXPECT_EQ(rtr.attr.ah_attr.grh.sgid_index, 3);
  EXPECT_EQ(rtr.attr.ah_attr.grh.traffic_class, 132);
  EXPECT_EQ(rtr.attr.ah_attr.grh.flow_label, 0x123U);
  EXPECT_EQ(rtr.attr.ah_attr.grh.dgid.raw[15], 9);

  const FakeModify& rts = api_->modifies()[2];
  EXPECT_EQ(rts.attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(rts.attr.sq_psn, 0xFFFFFFU);
  EXPECT_EQ(rts.attr.max_rd_atomic, 4);  // what the peer answers, not what this side wishes
  EXPECT_EQ(rts.attr.rnr_retry, 6);      // finite
}

TEST_F(RcSetup, ToRtr_PortBelowFlowLabelRange_LeavesLabelToDevice) {
  RcOptions options;
  options.source_port = 10000;
  ASSERT_TRUE(to_rtr(*api_, qp_, options, {.qpn = 1}, {.qpn = 2}).ok());
  EXPECT_EQ(api_->modifies()[0].attr.ah_attr.grh.flow_label, 0U);
}

TEST_F(RcSetup, OutOfRange_RefusedBeforeTheDevice) {
  RcOptions options;
  EXPECT_EQ(to_rtr(*api_, qp_, options, {.qpn = 1}, {.qpn = 1U << 24U}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(to_rtr(*api_, qp_, options, {.qpn = 1}, {.qpn = 1, .psn = 1U << 24U}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(
      to_rtr(*api_, qp_, options, {.qpn = 1}, {.qpn = 1, .mtu = static_cast<ibv_mtu>(6)}).code(),
      StatusCode::kInvalidArgument);
  options.timeout = 32;
  EXPECT_EQ(to_rts(*api_, qp_, options, {.qpn = 1}, {.qpn = 1}).code(),
            StatusCode::kInvalidArgument);
  EXPECT_TRUE(api_->modifies().empty());
}

// Requirement: 13
// Fault: A30
TEST_F(RcSetup, RequestSourcePort_DeviceWithoutTheCall_FlowLabelWhereItReaches) {
  RcOptions options;
  options.source_port = 0xC000;
  auto report = request_source_port(*api_, qp_, options);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->means, SourcePortMeans::kFlowLabel);
  EXPECT_EQ(report->verified, 0);

  options.source_port = 0xBFFF;
  report = request_source_port(*api_, qp_, options);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->requested, 0xBFFF);
  EXPECT_EQ(report->means, SourcePortMeans::kNone);
}

// Requirement: 13
// Fault: B28
TEST_F(RcSetup, RequestSourcePort_DeviceWithTheCall_Verified) {
  TearDown();
  open({.modify_sport_error = 0});
  RcOptions options;
  options.source_port = 10000;
  const auto report = request_source_port(*api_, qp_, options);
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->means, SourcePortMeans::kModify);
  EXPECT_EQ(report->verified, 10000);
}

TEST_F(RcSetup, RequestSourcePort_PortTaken_SaysPermission) {
  TearDown();
  open({.modify_sport_error = EADDRINUSE});
  RcOptions options;
  options.source_port = 10000;
  const auto report = request_source_port(*api_, qp_, options);
  ASSERT_FALSE(report.has_value());
  EXPECT_EQ(report.error(), Status::from_verbs(StatusCode::kPermission, EADDRINUSE));
}

}  // namespace
}  // namespace braid::verbs
