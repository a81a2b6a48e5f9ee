#include <fcntl.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "softverbs/soft_bed.h"

// Completion channels: arming, what is queued, and who waits for whom at destruction.
namespace braid::softverbs::testing {
namespace {

class SoftChannelTest : public SoftBed {
 protected:
  void SetUp() override {
    SoftBed::SetUp();
    channel_ = make_channel(0);
    ASSERT_EQ(::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK), 0);
    cq_ = make_cq(0, 64, channel_);
    near_ = make_qp(0, cq_);
    far_ = make_qp(1, make_cq(1));
    connect(near_, far_);
  }

  /// Completes `count` empty WRITEs into the near CQ.
  void complete(int count) {
    ibv_send_wr wr{};
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    ibv_send_wr* bad = nullptr;
    for (int i = 0; i < count; ++i) ASSERT_EQ(ibv_post_send(near_, &wr, &bad), 0);
    settle();
  }
  /// Takes and acknowledges an event; null when there is none.
  ibv_cq* take() {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (api(0).get_cq_event(channel_, &cq, &context) != 0) {
      EXPECT_EQ(errno, EAGAIN);
      EXPECT_FALSE(readable(channel_->fd));
      return nullptr;
    }
    EXPECT_EQ(context, this);
    api(0).ack_cq_events(cq, 1);
    return cq;
  }
  int poll(int count) {
    ibv_wc wcs[64];
    return ibv_poll_cq(cq_, count, wcs);
  }

  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* near_ = nullptr;
  ibv_qp* far_ = nullptr;
};

TEST_F(SoftChannelTest, Armed_ReadableWithTheCompletionAndNotBefore) {
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  EXPECT_FALSE(readable(channel_->fd));
  EXPECT_EQ(take(), nullptr);
  complete(1);
  EXPECT_TRUE(readable(channel_->fd));
  EXPECT_EQ(take(), cq_);
  EXPECT_EQ(take(), nullptr);
}

TEST_F(SoftChannelTest, ManyCompletions_OneEventPerArming) {
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  complete(5);
  EXPECT_EQ(take(), cq_);
  EXPECT_EQ(take(), nullptr);
}

TEST_F(SoftChannelTest, ArmedAgainBeforeTheEventIsTaken_StillOneEvent) {
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  complete(1);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  complete(1);
  EXPECT_EQ(take(), cq_);
  EXPECT_EQ(take(), nullptr);
  EXPECT_EQ(poll(64), 2);
}

TEST_F(SoftChannelTest, ArmedPollLeavesCompletions_EventForThem) {
  complete(5);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  EXPECT_EQ(take(), nullptr) << "what is there already raises nothing by itself";
  EXPECT_EQ(poll(2), 2);
  EXPECT_EQ(take(), cq_);
  EXPECT_EQ(poll(3), 3);
  EXPECT_EQ(take(), nullptr) << "the event used the arming up";
}

TEST_F(SoftChannelTest, ArmedPollTakesEverything_NoEvent) {
  complete(5);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  EXPECT_EQ(poll(5), 5);
  EXPECT_EQ(take(), nullptr);
  complete(1);
  EXPECT_EQ(take(), cq_) << "the arming still stands";
}

TEST_F(SoftChannelTest, ArmedForSolicitedOnly_LeftoversRaiseNothing) {
  complete(5);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 1), 0);
  EXPECT_EQ(poll(2), 2);
  EXPECT_EQ(take(), nullptr);
}

TEST_F(SoftChannelTest, SeveralQueues_EventsInOrderAndDestructionTakesItsOwnAway) {
  std::array<ibv_cq*, 3> cqs{};
  std::array<ibv_qp*, 3> qps{};
  for (std::size_t i = 0; i < cqs.size(); ++i) {
    cqs[i] = api(0).create_cq(contexts[0], 16, this, channel_, 0);
    ASSERT_NE(cqs[i], nullptr);
    qps[i] = make_bare_qp(0, cqs[i]);
    ASSERT_EQ(modify(0, qps[i], {}, IBV_QPS_ERR, IBV_QP_STATE), 0);
  }
  for (const std::size_t i : {2U, 0U, 1U}) {
    ASSERT_EQ(ibv_req_notify_cq(cqs[i], 0), 0);
    ibv_recv_wr wr{};
    ibv_recv_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_recv(qps[i], &wr, &bad), 0);  // flushed at once
  }
  EXPECT_EQ(api(0).destroy_comp_channel(channel_), EBUSY);
  ASSERT_EQ(api(0).destroy_qp(qps[0]), 0);
  ASSERT_EQ(api(0).destroy_cq(cqs[0]), 0);
  EXPECT_EQ(take(), cqs[2]);
  EXPECT_EQ(take(), cqs[1]);
  EXPECT_EQ(take(), nullptr);
  for (const std::size_t i : {1U, 2U}) {
    ASSERT_EQ(api(0).destroy_qp(qps[i]), 0);
    ASSERT_EQ(api(0).destroy_cq(cqs[i]), 0);
  }
}

TEST_F(SoftChannelTest, DestroyCq_WaitsForTheAcknowledgement) {
  ibv_cq* cq = api(0).create_cq(contexts[0], 16, this, channel_, 0);
  ASSERT_NE(cq, nullptr);
  ibv_qp* qp = make_bare_qp(0, cq);
  ASSERT_EQ(ibv_req_notify_cq(cq, 0), 0);
  ASSERT_EQ(modify(0, qp, {}, IBV_QPS_ERR, IBV_QP_STATE), 0);
  ibv_recv_wr wr{};
  ibv_recv_wr* bad = nullptr;
  ASSERT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
  ibv_cq* named = nullptr;
  void* context = nullptr;
  ASSERT_EQ(api(0).get_cq_event(channel_, &named, &context), 0);
  ASSERT_EQ(named, cq);
  ASSERT_EQ(api(0).destroy_qp(qp), 0);

  std::atomic<bool> destroyed = false;
  std::thread destroyer([&] {
    EXPECT_EQ(api(0).destroy_cq(cq), 0);
    destroyed = true;
  });
  for (int i = 0; i < 1000; ++i) std::this_thread::yield();
  EXPECT_FALSE(destroyed) << "the application still holds the event";
  api(0).ack_cq_events(cq, 1);
  destroyer.join();
  EXPECT_TRUE(destroyed);
}

TEST_F(SoftChannelTest, BlockingDescriptor_WaitsForTheEvent) {
  ASSERT_EQ(::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) & ~O_NONBLOCK), 0);
  ASSERT_EQ(ibv_req_notify_cq(cq_, 0), 0);
  ibv_cq* named = nullptr;
  std::thread sleeper([&] {
    void* context = nullptr;
    EXPECT_EQ(api(0).get_cq_event(channel_, &named, &context), 0);
  });
  complete(1);
  sleeper.join();
  EXPECT_EQ(named, cq_);
  api(0).ack_cq_events(cq_, 1);
}

}  // namespace
}  // namespace braid::softverbs::testing
