#include <set>

#include "verbs/conformance/conformance_fixture.h"

// Full queues, overflowing CQs, capabilities, order of destruction.
namespace braid::verbs::conformance {
namespace {

TEST_P(QueueLimits, Create_GrantsAtLeastWhatWasAsked) {
  make();
  EXPECT_GE(a_->cap.max_send_wr, 128U);
  EXPECT_GE(a_->cap.max_recv_wr, 128U);
  EXPECT_GE(a_->cap.max_send_sge, 16U);
  EXPECT_GE(a_->cap.max_recv_sge, 16U);
  EXPECT_GE(a_->cap.max_inline_data, 64U);
  EXPECT_GE(a_->send_cq->cqe, 512);
}

TEST_P(QueueLimits, QueryQp_ReportsTheGrantedCapabilities) {
  connect();
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  ASSERT_EQ(a_->api.query_qp(a_->qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
  EXPECT_EQ(attr.qp_state, IBV_QPS_RTS);
  EXPECT_EQ(init.cap.max_send_wr, a_->cap.max_send_wr);
  EXPECT_EQ(init.cap.max_recv_wr, a_->cap.max_recv_wr);
  EXPECT_EQ(init.cap.max_inline_data, a_->cap.max_inline_data);
  EXPECT_EQ(init.send_cq, a_->send_cq);
  EXPECT_EQ(init.recv_cq, a_->recv_cq);
  EXPECT_EQ(init.qp_context, a_.get());
}

TEST_P(QueueLimits, CreateQp_BeyondTheDevice_Refused) {
  make();
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = a_->send_cq;
  attr.qp_type = IBV_QPT_RC;
  attr.cap = {static_cast<std::uint32_t>(a_->device.max_qp_wr) + 1, 1, 1, 1, 0};
  EXPECT_EQ(a_->api.create_qp(a_->pd, &attr), nullptr);
  attr.cap = {1, 1, static_cast<std::uint32_t>(a_->device.max_sge) + 1, 1, 0};
  EXPECT_EQ(a_->api.create_qp(a_->pd, &attr), nullptr);
}

TEST_P(QueueLimits, CreateCq_BeyondTheDevice_Refused) {
  make();
  EXPECT_EQ(a_->api.create_cq(a_->side.context, a_->device.max_cqe + 1, nullptr, nullptr, 0),
            nullptr);
  EXPECT_EQ(a_->api.create_cq(a_->side.context, 0, nullptr, nullptr, 0), nullptr);
}

// Requirement: 23
// Fault: A8
TEST_P(QueueLimits, SendQueueFull_NamesTheFirstThatDidNotFit) {
  EndpointOptions options;
  options.send_wr = 8;
  connect(options);
  const std::uint32_t depth = a_->cap.max_send_wr;
  // Completions are not polled: the slots stay taken, whatever the wire does.
  std::vector<SendWr> wrs(depth + 3, SendWr(IBV_WR_RDMA_WRITE));
  ibv_send_wr* chain = nullptr;
  ibv_send_wr* last_that_fits = nullptr;
  for (std::size_t i = wrs.size(); i-- > 0;) {
    chain = wrs[i].link(chain);
    if (i == depth - 1) last_that_fits = chain;
  }
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(a_->qp, chain, &bad);
  if (error == 0) {
    // A device may free slots by itself as WRs finish, if it knows without the poll.
    GTEST_SKIP() << "the device took more than its depth while completions were not polled";
  }
  EXPECT_EQ(error, ENOMEM);
  EXPECT_EQ(bad, last_that_fits->next);
  ASSERT_TRUE(wait_sends(*a_, depth));
  SendWr again(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(again), IBV_WC_SUCCESS);
  settle();
  EXPECT_EQ(a_->sends.size(), depth + 1);
}

TEST_P(QueueLimits, ReceiveQueueFull_NamesTheFirstThatDidNotFit) {
  EndpointOptions options;
  options.recv_wr = 8;
  connect(options);
  const std::uint32_t depth = b_->cap.max_recv_wr;
  std::vector<ibv_recv_wr> wrs(depth + 2);
  for (std::size_t i = 0; i < wrs.size(); ++i) {
    wrs[i] = {};
    wrs[i].wr_id = i;
    wrs[i].next = i + 1 < wrs.size() ? &wrs[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_recv(b_->qp, wrs.data(), &bad), ENOMEM);
  EXPECT_EQ(bad, &wrs[depth]);
  SendWr send(IBV_WR_SEND);
  ASSERT_EQ(run(send), IBV_WC_SUCCESS);
  ASSERT_TRUE(wait_receives(*b_, 1));
  EXPECT_EQ(post_receive(*b_, 99), 0);  // one slot is free again
}

TEST_P(QueueLimits, CqOverflow_RaisesCqErr) {
  EndpointOptions options;
  options.cq_entries = 4;
  options.send_wr = 512;
  connect(options);
  const auto capacity = static_cast<std::uint32_t>(a_->send_cq->cqe);
  ASSERT_LT(capacity + 8, a_->cap.max_send_wr);
  for (std::uint32_t i = 0; i < capacity + 8; ++i) {
    SendWr wr(IBV_WR_RDMA_WRITE, i);
    ASSERT_EQ(wr.post(a_->qp), 0);
  }
  ibv_async_event event{};
  ASSERT_TRUE(wait_async_event(*a_, IBV_EVENT_CQ_ERR, event));
  EXPECT_EQ(event.element.cq, a_->send_cq);
}

TEST_P(QueueLimits, ResizeCq_KeepsWhatIsQueued) {
  connect();
  for (std::uint64_t i = 0; i < 20; ++i) {
    SendWr wr(IBV_WR_RDMA_WRITE, i);
    ASSERT_EQ(wr.post(a_->qp), 0);
  }
  ASSERT_TRUE(wait_sends(*a_, 20));
  const std::size_t before = a_->sends.size();
  // These lie in the queue, or are on their way to it, when it is replaced.
  for (std::uint64_t i = 0; i < 10; ++i) {
    SendWr wr(IBV_WR_RDMA_WRITE, 100 + i);
    ASSERT_EQ(wr.post(a_->qp), 0);
  }
  const int error = a_->api.resize_cq(a_->send_cq, 1024);
  if (error == ENOSYS || error == EOPNOTSUPP) GTEST_SKIP() << "resize_cq is not supported";
  ASSERT_EQ(error, 0);
  EXPECT_GE(a_->send_cq->cqe, 1024);
  ASSERT_TRUE(wait_sends(*a_, before + 10));
  for (std::uint64_t i = 0; i < 10; ++i) EXPECT_EQ(a_->sends[before + i].wr_id, 100 + i);
}

TEST_P(QueueLimits, DestroyQp_ItsCompletionsLeaveTheCq) {
  connect();
  for (int i = 0; i < 5; ++i) ASSERT_EQ(post_receive(*b_, 1), 0);
  ASSERT_TRUE(to_error(b_->api, b_->qp).ok());
  b_->destroy_qp();
  settle();
  EXPECT_TRUE(b_->receives.empty());
}

TEST_P(QueueLimits, DestroyInUse_IsRefused) {
  EndpointOptions options;
  options.use_srq = true;
  connect(options);
  const auto memory = a_->memory(64);
  EXPECT_EQ(a_->api.destroy_cq(a_->send_cq), EBUSY);
  EXPECT_EQ(a_->api.destroy_srq(a_->srq), EBUSY);
  EXPECT_EQ(a_->api.dealloc_pd(a_->pd), EBUSY);
  SendWr wr(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(wr), IBV_WC_SUCCESS);  // and all of it still works
}

TEST_P(QueueLimits, ManyQps_DistinctNumbersOutsideTheReservedOnes) {
  make();
  std::set<std::uint32_t> numbers;
  std::vector<ibv_qp*> qps;
  for (int i = 0; i < 200; ++i) {
    qps.push_back(a_->make_qp());
    ASSERT_NE(qps.back(), nullptr);
    numbers.insert(qps.back()->qp_num);
  }
  EXPECT_EQ(numbers.size(), 200U);
  EXPECT_GE(*numbers.begin(), 2U);  // 0 and 1 belong to the subnet
  EXPECT_LE(*numbers.rbegin(), 0xFFFFFEU);
  for (ibv_qp* qp : qps) EXPECT_EQ(a_->api.destroy_qp(qp), 0);
}

TEST_P(QueueLimits, QpNumber_NotReusedAtOnce) {
  // A packet still under way to the old QP must not meet a new one of the same number.
  make();
  const std::uint32_t old_number = a_->qp->qp_num;
  a_->destroy_qp();
  a_->qp = a_->make_qp();
  EXPECT_NE(a_->qp->qp_num, old_number);
}

TEST_P(QueueLimits, CqOverflow_TakesTheQpDown) {
  EndpointOptions options;
  options.cq_entries = 4;
  options.send_wr = 512;
  connect(options);
  const auto capacity = static_cast<std::uint32_t>(a_->send_cq->cqe);
  for (std::uint32_t i = 0; i < capacity + 8; ++i) {
    SendWr wr(IBV_WR_RDMA_WRITE, i);
    ASSERT_EQ(wr.post(a_->qp), 0);
  }
  ibv_async_event event{};
  ASSERT_TRUE(wait_async_event(*a_, IBV_EVENT_QP_FATAL, event));
  EXPECT_EQ(event.element.qp, a_->qp);
  EXPECT_EQ(a_->state(), IBV_QPS_ERR);
}

TEST_P(QueueLimits, DestroyQpWithWorkInFlight_DeviceGoesOn) {
  connect();
  {
    const auto source = a_->memory(4U << 20U);
    const auto target = b_->memory(4U << 20U);
    SendWr write(IBV_WR_RDMA_WRITE);
    SendWr read(IBV_WR_RDMA_READ);
    ASSERT_EQ(write.from(*source, 0, 4U << 20U).to(*target).post(a_->qp), 0);
    ASSERT_EQ(read.from(*source, 0, 4U << 20U).to(*target).post(a_->qp), 0);
    SendWr back(IBV_WR_RDMA_READ);
    ASSERT_EQ(back.from(*target, 0, 4U << 20U).to(*source).post(b_->qp), 0);
    a_->destroy_qp();
    b_->destroy_qp();
  }  // the memory goes as well; late packets must find neither
  settle();
  a_->sends.clear();
  b_->sends.clear();
  a_->qp = a_->make_qp();
  b_->qp = b_->make_qp();
  bring_up();
  SendWr wr(IBV_WR_RDMA_WRITE);
  EXPECT_EQ(run(wr), IBV_WC_SUCCESS);
}

}  // namespace
}  // namespace braid::verbs::conformance
