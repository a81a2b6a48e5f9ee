#include <gmock/gmock.h>

#include <cerrno>
#include <string>

#include "softverbs/soft_bed.h"

// UDP source ports: from flow labels, from QPNs, by request, and when they are taken.
namespace braid::softverbs::testing {
namespace {

using ::testing::HasSubstr;

class SourcePort : public SoftBed {
 protected:
  void SetUp() override {
    SoftBed::SetUp();
    near_ = make_qp(0, make_cq(0));
    far_ = make_qp(1, make_cq(1));
  }
  /// Moves the near QP to RTR with a flow label. Returns what modify_qp does.
  int to_rtr(std::uint32_t label) {
    ibv_qp_attr attr = attributes_towards(1, far_->qp_num);
    attr.ah_attr.grh.flow_label = label;
    EXPECT_EQ(modify(0, near_, attr, IBV_QPS_RESET, IBV_QP_STATE), 0);
    EXPECT_EQ(modify(0, near_, attr, IBV_QPS_INIT, kInitMask), 0);
    return modify(0, near_, attr, IBV_QPS_RTR, kRtrMask);
  }
  std::uint16_t port() {
    std::uint16_t port = 0;
    EXPECT_EQ(api(0).query_qp_udp_sport(near_, &port), 0);
    return port;
  }
  /// The ports that a WRITE of the near QP is seen to leave from.
  std::set<std::uint16_t> ports_of_a_write() {
    fabric.used_source_ports.clear();
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(near_, &wr, &bad), 0);
    const auto seen = fabric.used_source_ports;
    settle();
    return seen;
  }
  /// As the kernel's drivers do: both QPNs multiplied, and folded to 20 bits.
  std::uint32_t derived_label() const {
    std::uint64_t folded = std::uint64_t{near_->qp_num} * far_->qp_num;
    folded ^= folded >> 20;
    folded ^= folded >> 40;
    return static_cast<std::uint32_t>(folded & 0xFFFFF);
  }

  ibv_qp* near_ = nullptr;
  ibv_qp* far_ = nullptr;
};

TEST_F(SourcePort, FlowLabel_FoldedIntoTheUpperQuarter) {
  const struct {
    std::uint32_t label;
    std::uint16_t port;
  } golden[] = {{0x00001, 0xC001}, {0x03FFF, 0xFFFF}, {0x04001, 0xC000},
                {0x04000, 0xC001}, {0xFFFFF, 0xFFC0}, {0xABCDE, 0xFCF4}};
  for (const auto& [label, expected] : golden) {
    ASSERT_EQ(to_rtr(label), 0);
    EXPECT_EQ(port(), expected) << "label " << label;
    EXPECT_EQ(port(), ibv_flow_label_to_udp_sport(label));
  }
}

// Fault: A27, B27
TEST_F(SourcePort, NoFlowLabel_DerivedFromBothQpNumbers) {
  ASSERT_EQ(to_rtr(0), 0);
  EXPECT_EQ(port(), ibv_flow_label_to_udp_sport(derived_label()));
}

TEST_F(SourcePort, DerivedPortTaken_TheNextOneServes) {
  const std::uint16_t first = ibv_flow_label_to_udp_sport(derived_label());
  const auto second = static_cast<std::uint16_t>((first + 1U) | 0xC000U);
  fabric.refused_ports = {first, second};
  ASSERT_EQ(to_rtr(0), 0);
  EXPECT_EQ(port(), static_cast<std::uint16_t>((second + 1U) | 0xC000U));
}

TEST_F(SourcePort, EveryDerivedPortTaken_TheDevicesOwnServes) {
  for (std::uint32_t taken = 0xC000; taken <= 0xFFFF; ++taken) {
    fabric.refused_ports.insert(static_cast<std::uint16_t>(taken));
  }
  ASSERT_EQ(to_rtr(0), 0);
  EXPECT_EQ(port(), 4791);
}

TEST_F(SourcePort, RequestedByLabelAndTaken_ErrnoAndStateKept) {
  fabric.refused_ports = {0xC005};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(to_rtr(5), EADDRINUSE);
  const std::string said = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, HasSubstr("port 49157"));
  EXPECT_THAT(said, HasSubstr("QP " + std::to_string(near_->qp_num)));
  EXPECT_EQ(state_of(0, near_), IBV_QPS_INIT);
  std::uint16_t none = 0;
  EXPECT_EQ(api(0).query_qp_udp_sport(near_, &none), EINVAL);
  EXPECT_EQ(to_rtr(6), 0);
}

TEST_F(SourcePort, RequestedInRts_LeavesFromItAtOnce) {
  connect(near_, far_);
  const std::uint16_t before = port();
  EXPECT_EQ(ports_of_a_write(), std::set<std::uint16_t>{before});
  ASSERT_EQ(api(0).modify_qp_udp_sport(near_, 10001), 0);
  EXPECT_EQ(port(), 10001);
  EXPECT_EQ(ports_of_a_write(), std::set<std::uint16_t>{10001});
}

TEST_F(SourcePort, RequestedInRtsAndTaken_TheOldOneStays) {
  connect(near_, far_);
  const std::uint16_t before = port();
  fabric.refused_ports = {10001};
  ::testing::internal::CaptureStderr();
  EXPECT_EQ(api(0).modify_qp_udp_sport(near_, 10001), EADDRINUSE);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("port 10001"));
  EXPECT_EQ(port(), before);
  EXPECT_EQ(ports_of_a_write(), std::set<std::uint16_t>{before});
}

// Fault: B28
TEST_F(SourcePort, RequestedInTheWrongStateOrZero_Refused) {
  EXPECT_EQ(api(0).modify_qp_udp_sport(near_, 10001), EINVAL);
  ASSERT_EQ(modify(0, near_, attributes_towards(1, far_->qp_num), IBV_QPS_INIT, kInitMask), 0);
  EXPECT_EQ(api(0).modify_qp_udp_sport(near_, 10001), EINVAL);
  ASSERT_EQ(to_rtr(0), 0);
  EXPECT_EQ(api(0).modify_qp_udp_sport(near_, 0), EINVAL);
  EXPECT_EQ(api(0).modify_qp_udp_sport(near_, 10001), 0);
}

}  // namespace
}  // namespace braid::softverbs::testing
