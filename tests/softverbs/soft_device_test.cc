#include <cerrno>
#include <cstring>

#include "softverbs/soft_bed.h"

// The device itself: what it says of itself, what it lacks, and its asynchronous events.
namespace braid::softverbs::testing {
namespace {

class SoftDevice : public SoftBed {
 protected:
  bool take_async(ibv_async_event& event) {
    if (!readable(contexts[0]->async_fd)) return false;
    EXPECT_EQ(api(0).get_async_event(contexts[0], &event), 0);
    api(0).ack_async_event(&event);
    return true;
  }
};

TEST_F(SoftDevice, List_NamesTheDeviceAndEndsWithNull) {
  int count = -1;
  ibv_device** list = api(0).get_device_list(&count);
  ASSERT_NE(list, nullptr);
  ASSERT_EQ(count, 1);
  EXPECT_STREQ(api(0).get_device_name(list[0]), "memory0");
  EXPECT_NE(api(0).get_device_guid(list[0]), 0U);
  EXPECT_EQ(list[0]->node_type, IBV_NODE_CA);
  EXPECT_EQ(list[0]->transport_type, IBV_TRANSPORT_IB);
  EXPECT_EQ(list[1], nullptr);
  api(0).free_device_list(list);
}

TEST_F(SoftDevice, Context_IsAnExtendedOne) {
  EXPECT_EQ(contexts[0]->abi_compat, __VERBS_ABI_IS_EXTENDED);
  EXPECT_EQ(contexts[0]->cmd_fd, -1);
  EXPECT_GE(contexts[0]->num_comp_vectors, 1);
  ibv_device_attr_ex extended{};
  ASSERT_EQ(ibv_query_device_ex(contexts[0], nullptr, &extended), 0);
  ibv_device_attr plain{};
  ASSERT_EQ(api(0).query_device(contexts[0], &plain), 0);
  EXPECT_EQ(std::memcmp(&extended.orig_attr, &plain, sizeof plain), 0);
  ibv_query_device_ex_input input{};
  input.comp_mask = 1;
  EXPECT_EQ(ibv_query_device_ex(contexts[0], &input, &extended), EINVAL);
}

TEST_F(SoftDevice, Port_ActiveEthernetWithRoceV2Address) {
  ibv_port_attr port{};
  ASSERT_EQ(api(0).query_port(contexts[0], 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
  EXPECT_EQ(port.active_mtu, IBV_MTU_4096);
  EXPECT_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(port.gid_tbl_len, 1);
  EXPECT_EQ(port.pkey_tbl_len, 1);
  EXPECT_EQ(api(0).query_port(contexts[0], 0, &port), EINVAL);
  EXPECT_EQ(api(0).query_port(contexts[0], 2, &port), EINVAL);
  // The inline function of verbs.h takes the context's own entry point.
  ibv_port_attr inlined{};
  ASSERT_EQ(ibv_query_port(contexts[0], 1, &inlined), 0);
  EXPECT_EQ(inlined.active_mtu, IBV_MTU_4096);

  ibv_gid_entry entry{};
  ASSERT_EQ(api(0).query_gid_ex(contexts[0], 1, 0, &entry), 0);
  EXPECT_EQ(entry.gid_type, static_cast<std::uint32_t>(IBV_GID_TYPE_ROCE_V2));
  const std::uint8_t mapped[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF, 10, 0, 0, 1};
  EXPECT_EQ(std::memcmp(entry.gid.raw, mapped, sizeof mapped), 0);
  EXPECT_EQ(api(0).query_gid_ex(contexts[0], 1, 1, &entry), ENODATA);
  ibv_gid gid{};
  EXPECT_EQ(api(0).query_gid(contexts[0], 1, 1, &gid), -1);
  EXPECT_EQ(api(0).query_gid(contexts[0], 1, -1, &gid), -1);
  __be16 pkey = 0;
  ASSERT_EQ(api(0).query_pkey(contexts[0], 1, 0, &pkey), 0);
  EXPECT_EQ(pkey, 0xFFFF);
  EXPECT_EQ(api(0).query_pkey(contexts[0], 1, 1, &pkey), -1);
}

TEST_F(SoftDevice, WhatItLacks_OperationNotSupported) {
  ibv_cq* cq = make_cq(0);
  for (const ibv_qp_type type : {IBV_QPT_UD, IBV_QPT_UC, IBV_QPT_RAW_PACKET}) {
    ibv_qp_init_attr attr = rc_attr(cq);
    attr.qp_type = type;
    errno = 0;
    EXPECT_EQ(api(0).create_qp(pds[0], &attr), nullptr);
    EXPECT_EQ(errno, EOPNOTSUPP);
  }
  errno = 0;
  EXPECT_EQ(api(0).reg_dmabuf_mr(pds[0], 0, 4096, 0, 3, kEverything), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  std::uint8_t byte = 0;
  errno = 0;
  EXPECT_EQ(api(0).reg_mr_iova(pds[0], &byte, 1, 0, IBV_ACCESS_ON_DEMAND), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  errno = 0;
  EXPECT_EQ(ibv_alloc_mw(pds[0], IBV_MW_TYPE_1), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
  ibv_cq_init_attr_ex timed{};
  timed.cqe = 8;
  timed.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP;
  errno = 0;
  EXPECT_EQ(ibv_create_cq_ex(contexts[0], &timed), nullptr);
  EXPECT_EQ(errno, EOPNOTSUPP);
}

TEST_F(SoftDevice, Resizing_LimitsAreHeldAtTheLimitAndOnePast) {
  ibv_cq* cq = make_cq(0);
  EXPECT_EQ(api(0).resize_cq(cq, 0), EINVAL);
  EXPECT_EQ(api(0).resize_cq(cq, SoftLimits::kMaxCqe + 1), EINVAL);
  EXPECT_EQ(api(0).resize_cq(cq, 128), 0);
  EXPECT_GE(cq->cqe, 128);
  EXPECT_EQ(api(0).create_cq(contexts[0], 8, nullptr, nullptr, contexts[0]->num_comp_vectors),
            nullptr);
  EXPECT_EQ(errno, EINVAL);
  ibv_qp_init_attr attr = rc_attr(cq);
  attr.cap.max_inline_data = SoftLimits::kMaxInlineBytes;
  attr.cap.max_send_sge = attr.cap.max_recv_sge = SoftLimits::kMaxSge;
  ibv_qp* qp = api(0).create_qp(pds[0], &attr);
  ASSERT_NE(qp, nullptr);
  EXPECT_EQ(api(0).destroy_qp(qp), 0);
  attr.cap.max_inline_data = SoftLimits::kMaxInlineBytes + 1;
  EXPECT_EQ(api(0).create_qp(pds[0], &attr), nullptr);
  EXPECT_EQ(errno, EINVAL);
}

TEST_F(SoftDevice, PortEvents_ReadableOneByOneAndSeenByQueryPort) {
  ibv_async_event event{};
  EXPECT_FALSE(take_async(event));
  soft_context(0).raise_port_event(IBV_EVENT_PORT_ERR);
  soft_context(0).raise_port_event(IBV_EVENT_GID_CHANGE);
  ASSERT_TRUE(take_async(event));
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
  EXPECT_EQ(event.element.port_num, 1);
  ibv_port_attr port{};
  ASSERT_EQ(api(0).query_port(contexts[0], 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_DOWN);
  ASSERT_TRUE(take_async(event));
  EXPECT_EQ(event.event_type, IBV_EVENT_GID_CHANGE);
  EXPECT_FALSE(take_async(event)) << "readable only while an event is queued";
  soft_context(0).raise_port_event(IBV_EVENT_PORT_ACTIVE);
  ASSERT_TRUE(take_async(event));
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ACTIVE);
  ASSERT_EQ(api(0).query_port(contexts[0], 1, &port), 0);
  EXPECT_EQ(port.state, IBV_PORT_ACTIVE);
}

TEST_F(SoftDevice, NobodyTakesEvents_TheQueueStaysBounded) {
  for (int i = 0; i < 1000; ++i) soft_context(0).raise_port_event(IBV_EVENT_GID_CHANGE);
  ibv_async_event event{};
  int taken = 0;
  while (take_async(event)) ++taken;
  EXPECT_EQ(taken, 256);
  soft_context(0).raise_port_event(IBV_EVENT_GID_CHANGE);
  EXPECT_TRUE(take_async(event)) << "room again";
}

TEST_F(SoftDevice, QpDestroyed_ItsEventsGoWithIt) {
  ibv_cq* cq = make_cq(0);
  ibv_cq* far_cq = make_cq(1);
  ibv_qp* near = make_bare_qp(0, cq);
  ibv_qp* far = make_qp(1, far_cq);
  // RTR only: the first packet then says so by an event.
  const ibv_qp_attr attr = attributes_towards(1, far->qp_num);
  ASSERT_EQ(modify(0, near, attr, IBV_QPS_INIT, kInitMask), 0);
  ASSERT_EQ(modify(0, near, attr, IBV_QPS_RTR, kRtrMask), 0);
  raise(1, far, attributes_towards(0, near->qp_num));
  soft_context(0).raise_port_event(IBV_EVENT_GID_CHANGE);
  ibv_send_wr wr{};
  wr.opcode = IBV_WR_RDMA_WRITE;
  ibv_send_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_send(far, &wr, &bad), 0);
  settle();
  soft_context(0).raise_port_event(IBV_EVENT_GID_CHANGE);
  ASSERT_EQ(api(0).destroy_qp(near), 0);
  ibv_async_event event{};
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(take_async(event));
    EXPECT_EQ(event.event_type, IBV_EVENT_GID_CHANGE);
  }
  EXPECT_FALSE(take_async(event));
}

class FailingFactory final : public DriverFactory {
 public:
  Result<std::unique_ptr<DeviceDriver>> make_driver(roce::EngineEvents&,
                                                    std::string* error) noexcept override {
    *error = "address 192.0.2.1 is nobody's";
    return Status::from_errno(StatusCode::kIo, EADDRNOTAVAIL);
  }
};

TEST(SoftVerbsOpen, DriverFails_NullWithErrnoAndSentence) {
  std::vector<SoftDeviceEntry> devices;
  devices.push_back({"broken0", std::make_unique<FailingFactory>()});
  std::string said;
  SoftVerbs api(std::move(devices), [&](const std::string& text) { said = text; });
  ibv_device** list = api.get_device_list(nullptr);
  ASSERT_NE(list, nullptr);
  errno = 0;
  EXPECT_EQ(api.open_device(list[0]), nullptr);
  EXPECT_EQ(errno, EADDRNOTAVAIL);
  EXPECT_EQ(said, "address 192.0.2.1 is nobody's");
  api.free_device_list(list);
}

TEST(SoftVerbsCreate, NameTooLongOrEmpty_Refused) {
  SoftDeviceOptions options;
  options.name = std::string(IBV_SYSFS_NAME_MAX - 1, 'n');
  EXPECT_TRUE(SoftVerbs::create(options));
  options.name += 'n';
  EXPECT_EQ(SoftVerbs::create(options).error().code(), StatusCode::kInvalidArgument);
  options.name.clear();
  EXPECT_EQ(SoftVerbs::create(options).error().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace braid::softverbs::testing
