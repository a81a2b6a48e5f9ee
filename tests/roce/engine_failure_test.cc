// What still has to happen when something has failed or is about to stop.

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "roce/engine_bed.h"

namespace braid::roce::testing {
namespace {

/// Carries what A has to send to B in one go, so that B answers nothing before it has seen all.
/// Returns it.
std::vector<EngineBed::Datagram> carry_requests(EngineBed& bed) {
  bed.recording = bed.cut = true;
  bed.sent.clear();
  bed.transmit();
  auto requests = std::move(bed.sent);
  for (const auto& request : requests) bed.inject(true, request.bytes);
  bed.sent.clear();
  return requests;
}

TEST(EngineFailure, RequestsBeforeARefusedOne_AreAnsweredAheadOfItsNak) {
  EngineBed bed;
  bed.connect();
  constexpr std::uint32_t kBytes = 40 * 1024;
  std::fill_n(bed.b.buffer.begin(), kBytes, std::uint8_t{0x5A});
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_READ, 1, {bed.a.sge(0, kBytes)}, bed.b.address(0), bed.b.key),
            0);
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_READ, 2, {bed.a.sge(kBytes, 8)}, bed.b.address(0), bed.b.key),
            0);
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 3, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key ^ 0xFF),
            0);
  ASSERT_EQ(carry_requests(bed).size(), 3U);
  EXPECT_EQ(state_of(*bed.b.qp), IBV_QPS_ERR);
  bed.transmit();
  const auto answers = std::move(bed.sent);
  ASSERT_EQ(answers.size(), 42U);  // forty responses, one, and the NAK
  EXPECT_EQ(parse(answers.back()).headers.syndrome, 0x62);
  for (const auto& answer : answers) bed.inject(false, answer.bytes);
  const auto done = bed.a.poll(bed.a.send_cq);
  ASSERT_EQ(done.size(), 3U);
  EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(done[1].status, IBV_WC_SUCCESS);
  EXPECT_EQ(done[2].status, IBV_WC_REM_ACCESS_ERR);
  EXPECT_EQ(bed.a.buffer[kBytes - 1], 0x5A);
}

TEST(EngineFailure, ReadOfARegionThatGoesAfterALaterRefusal_EndsInOneNak) {
  EngineBed bed;
  bed.connect();
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_READ, 1, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key), 0);
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 2, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key ^ 0xFF),
            0);
  const auto requests = carry_requests(bed);
  ASSERT_EQ(requests.size(), 2U);
  ASSERT_TRUE(bed.b.engine->memory().erase(bed.b.key));
  bed.transmit();
  bed.transmit();
  ASSERT_EQ(bed.sent.size(), 1U);
  EXPECT_EQ(parse(bed.sent[0]).headers.syndrome, 0x62);
  EXPECT_EQ(parse(bed.sent[0]).headers.psn, parse(requests[0]).headers.psn);
  EXPECT_FALSE(bed.b.engine->wants_transmit());
  EXPECT_EQ(bed.b.events.types.size(), 1U);
}

TEST(EngineFailure, LateCopyOfAReadWhoseRegionIsGone_IsDropped) {
  EngineBed bed;
  bed.connect();
  bed.recording = true;
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_READ, 1, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key), 0);
  bed.run();
  ASSERT_FALSE(bed.sent.empty());
  const auto request = bed.sent.front();
  ASSERT_TRUE(bed.b.engine->memory().erase(bed.b.key));
  bed.inject(true, request.bytes);
  bed.run();
  EXPECT_EQ(state_of(*bed.b.qp), IBV_QPS_RTS);
  const auto& dropped = bed.b.engine->counters().dropped;
  EXPECT_EQ(dropped[static_cast<std::size_t>(DropReason::kDuplicateDropped)], 1U);
}

TEST(EngineFailure, Drain_WaitsForTheEndOfAMessageThatHasBegun) {
  EngineOptions options;
  options.window_packets = 8;
  EngineBed bed(options);
  bed.connect();
  ASSERT_EQ(
      bed.a.post(IBV_WR_RDMA_WRITE, 1, {bed.a.sge(0, 20 * 1024)}, bed.b.address(0), bed.b.key), 0);
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 2, {}, bed.b.address(0), bed.b.key), 0);
  bed.transmit();  // a window full, of twenty packets
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_SQD;
  attr.en_sqd_async_notify = 1;
  ASSERT_EQ(bed.a.engine->modify_qp(*bed.a.qp, attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY, {}),
            0);
  std::size_t completed = 0;
  while (!bed.a.events.saw(IBV_EVENT_SQ_DRAINED) && bed.step()) {
  }
  for (const ibv_wc& completion : bed.a.poll(bed.a.send_cq)) {
    EXPECT_EQ(completion.wr_id, 1U);
    EXPECT_EQ(completion.status, IBV_WC_SUCCESS);
    ++completed;
  }
  EXPECT_TRUE(bed.a.events.saw(IBV_EVENT_SQ_DRAINED));
  EXPECT_EQ(completed, 1U);
}

}  // namespace
}  // namespace braid::roce::testing
