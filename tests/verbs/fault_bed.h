#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "verbs/fake_verbs.h"
#include "verbs/fault_verbs.h"
#include "verbs/rc_setup.h"

namespace braid::verbs {

/// The decorator over the fake device, with one CQ and any number of QPs in RTS.
class FaultBed : public testing::Test {
 protected:
  void start(FaultPlan plan, int qp_count = 1) {
    api = std::make_unique<FaultVerbs>(fake, plan);
    ibv_device** list = api->get_device_list(nullptr);
    context = api->open_device(list[0]);
    api->free_device_list(list);
    ASSERT_NE(context, nullptr);
    pd = api->alloc_pd(context);
    channel = api->create_comp_channel(context);
    cq = api->create_cq(context, 64, &cookie, channel, 0);
    ASSERT_NE(cq, nullptr);
    for (int i = 0; i < qp_count; ++i) qps.push_back(make_qp());
  }

  ibv_qp* make_qp(ibv_srq* srq = nullptr) {
    ibv_qp_init_attr attr{};
    attr.qp_context = &cookie;
    attr.send_cq = attr.recv_cq = cq;
    attr.srq = srq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {16, 16, 1, 1, 0};
    ibv_qp* qp = api->create_qp(pd, &attr);
    EXPECT_NE(qp, nullptr);
    EXPECT_TRUE(connect_rc(*api, qp, {}, {.qpn = qp->qp_num}, {.qpn = 1}).ok());
    return qp;
  }

  void TearDown() override {
    for (ibv_qp* qp : qps) EXPECT_EQ(api->destroy_qp(qp), 0);
    if (cq != nullptr) {
      EXPECT_EQ(api->destroy_cq(cq), 0);
    }
    if (channel != nullptr) {
      EXPECT_EQ(api->destroy_comp_channel(channel), 0);
    }
    if (pd != nullptr) {
      EXPECT_EQ(api->dealloc_pd(pd), 0);
    }
    if (context != nullptr) {
      EXPECT_EQ(api->close_device(context), 0);
    }
    EXPECT_EQ(fake.live_objects(), 0U);
  }

  /// Posts a chain of signaled writes with these ids. Returns the id of the bad WR, or 0.
  std::uint64_t send(ibv_qp* qp, std::vector<std::uint64_t> ids, int expected_error = 0) {
    std::vector<ibv_send_wr> chain(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      chain[i] = {};
      chain[i].wr_id = ids[i];
      chain[i].opcode = IBV_WR_RDMA_WRITE;
      chain[i].send_flags = IBV_SEND_SIGNALED;
      chain[i].next = i + 1 < ids.size() ? &chain[i + 1] : nullptr;
    }
    ibv_send_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_send(qp, chain.data(), &bad), expected_error);
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      EXPECT_EQ(chain[i].next, &chain[i + 1]) << "the caller's chain was left cut";
    }
    return bad != nullptr ? bad->wr_id : 0;
  }

  std::uint64_t receive(ibv_qp* qp, std::vector<std::uint64_t> ids, int expected_error = 0) {
    std::vector<ibv_recv_wr> chain(ids.size());
    for (std::size_t i = 0; i < ids.size(); ++i) {
      chain[i] = {};
      chain[i].wr_id = ids[i];
      chain[i].next = i + 1 < ids.size() ? &chain[i + 1] : nullptr;
    }
    ibv_recv_wr* bad = nullptr;
    EXPECT_EQ(ibv_post_recv(qp, chain.data(), &bad), expected_error);
    return bad != nullptr ? bad->wr_id : 0;
  }

  /// One poll of up to `count`. Returns the completions.
  std::vector<ibv_wc> poll(int count = 32) {
    std::vector<ibv_wc> completions(static_cast<std::size_t>(count));
    const int got = ibv_poll_cq(cq, count, completions.data());
    EXPECT_GE(got, 0);
    completions.resize(static_cast<std::size_t>(got));
    return completions;
  }

  static std::vector<std::uint64_t> ids(const std::vector<ibv_wc>& completions) {
    std::vector<std::uint64_t> result;
    for (const ibv_wc& wc : completions) result.push_back(wc.wr_id);
    return result;
  }

  using Ids = std::vector<std::uint64_t>;

  FakeVerbs fake;
  std::unique_ptr<FaultVerbs> api;
  int cookie = 0;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_comp_channel* channel = nullptr;
  ibv_cq* cq = nullptr;
  std::vector<ibv_qp*> qps;
};

}  // namespace braid::verbs
