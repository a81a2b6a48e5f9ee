// The requester and completer against packets chosen one by one.

#include <gtest/gtest.h>

#include <algorithm>

#include "roce/engine_bed.h"
#include "roce/rnr_timer.h"

namespace braid::roce::testing {
namespace {

Headers acknowledge(const EngineBed& bed, std::uint32_t psn, std::uint8_t syndrome = 0x1F) {
  Headers headers;
  headers.opcode = Opcode::kAcknowledge;
  headers.destination_qpn = qpn_of(*bed.a.qp);
  headers.psn = Psn(psn);
  headers.syndrome = syndrome;
  return headers;
}

std::vector<std::uint32_t> psns_of(const EngineBed& bed, bool from_a) {
  std::vector<std::uint32_t> out;
  for (const auto& datagram : bed.sent) {
    if (datagram.to_b == from_a) out.push_back(parse(datagram).headers.psn.value());
  }
  return out;
}

/// A bed whose far side never hears anything, so that the test speaks for it.
class DeafBed : public EngineBed {
 public:
  explicit DeafBed(const QpOptions& options = {}, const EngineOptions& engine = {})
      : EngineBed(engine) {
    cut = true;
    recording = true;
    connect(options);
  }
};

TEST(RequesterEngine, Write_TakesOnePsnPerMtu_AndOneWhenEmpty) {
  DeafBed bed;
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 1, {}, bed.b.address(0), bed.b.key), 0);
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 2, {bed.a.sge(0, 1024)}, bed.b.address(0), bed.b.key), 0);
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 3, {bed.a.sge(0, 1025)}, bed.b.address(0), bed.b.key), 0);
  bed.transmit();
  ASSERT_EQ(bed.sent.size(), 4U);
  EXPECT_EQ(parse(bed.sent[0]).headers.opcode, Opcode::kWriteOnly);
  EXPECT_EQ(parse(bed.sent[1]).headers.opcode, Opcode::kWriteOnly);
  EXPECT_EQ(parse(bed.sent[2]).headers.opcode, Opcode::kWriteFirst);
  EXPECT_EQ(parse(bed.sent[3]).headers.opcode, Opcode::kWriteLast);
  EXPECT_EQ(parse(bed.sent[2]).headers.dma_length, 1025U);
  EXPECT_EQ(parse(bed.sent[3]).payload.size(), 1U);
  EXPECT_FALSE(parse(bed.sent[2]).headers.ack_request);
  EXPECT_TRUE(parse(bed.sent[3]).headers.ack_request);
}

TEST(RequesterEngine, PsnsWrap_AtTwentyFourBits) {
  QpOptions options;
  options.start_psn = 0xFFFFFE;
  DeafBed bed(options);
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 1, {bed.a.sge(0, 4096)}, bed.b.address(0), bed.b.key), 0);
  bed.transmit();
  EXPECT_EQ(psns_of(bed, true), (std::vector<std::uint32_t>{0xFFFFFE, 0xFFFFFF, 0, 1}));
  bed.inject(false, acknowledge(bed, 1));
  EXPECT_EQ(bed.a.poll(bed.a.send_cq).size(), 1U);
}

TEST(RequesterEngine, Acknowledge_CompletesEverythingUpToItsPsn) {
  DeafBed bed;
  for (std::uint64_t id = 0; id < 4; ++id) {
    ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, id, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key), 0);
  }
  bed.transmit();
  bed.inject(false, acknowledge(bed, 2));
  const auto done = bed.a.poll(bed.a.send_cq);
  ASSERT_EQ(done.size(), 3U);
  EXPECT_EQ(done[2].wr_id, 2U);
}

TEST(RequesterEngine, AcknowledgeBeyondWhatWasSent_IsDropped) {
  DeafBed bed;
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 1, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key), 0);
  bed.transmit();
  bed.inject(false, acknowledge(bed, 1));
  EXPECT_TRUE(bed.a.poll(bed.a.send_cq).empty());
  const auto index = static_cast<std::size_t>(DropReason::kUnexpectedResponse);
  EXPECT_EQ(bed.a.engine->counters().dropped[index], 1U);
}

TEST(RequesterEngine, Window_StopsAtItsSize_AndTheLastPacketAsks) {
  EngineOptions engine;
  engine.window_packets = 16;
  DeafBed bed({}, engine);
  ASSERT_EQ(
      bed.a.post(IBV_WR_RDMA_WRITE, 1, {bed.a.sge(0, 1U << 20U)}, bed.b.address(0), bed.b.key), 0);
  bed.transmit();
  ASSERT_EQ(bed.sent.size(), 16U);
  EXPECT_TRUE(parse(bed.sent[15]).headers.ack_request);
  bed.inject(false, acknowledge(bed, 3));
  bed.transmit();
  EXPECT_EQ(bed.sent.size(), 20U);
}

TEST(RequesterEngine, SequenceNak_AcknowledgesEarlierAndGoesBack) {
  DeafBed bed;
  for (std::uint64_t id = 0; id < 4; ++id) {
    ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, id, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key), 0);
  }
  bed.transmit();
  bed.sent.clear();
  bed.inject(false, acknowledge(bed, 2, nak_syndrome(NakCode::kSequence)));
  EXPECT_EQ(bed.a.poll(bed.a.send_cq).size(), 2U);
  bed.transmit();
  EXPECT_EQ(psns_of(bed, true), (std::vector<std::uint32_t>{2, 3}));
  EXPECT_EQ(bed.a.engine->counters().retransmitted_packets, 2U);
}

TEST(RequesterEngine, NakErrors_GiveTheirStatusAndFlushTheRest) {
  const std::pair<NakCode, ibv_wc_status> cases[] = {
      {NakCode::kInvalidRequest, IBV_WC_REM_INV_REQ_ERR},
      {NakCode::kRemoteAccess, IBV_WC_REM_ACCESS_ERR},
      {NakCode::kRemoteOperation, IBV_WC_REM_OP_ERR},
      {NakCode::kInvalidRdRequest, IBV_WC_REM_INV_RD_REQ_ERR}};
  for (const auto& [code, status] : cases) {
    DeafBed bed;
    for (std::uint64_t id = 0; id < 3; ++id) {
      ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, id, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key),
                0);
    }
    bed.transmit();
    bed.inject(false, acknowledge(bed, 1, nak_syndrome(code)));
    const auto done = bed.a.poll(bed.a.send_cq);
    ASSERT_EQ(done.size(), 3U);
    EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
    EXPECT_EQ(done[1].status, status);
    EXPECT_EQ(done[2].status, IBV_WC_WR_FLUSH_ERR);
    EXPECT_EQ(state_of(*bed.a.qp), IBV_QPS_ERR);
  }
}

TEST(RequesterEngine, Timeout_RetriesExactlyRetryCountTimes) {
  for (const std::uint8_t retries : {std::uint8_t{0}, std::uint8_t{3}, std::uint8_t{7}}) {
    QpOptions options;
    options.retry_count = retries;
    DeafBed bed(options);
    ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 9, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key), 0);
    bed.run();
    EXPECT_EQ(bed.sent.size(), 1U + retries);
    const auto done = bed.a.poll(bed.a.send_cq);
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].status, IBV_WC_RETRY_EXC_ERR);
    // 4.096 us * 2^14 for the first transmission and for each retry.
    EXPECT_EQ(bed.now.time_since_epoch(), Duration((1 + retries) * (std::int64_t{4096} << 14)));
  }
}

TEST(RequesterEngine, TimeoutZero_NeverExpires) {
  QpOptions options;
  options.timeout_code = 0;
  DeafBed bed(options);
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 9, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key), 0);
  bed.run();
  EXPECT_EQ(bed.a.engine->next_deadline(), kNever);
  EXPECT_TRUE(bed.a.poll(bed.a.send_cq).empty());
}

TEST(RequesterEngine, RnrNak_WaitsItsTimerThenFailsAfterRnrRetry) {
  QpOptions options;
  options.rnr_retry = 2;
  DeafBed bed(options);
  ASSERT_EQ(bed.a.post(IBV_WR_SEND, 5, {bed.a.sge(0, 8)}, 0, 0), 0);
  bed.transmit();
  for (std::size_t i = 0; i < 2; ++i) {
    const TimePoint before = bed.now;
    const std::size_t sent = bed.sent.size();
    bed.inject(false, acknowledge(bed, 0, rnr_syndrome(14)));
    ASSERT_TRUE(bed.step());  // the timer
    EXPECT_EQ(bed.now - before, rnr_timer_duration(14));
    bed.transmit();
    EXPECT_GT(bed.sent.size(), sent);
  }
  EXPECT_TRUE(bed.a.poll(bed.a.send_cq).empty());
  bed.inject(false, acknowledge(bed, 0, rnr_syndrome(14)));
  const auto done = bed.a.poll(bed.a.send_cq);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].status, IBV_WC_RNR_RETRY_EXC_ERR);
}

TEST(RequesterEngine, RnrRetrySeven_NeverGivesUp) {
  DeafBed bed;
  ASSERT_EQ(bed.a.post(IBV_WR_SEND, 5, {bed.a.sge(0, 8)}, 0, 0), 0);
  bed.transmit();
  for (int i = 0; i < 50; ++i) {
    bed.inject(false, acknowledge(bed, 0, rnr_syndrome(1)));
    ASSERT_TRUE(bed.step());
    bed.transmit();
  }
  EXPECT_TRUE(bed.a.poll(bed.a.send_cq).empty());
  EXPECT_EQ(state_of(*bed.a.qp), IBV_QPS_RTS);
}

TEST(RequesterEngine, Fence_WaitsForEarlierReads) {
  DeafBed bed;
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_READ, 1, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key), 0);
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 2, {bed.a.sge(8, 8)}, bed.b.address(0), bed.b.key,
                       IBV_SEND_SIGNALED | IBV_SEND_FENCE),
            0);
  bed.transmit();
  ASSERT_EQ(bed.sent.size(), 1U);
  Headers response = acknowledge(bed, 0);
  response.opcode = Opcode::kReadResponseOnly;
  const std::uint8_t data[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  bed.inject(false, response, data);
  bed.transmit();
  ASSERT_EQ(bed.sent.size(), 2U);
  EXPECT_EQ(parse(bed.sent[1]).headers.opcode, Opcode::kWriteOnly);
  EXPECT_TRUE(std::equal(data, data + 8, bed.a.buffer.begin()));
}

TEST(RequesterEngine, OutstandingReads_StayWithinMaxRdAtomic) {
  QpOptions options;
  options.rd_atomic = 2;
  DeafBed bed(options);
  for (std::uint64_t id = 0; id < 5; ++id) {
    ASSERT_EQ(bed.a.post(IBV_WR_RDMA_READ, id, {bed.a.sge(id * 8, 8)}, bed.b.address(0), bed.b.key),
              0);
  }
  bed.transmit();
  EXPECT_EQ(bed.sent.size(), 2U);
}

TEST(RequesterEngine, LongRead_IsAskedForInHalfWindows) {
  EngineOptions engine;
  engine.window_packets = 16;
  DeafBed bed({}, engine);
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_READ, 1, {bed.a.sge(0, 20 * 1024)}, bed.b.address(0), bed.b.key),
            0);
  bed.transmit();
  ASSERT_EQ(bed.sent.size(), 2U);
  EXPECT_EQ(parse(bed.sent[0]).headers.dma_length, 8U * 1024);
  EXPECT_EQ(parse(bed.sent[1]).headers.psn.value(), 8U);
  EXPECT_EQ(parse(bed.sent[1]).headers.remote_address, bed.b.address(8 * 1024));
}

TEST(RequesterEngine, LostReadResponse_IsAskedForAgainFromTheGapOnce) {
  DeafBed bed;
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_READ, 1, {bed.a.sge(0, 4 * 1024)}, bed.b.address(0), bed.b.key),
            0);
  bed.transmit();
  const std::vector<std::uint8_t> page(1024, 0x5A);
  Headers response = acknowledge(bed, 0);
  response.opcode = Opcode::kReadResponseFirst;
  bed.inject(false, response, page);
  bed.sent.clear();
  response.opcode = Opcode::kReadResponseMiddle;
  response.psn = Psn(2);
  bed.inject(false, response, page);
  response.opcode = Opcode::kReadResponseLast;
  response.psn = Psn(3);
  bed.inject(false, response, page);
  bed.transmit();
  ASSERT_EQ(bed.sent.size(), 1U);
  EXPECT_EQ(parse(bed.sent[0]).headers.psn.value(), 1U);
  EXPECT_EQ(parse(bed.sent[0]).headers.remote_address, bed.b.address(1024));
  EXPECT_EQ(parse(bed.sent[0]).headers.dma_length, 3U * 1024);
}

TEST(RequesterEngine, ReadResponseOfWrongSize_IsDroppedAndCounted) {
  DeafBed bed;
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_READ, 1, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key), 0);
  bed.transmit();
  Headers response = acknowledge(bed, 0);
  response.opcode = Opcode::kReadResponseOnly;
  const std::uint8_t data[12] = {};
  bed.inject(false, response, data);
  EXPECT_TRUE(bed.a.poll(bed.a.send_cq).empty());
  const auto index = static_cast<std::size_t>(DropReason::kBadPayloadLength);
  EXPECT_EQ(bed.a.engine->counters().dropped[index], 1U);
}

TEST(RequesterEngine, BadLocalKey_FailsOnlyWhenEarlierWorkIsDone) {
  DeafBed bed;
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 1, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key), 0);
  ibv_sge bad = bed.a.sge(0, 8);
  bad.lkey ^= 1;
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 2, {bad}, bed.b.address(0), bed.b.key), 0);
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 3, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key), 0);
  bed.transmit();
  EXPECT_EQ(bed.sent.size(), 1U);
  EXPECT_TRUE(bed.a.poll(bed.a.send_cq).empty());
  bed.inject(false, acknowledge(bed, 0));
  const auto done = bed.a.poll(bed.a.send_cq);
  ASSERT_EQ(done.size(), 3U);
  EXPECT_EQ(done[0].status, IBV_WC_SUCCESS);
  EXPECT_EQ(done[1].status, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(done[2].status, IBV_WC_WR_FLUSH_ERR);
}

TEST(RequesterEngine, Unsignaled_CompletesSilentlyUnlessItFails) {
  DeafBed bed;
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 1, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key, 0), 0);
  ASSERT_EQ(bed.a.post(IBV_WR_RDMA_WRITE, 2, {bed.a.sge(0, 8)}, bed.b.address(0), bed.b.key, 0), 0);
  bed.transmit();
  bed.inject(false, acknowledge(bed, 0));
  EXPECT_TRUE(bed.a.poll(bed.a.send_cq).empty());
  bed.inject(false, acknowledge(bed, 1, nak_syndrome(NakCode::kRemoteAccess)));
  const auto done = bed.a.poll(bed.a.send_cq);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].wr_id, 2U);
}

TEST(RequesterEngine, LossHalvesTheWindow_OncePerRoundTrip) {
  EngineOptions engine;
  engine.window_packets = 32;
  engine.min_window_packets = 4;
  DeafBed bed({}, engine);
  ASSERT_EQ(
      bed.a.post(IBV_WR_RDMA_WRITE, 1, {bed.a.sge(0, 1U << 20U)}, bed.b.address(0), bed.b.key), 0);
  bed.transmit();
  bed.sent.clear();
  bed.inject(false, acknowledge(bed, 1, nak_syndrome(NakCode::kSequence)));
  bed.transmit();
  EXPECT_EQ(bed.sent.size(), 16U);
  bed.sent.clear();
  bed.inject(false, acknowledge(bed, 2, nak_syndrome(NakCode::kSequence)));
  bed.transmit();
  EXPECT_EQ(bed.sent.size(), 16U);
}

}  // namespace
}  // namespace braid::roce::testing
