#pragma once

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "softverbs/memory_fabric.h"
#include "softverbs/soft_context.h"

namespace braid::softverbs::testing {

inline constexpr int kInitMask =
    IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
inline constexpr int kRtrMask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                                IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
inline constexpr int kRtsMask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
inline constexpr int kEverything = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// True when `fd` can be read without blocking.
inline bool readable(int fd) {
  pollfd watched{fd, POLLIN, 0};
  return ::poll(&watched, 1, 0) == 1;
}

/// Attributes that suit every transition of a QP whose peer is `remote_qpn` at `remote_gid`.
inline ibv_qp_attr attributes(std::uint32_t remote_qpn, const ibv_gid& remote_gid) {
  ibv_qp_attr attr{};
  attr.port_num = 1;
  attr.qp_access_flags = kEverything;
  attr.path_mtu = IBV_MTU_1024;
  attr.dest_qp_num = remote_qpn;
  attr.max_dest_rd_atomic = 4;
  attr.max_rd_atomic = 4;
  attr.min_rnr_timer = 12;
  attr.timeout = 14;
  attr.retry_cnt = 6;
  attr.rnr_retry = 6;
  attr.ah_attr.is_global = 1;
  attr.ah_attr.port_num = 1;
  attr.ah_attr.grh.dgid = remote_gid;
  attr.ah_attr.grh.hop_limit = 64;
  return attr;
}

/// Two soft devices over memory. Everything made through it goes in TearDown(), newest first.
class SoftBed : public ::testing::Test {
 protected:
  void SetUp() override {
    for (std::size_t i = 0; i < 2; ++i) {
      contexts[i] = fabric.open(i);
      ASSERT_NE(contexts[i], nullptr);
      pds[i] = api(i).alloc_pd(contexts[i]);
      ASSERT_NE(pds[i], nullptr);
    }
  }
  void TearDown() override {
    while (!undo_.empty()) {
      undo_.back()();
      undo_.pop_back();
    }
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(api(i).dealloc_pd(pds[i]), 0);
      EXPECT_EQ(api(i).close_device(contexts[i]), 0);
    }
  }

  SoftVerbs& api(std::size_t side) { return fabric.api(side); }
  SoftContext& soft_context(std::size_t side) { return SoftContext::of(contexts[side]); }

  /// Runs at TearDown(), before what was made earlier goes.
  void at_end(std::function<void()> undo) { undo_.push_back(std::move(undo)); }

  ibv_cq* make_cq(std::size_t side, int cqe = 64, ibv_comp_channel* channel = nullptr) {
    ibv_cq* cq = api(side).create_cq(contexts[side], cqe, this, channel, 0);
    EXPECT_NE(cq, nullptr);
    at_end([this, side, cq] { EXPECT_EQ(api(side).destroy_cq(cq), 0); });
    return cq;
  }
  ibv_comp_channel* make_channel(std::size_t side) {
    ibv_comp_channel* channel = api(side).create_comp_channel(contexts[side]);
    EXPECT_NE(channel, nullptr);
    at_end([this, side, channel] { EXPECT_EQ(api(side).destroy_comp_channel(channel), 0); });
    return channel;
  }
  ibv_mr* make_mr(std::size_t side, std::vector<std::uint8_t>& bytes) {
    ibv_mr* mr = api(side).reg_mr_iova(pds[side], bytes.data(), bytes.size(),
                                       reinterpret_cast<std::uint64_t>(bytes.data()), kEverything);
    EXPECT_NE(mr, nullptr);
    at_end([this, side, mr] { EXPECT_EQ(api(side).dereg_mr(mr), 0); });
    return mr;
  }
  static ibv_qp_init_attr rc_attr(ibv_cq* cq) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = ibv_qp_cap{16, 16, 4, 4, 64};
    return attr;
  }
  /// The caller destroys it.
  ibv_qp* make_bare_qp(std::size_t side, ibv_cq* cq) {
    ibv_qp_init_attr attr = rc_attr(cq);
    ibv_qp* qp = api(side).create_qp(pds[side], &attr);
    EXPECT_NE(qp, nullptr);
    return qp;
  }
  ibv_qp* make_qp(std::size_t side, ibv_cq* cq) {
    ibv_qp* qp = make_bare_qp(side, cq);
    at_end([this, side, qp] { EXPECT_EQ(api(side).destroy_qp(qp), 0); });
    return qp;
  }

  ibv_gid gid(std::size_t side) {
    ibv_gid gid{};
    EXPECT_EQ(api(side).query_gid(contexts[side], 1, 0, &gid), 0);
    return gid;
  }
  ibv_qp_attr attributes_towards(std::size_t remote, std::uint32_t remote_qpn) {
    return attributes(remote_qpn, gid(remote));
  }
  int modify(std::size_t side, ibv_qp* qp, ibv_qp_attr attr, ibv_qp_state to, int mask) {
    attr.qp_state = to;
    return api(side).modify_qp(qp, &attr, mask);
  }
  ibv_qp_state state_of(std::size_t side, ibv_qp* qp) {
    ibv_qp_attr attr{};
    ibv_qp_init_attr init{};
    EXPECT_EQ(api(side).query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
    return attr.qp_state;
  }
  /// From RESET to RTS.
  void raise(std::size_t side, ibv_qp* qp, const ibv_qp_attr& attr) {
    ASSERT_EQ(modify(side, qp, attr, IBV_QPS_INIT, kInitMask), 0);
    ASSERT_EQ(modify(side, qp, attr, IBV_QPS_RTR, kRtrMask), 0);
    ASSERT_EQ(modify(side, qp, attr, IBV_QPS_RTS, kRtsMask), 0);
  }
  void connect(ibv_qp* near, ibv_qp* far) {
    raise(0, near, attributes_towards(1, far->qp_num));
    raise(1, far, attributes_towards(0, near->qp_num));
  }

  /// Lets the devices work until nothing is left to happen.
  void settle() {
    while (fabric.step()) {
    }
  }
  std::vector<ibv_wc> drain(ibv_cq* cq) {
    settle();
    std::vector<ibv_wc> all;
    ibv_wc wc{};
    while (ibv_poll_cq(cq, 1, &wc) == 1) all.push_back(wc);
    return all;
  }

  MemoryFabric fabric{2};
  std::array<ibv_context*, 2> contexts{};
  std::array<ibv_pd*, 2> pds{};

 private:
  std::vector<std::function<void()>> undo_;
};

}  // namespace braid::softverbs::testing
