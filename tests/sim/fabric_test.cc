// The fabric with raw packets of its own: no channel above it.
#include <braid/sim.h>
#include <gtest/gtest.h>

#include "sim/fabric_core.h"
#include "verbs/rc_setup.h"

namespace braid::sim {
namespace {

constexpr std::uint64_t kGbit = 1'000'000'000;

Topology two_hosts(const LinkOptions& path = {}) { return make_direct({path}, {}); }

TEST(FabricCreate, PortWithoutCable_IsRefused) {
  Topology topology;
  topology.add_port(0);
  EXPECT_FALSE(Fabric::create(topology, {}));
}

TEST(FabricCreate, PortWithTwoCables_IsRefused) {
  Topology topology;
  const NodeId port = topology.add_port(0);
  const NodeId s = topology.add_switch();
  topology.connect(port, s);
  EXPECT_TRUE(Fabric::create(topology, {}));
  topology.connect(port, s);
  EXPECT_FALSE(Fabric::create(topology, {}));
}

TEST(FabricCreate, RateAtTheLimits_IsTakenAndOnePastRefused) {
  LinkOptions path;
  for (const std::uint64_t good : {std::uint64_t{1'000'000}, 1000 * kGbit}) {
    path.rate_bits_per_s = good;
    EXPECT_TRUE(Fabric::create(two_hosts(path), {})) << good;
  }
  for (const std::uint64_t bad : {std::uint64_t{999'999}, 1000 * kGbit + 1}) {
    path.rate_bits_per_s = bad;
    EXPECT_FALSE(Fabric::create(two_hosts(path), {})) << bad;
  }
}

TEST(FabricCreate, MtuThatNoPathHas_IsRefused) {
  FabricOptions options;
  options.mtu_bytes = 1000;
  EXPECT_FALSE(Fabric::create(two_hosts(), options));
}

TEST(FabricCreate, ContentsLeftOutWithIcrc_IsRefused) {
  FabricOptions options;
  options.carry_payload = false;
  EXPECT_FALSE(Fabric::create(two_hosts(), options));
  options.verify_icrc = false;
  EXPECT_TRUE(Fabric::create(two_hosts(), options));
}

/// Keeps the times at which it was woken.
struct Woken : Poller {
  void on_wake(TimePoint now) override { times.push_back(now.time_since_epoch().count()); }
  std::vector<std::int64_t> times;
};

TEST(FabricWake, SeveralRequests_TheEarliestHolds) {
  auto fabric = Fabric::create(two_hosts(), {});
  ASSERT_TRUE(fabric);
  Woken woken;
  fabric->set_poller(NodeId(0), &woken);
  fabric->wake_at(NodeId(0), TimePoint(Duration(500)));
  fabric->wake_at(NodeId(0), TimePoint(Duration(200)));
  fabric->wake_at(NodeId(0), TimePoint(Duration(300)));
  fabric->run_until(TimePoint(Duration(1000)));
  EXPECT_EQ(woken.times, std::vector<std::int64_t>{200});
  EXPECT_EQ(fabric->now(), TimePoint(Duration(1000)));
}

TEST(FabricWake, PausedHost_IsCalledWhenThePauseEnds) {
  auto fabric = Fabric::create(two_hosts(), {});
  ASSERT_TRUE(fabric);
  Woken woken;
  fabric->set_poller(NodeId(0), &woken);
  fabric->wake_at(NodeId(0), TimePoint(Duration(200)));
  ASSERT_TRUE(fabric
                  ->schedule({.at = TimePoint(Duration(100)),
                              .kind = FaultKind::kHostPause,
                              .port = NodeId(0),
                              .duration = Duration(5000)})
                  .ok());
  fabric->run_until(TimePoint(Duration(10'000)));
  EXPECT_EQ(woken.times, std::vector<std::int64_t>{5100});
}

TEST(FabricSchedule, UnknownLinkOrPortOrPast_IsRefused) {
  auto fabric = Fabric::create(two_hosts(), {});  // 3 links, 4 nodes of which 2 are ports
  ASSERT_TRUE(fabric);
  EXPECT_TRUE(fabric->schedule({.link = LinkId(2)}).ok());
  EXPECT_FALSE(fabric->schedule({.link = LinkId(3)}).ok());
  EXPECT_TRUE(fabric->schedule({.kind = FaultKind::kPortDown, .port = NodeId(1)}).ok());
  EXPECT_FALSE(fabric->schedule({.kind = FaultKind::kPortDown, .port = NodeId(2)}).ok());
  fabric->run_until(TimePoint(Duration(10)));
  EXPECT_FALSE(fabric->schedule({.at = TimePoint(Duration(9)), .link = LinkId(0)}).ok());
}

/// Connected queue pairs between ports, and RDMA WRITEs over them.
class FabricTraffic : public ::testing::Test {
 protected:
  struct End {
    std::unique_ptr<softverbs::SoftVerbs> api;
    ibv_context* context = nullptr;
    ibv_pd* pd = nullptr;
    ibv_cq* cq = nullptr;
    ibv_mr* mr = nullptr;
    std::vector<ibv_qp*> qps;
    std::vector<std::uint8_t> bytes = std::vector<std::uint8_t>(kBytes);
    std::uint32_t node = 0;
  };

  void build(const Topology& topology, const FabricOptions& options = {}) {
    auto made = FabricCore::create(topology, options);
    ASSERT_TRUE(made);
    core = *made;
    for (const NodeId port : topology.ports()) {
      End& end = *ends.emplace_back(std::make_unique<End>());
      end.node = static_cast<std::uint32_t>(port);
      end.api = core->make_verbs(end.node);
      ibv_device** list = end.api->get_device_list(nullptr);
      end.context = end.api->open_device(list[0]);
      end.api->free_device_list(list);
      ASSERT_NE(end.context, nullptr);
      end.pd = end.api->alloc_pd(end.context);
      end.cq = end.api->create_cq(end.context, 4096, nullptr, nullptr, 0);
      end.mr = end.api->reg_mr_iova(end.pd, end.bytes.data(), kBytes,
                                    reinterpret_cast<std::uintptr_t>(end.bytes.data()),
                                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
      ASSERT_NE(end.mr, nullptr);
    }
  }
  ibv_qp* make_qp(End& end) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = end.cq;
    attr.qp_type = IBV_QPT_RC;
    attr.cap = ibv_qp_cap{64, 1, 1, 1, 0};
    end.qps.push_back(end.api->create_qp(end.pd, &attr));
    EXPECT_NE(end.qps.back(), nullptr);
    return end.qps.back();
  }
  void raise(End& end, ibv_qp* qp, const End& peer, ibv_qp* peer_qp, std::uint16_t port) {
    ibv_qp_attr attr{};
    attr.port_num = 1;
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    attr.path_mtu = IBV_MTU_4096;
    attr.dest_qp_num = peer_qp->qp_num;
    attr.max_dest_rd_atomic = attr.max_rd_atomic = 1;
    attr.timeout = 8;
    attr.retry_cnt = 6;
    attr.ah_attr.is_global = 1;
    attr.ah_attr.port_num = 1;
    ASSERT_EQ(peer.api->query_gid(peer.context, 1, 0, &attr.ah_attr.grh.dgid), 0);
    attr.ah_attr.grh.hop_limit = 64;
    attr.qp_state = IBV_QPS_INIT;
    ASSERT_EQ(end.api->modify_qp(
                  qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
              0);
    attr.qp_state = IBV_QPS_RTR;
    ASSERT_EQ(
        end.api->modify_qp(qp, &attr,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
                               IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
        0);
    attr.qp_state = IBV_QPS_RTS;
    ASSERT_EQ(end.api->modify_qp(qp, &attr,
                                 IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                                     IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
              0);
    ASSERT_EQ(end.api->modify_qp_udp_sport(qp, port), 0);
  }
  ibv_qp* connect(std::size_t from, std::size_t to, std::uint16_t port) {
    ibv_qp* near = make_qp(*ends[from]);
    ibv_qp* far = make_qp(*ends[to]);
    raise(*ends[from], near, *ends[to], far, port);
    raise(*ends[to], far, *ends[from], near, port);
    return near;
  }
  void write(std::size_t from, ibv_qp* qp, std::size_t to, std::uint32_t bytes) {
    ibv_sge sge{reinterpret_cast<std::uintptr_t>(ends[from]->bytes.data()), bytes,
                ends[from]->mr->lkey};
    ibv_send_wr wr{};
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.rdma.remote_addr = reinterpret_cast<std::uintptr_t>(ends[to]->bytes.data());
    wr.wr.rdma.rkey = ends[to]->mr->rkey;
    ibv_send_wr* bad = nullptr;
    ASSERT_EQ(ibv_post_send(qp, &wr, &bad), 0);
  }
  /// Runs until a completion of `end` came; its time, or -1.
  std::int64_t completed_at(std::size_t end, ibv_wc_status status = IBV_WC_SUCCESS) {
    ibv_wc wc{};
    do {
      if (ibv_poll_cq(ends[end]->cq, 1, &wc) == 1) {
        EXPECT_EQ(wc.status, status);
        return core->now().time_since_epoch().count();
      }
    } while (core->step());
    return -1;
  }
  LinkCounters counters(std::uint32_t link, bool from_first = true) {
    return core->link_counters(direction(LinkId(link), from_first));
  }
  void TearDown() override {
    for (auto& end : ends) {
      for (ibv_qp* qp : end->qps) end->api->destroy_qp(qp);
      end->api->destroy_cq(end->cq);
      end->api->dereg_mr(end->mr);
      end->api->dealloc_pd(end->pd);
      end->api->close_device(end->context);
    }
  }

  static constexpr std::size_t kBytes = 4U << 20U;
  std::shared_ptr<FabricCore> core;
  std::vector<std::unique_ptr<End>> ends;
};

TEST_F(FabricTraffic, OnePacket_TakesSerialisationAndDelayOfEveryHop) {
  LinkOptions path;
  path.delay = std::chrono::microseconds(10);
  build(two_hosts(path));
  write(0, connect(0, 1, 50'000), 1, 4096);
  // Data: 4096 + 12 BTH + 16 RETH + 4 ICRC + 66 frame at 100 Gb/s, three hops: 335.52 ns each, the
  // fraction dropped because the senders were idle. Delays 1 + 10 + 1 us. The acknowledgement:
  // 12 + 4 + 4 + 66 = 86 bytes, 6.88 ns a hop. One event rounds down each time.
  EXPECT_EQ(completed_at(0), 3 * 335 + 12'000 + 3 * 6 + 12'000);
}

TEST_F(FabricTraffic, LongTransfer_RunsAtTheRateOfTheSlowestLink) {
  LinkOptions path;
  path.rate_bits_per_s = 10 * kGbit;
  build(two_hosts(path));
  write(0, connect(0, 1, 50'000), 1, kBytes);
  const std::int64_t took = completed_at(0);
  const std::int64_t wire_bytes = 1024 * (4096 + 16 + 66) + 16;
  EXPECT_GE(took, wire_bytes * 8 / 10);
  EXPECT_LE(took, wire_bytes * 8 / 10 * 102 / 100);
  EXPECT_EQ(counters(0).dropped_full, 0U);
}

TEST_F(FabricTraffic, QueueTooShort_DropsTheTailAndTheTransferRecovers) {
  LinkOptions path;
  path.rate_bits_per_s = 10 * kGbit;
  path.queue_bytes = 64U << 10U;
  path.mark_bytes = 32U << 10U;
  build(two_hosts(path));
  write(0, connect(0, 1, 50'000), 1, kBytes);
  EXPECT_GT(completed_at(0), 0);
  EXPECT_GT(counters(0).dropped_full, 0U);
  EXPECT_GT(counters(0).marked, 0U);
  EXPECT_LE(counters(0).queue_high_water_bytes, 64U << 10U);
}

TEST_F(FabricTraffic, PauseOnTheNicCable_LosesNothingWhereTheTailWouldDrop) {
  LinkOptions path;
  path.rate_bits_per_s = 10 * kGbit;
  path.queue_bytes = 128U << 10U;
  LinkOptions nic;
  nic.pause_bytes = 64U << 10U;
  build(make_direct({path}, nic));
  write(0, connect(0, 1, 50'000), 1, kBytes);
  EXPECT_GT(completed_at(0), 0);
  EXPECT_EQ(counters(0).dropped_full, 0U);
  EXPECT_GT(counters(1).paused_ns, 0U);  // the cable of the sending NIC
}

TEST_F(FabricTraffic, SourcePortsInOrder_TakeThePathsInTurn) {
  build(make_direct(std::vector<LinkOptions>(4), {}));
  for (std::uint16_t i = 0; i < 4; ++i) {
    write(0, connect(0, 1, static_cast<std::uint16_t>(50'000 + i)), 1, 4096);
    EXPECT_GT(completed_at(0), 0);
  }
  for (std::uint32_t path = 0; path < 4; ++path) EXPECT_EQ(counters(path).packets, 1U) << path;
}

TEST_F(FabricTraffic, LinkDown_TheOthersCarryAndBlackHole_NobodyNotices) {
  build(make_direct(std::vector<LinkOptions>(2), {}));
  ibv_qp* qp = connect(0, 1, 50'000);  // path 0
  ASSERT_TRUE(core->schedule({.kind = FaultKind::kLinkDown, .link = LinkId(0)}).ok());
  core->run_until(TimePoint(Duration(1)));
  write(0, qp, 1, 4096);
  EXPECT_GT(completed_at(0), 0);
  EXPECT_EQ(counters(0).packets, 0U);
  EXPECT_EQ(counters(1).packets, 1U);
  ASSERT_TRUE(
      core->schedule({.at = core->now(), .kind = FaultKind::kBlackHole, .link = LinkId(1)}).ok());
  core->run_until(core->now());
  write(0, qp, 1, 4096);
  EXPECT_GT(completed_at(0, IBV_WC_RETRY_EXC_ERR), 0);
  EXPECT_GE(counters(1).dropped_faults, 7U);  // once and six times more
}

TEST_F(FabricTraffic, RateChange_HoldsForLaterPackets) {
  build(two_hosts());
  ibv_qp* qp = connect(0, 1, 50'000);
  write(0, qp, 1, 1U << 20U);
  const std::int64_t fast = completed_at(0);
  ASSERT_TRUE(core->schedule({.at = core->now(),
                              .kind = FaultKind::kRate,
                              .link = LinkId(0),
                              .rate_bits_per_s = 10 * kGbit})
                  .ok());
  core->run_until(core->now());
  const std::int64_t before = core->now().time_since_epoch().count();
  write(0, qp, 1, 1U << 20U);
  EXPECT_GT(completed_at(0) - before, 5 * fast);
}

TEST_F(FabricTraffic, DeadNic_ReportsThePortAndSendsNothing) {
  build(two_hosts());
  ibv_qp* qp = connect(0, 1, 50'000);
  ASSERT_TRUE(core->schedule({.kind = FaultKind::kPortDown, .port = NodeId(0)}).ok());
  core->run_until(TimePoint(Duration(1)));
  ibv_async_event event{};
  ASSERT_EQ(ends[0]->api->get_async_event(ends[0]->context, &event), 0);
  EXPECT_EQ(event.event_type, IBV_EVENT_PORT_ERR);
  ends[0]->api->ack_async_event(&event);
  write(0, qp, 1, 64);
  EXPECT_GT(completed_at(0, IBV_WC_RETRY_EXC_ERR), 0);
  EXPECT_EQ(core->counters().delivered_packets, 0U);
}

TEST_F(FabricTraffic, QpnInTheHash_SpreadsEqualFiveTuples) {
  for (const PathHash hash : {PathHash::kFiveTuple, PathHash::kFiveTupleAndQpn}) {
    ends.clear();
    ClosOptions clos;
    clos.hosts = 2;
    clos.hosts_per_leaf = 1;
    clos.spines = 4;
    clos.switches.hash = hash;
    build(make_clos(clos));
    std::vector<std::uint64_t> packets;
    for (int i = 0; i < 16; ++i) {
      write(0, connect(0, 1, 50'000), 1, 64);
      EXPECT_GT(completed_at(0), 0);
    }
    std::size_t used = 0;
    for (std::uint32_t spine = 0; spine < 4; ++spine) used += counters(2 + spine).packets != 0;
    EXPECT_EQ(used > 1, hash == PathHash::kFiveTupleAndQpn) << used;
    TearDown();
    ends.clear();
  }
}

TEST_F(FabricTraffic, ContentsLeftOut_SameTimesAndMemoryUnchanged) {
  std::vector<std::int64_t> times;
  for (const bool carry : {true, false}) {
    FabricOptions options;
    options.verify_icrc = false;
    options.carry_payload = carry;
    build(two_hosts(), options);
    std::fill(ends[0]->bytes.begin(), ends[0]->bytes.end(), std::uint8_t{7});
    write(0, connect(0, 1, 50'000), 1, 100'000);
    times.push_back(completed_at(0));
    EXPECT_EQ(ends[1]->bytes[99'999], carry ? 7 : 0);
    TearDown();
    ends.clear();
  }
  EXPECT_EQ(times[0], times[1]);
}

TEST_F(FabricTraffic, RunUntilQuiet_LeavesNoPacketBehind) {
  build(two_hosts());
  core->set_faults(0, {.drop_ppm = 20'000,
                       .duplicate_ppm = 20'000,
                       .corrupt_ppm = 20'000,
                       .reorder_ppm = 20'000,
                       .spike_ppm = 20'000});
  write(0, connect(0, 1, 50'000), 1, kBytes);
  EXPECT_GT(completed_at(0), 0);
  while (core->step()) {
  }
  EXPECT_EQ(core->counters().packets_in_network, 0U);
}

}  // namespace
}  // namespace braid::sim
