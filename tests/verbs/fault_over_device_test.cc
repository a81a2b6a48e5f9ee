#include <gtest/gtest.h>

#include <cerrno>
#include <vector>

#include "softverbs/memory_fabric.h"
#include "verbs/fault_verbs.h"
#include "verbs/rc_setup.h"

// The fault decorator over a device with a peer, in virtual time: what a fault does to the other
// side is what a real failure would do.
namespace braid::verbs {
namespace {

using softverbs::testing::MemoryFabric;

/// One side of a connection.
struct Party {
  VerbsApi* api = nullptr;
  ibv_context* context = nullptr;
  ibv_pd* pd = nullptr;
  ibv_cq* cq = nullptr;
  ibv_qp* qp = nullptr;

  void open(VerbsApi& with) {
    api = &with;
    ibv_device** list = api->get_device_list(nullptr);
    context = api->open_device(list[0]);
    api->free_device_list(list);
    ASSERT_NE(context, nullptr);
    pd = api->alloc_pd(context);
    cq = api->create_cq(context, 256, nullptr, nullptr, 0);
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {64, 64, 1, 1, 0};
    qp = api->create_qp(pd, &attr);
    ASSERT_NE(qp, nullptr);
  }
  void close() const {
    EXPECT_EQ(api->destroy_qp(qp), 0);
    EXPECT_EQ(api->destroy_cq(cq), 0);
    EXPECT_EQ(api->dealloc_pd(pd), 0);
    EXPECT_EQ(api->close_device(context), 0);
  }
  [[nodiscard]] QpEndpoint describe() const {
    QpEndpoint endpoint;
    endpoint.qpn = qp->qp_num;
    EXPECT_EQ(api->query_gid(context, 1, 0, &endpoint.gid), 0);
    return endpoint;
  }
  /// Zero-length writes with immediate: one completion on each side.
  void notify(std::uint64_t first, std::uint64_t count) const {
    for (std::uint64_t id = first; id < first + count; ++id) {
      ibv_send_wr wr{};
      wr.wr_id = id;
      wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
      wr.send_flags = IBV_SEND_SIGNALED;
      ibv_send_wr* bad = nullptr;
      EXPECT_EQ(ibv_post_send(qp, &wr, &bad), 0);
    }
  }
  void post_receives(std::uint64_t count) const {
    for (std::uint64_t id = 0; id < count; ++id) {
      ibv_recv_wr wr{};
      wr.wr_id = 1000 + id;
      ibv_recv_wr* bad = nullptr;
      EXPECT_EQ(ibv_post_recv(qp, &wr, &bad), 0);
    }
  }
};

class FaultOverDevice : public testing::Test {
 protected:
  void SetUp() override {
    faulty_.open(decorator_);
    sound_.open(fabric_.api(1));
    RcOptions options;
    options.timeout = 8;
    ASSERT_TRUE(
        connect_rc(*faulty_.api, faulty_.qp, options, faulty_.describe(), sound_.describe()).ok());
    ASSERT_TRUE(
        connect_rc(*sound_.api, sound_.qp, options, sound_.describe(), faulty_.describe()).ok());
  }
  void TearDown() override {
    faulty_.close();
    sound_.close();
  }
  /// Everything that comes until nothing more happens.
  std::vector<ibv_wc> collect(const Party& party) {
    std::vector<ibv_wc> all;
    ibv_wc wc{};
    do {
      while (ibv_poll_cq(party.cq, 1, &wc) == 1) all.push_back(wc);
    } while (fabric_.step());
    while (ibv_poll_cq(party.cq, 1, &wc) == 1) all.push_back(wc);
    return all;
  }

  MemoryFabric fabric_{2};
  FaultVerbs decorator_{fabric_.api(0), FaultPlan{}};
  Party faulty_;
  Party sound_;
};

TEST_F(FaultOverDevice, QpKilledAtAPost_PeerRunsOutOfRetries) {
  faulty_.post_receives(8);
  sound_.post_receives(8);
  decorator_.script().add(
      {.point = FaultPoint::kPostSend, .action = FaultAction::kQpToError, .first = 2});
  faulty_.notify(1, 3);
  const std::vector<ibv_wc> at_faulty = collect(faulty_);
  ASSERT_EQ(at_faulty.size(), 3U + 8U);
  EXPECT_EQ(at_faulty.back().status, IBV_WC_WR_FLUSH_ERR);
  sound_.notify(11, 1);
  const std::vector<ibv_wc> at_sound = collect(sound_);
  ASSERT_FALSE(at_sound.empty());
  bool exhausted = false;
  for (const ibv_wc& wc : at_sound) exhausted = exhausted || wc.status == IBV_WC_RETRY_EXC_ERR;
  EXPECT_TRUE(exhausted);
}

TEST_F(FaultOverDevice, CompletionSwallowed_PeerHasItsOwn) {
  sound_.post_receives(3);
  decorator_.script().add(
      {.point = FaultPoint::kCompletion, .action = FaultAction::kSwallow, .first = 2});
  faulty_.notify(1, 3);
  const std::vector<ibv_wc> at_faulty = collect(faulty_);
  ASSERT_EQ(at_faulty.size(), 2U);
  EXPECT_EQ(at_faulty[0].wr_id, 1U);
  EXPECT_EQ(at_faulty[1].wr_id, 3U);
  EXPECT_EQ(collect(sound_).size(), 3U);
}

TEST_F(FaultOverDevice, PostRefused_PeerHearsOnlyOfTheOthers) {
  sound_.post_receives(3);
  decorator_.script().add({.point = FaultPoint::kPostSend, .first = 2, .error = ENOMEM});
  ibv_send_wr wrs[3] = {};
  for (std::size_t i = 0; i < 3; ++i) {
    wrs[i].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    wrs[i].next = i < 2 ? &wrs[i + 1] : nullptr;
  }
  ibv_send_wr* bad = nullptr;
  EXPECT_EQ(ibv_post_send(faulty_.qp, wrs, &bad), ENOMEM);
  EXPECT_EQ(bad, &wrs[1]);
  EXPECT_EQ(collect(sound_).size(), 1U);
}

TEST_F(FaultOverDevice, CompletionsDelayed_AllComeInOrder) {
  sound_.post_receives(20);
  decorator_.script().add({.point = FaultPoint::kCompletion,
                           .action = FaultAction::kDelay,
                           .count = Fault::kForEver,
                           .probability_ppm = 300'000,
                           .delay_polls = 5});
  faulty_.notify(1, 20);
  std::vector<ibv_wc> all = collect(faulty_);
  for (int polls = 0; polls < 200 && all.size() < 20; ++polls) {
    ibv_wc wc{};
    if (ibv_poll_cq(faulty_.cq, 1, &wc) == 1) all.push_back(wc);
  }
  ASSERT_EQ(all.size(), 20U);
  for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(all[i].wr_id, i + 1);
  EXPECT_GT(decorator_.script().struck_count(), 0U);
}

}  // namespace
}  // namespace braid::verbs
