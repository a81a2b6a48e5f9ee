// The responder against requests chosen one by one; B is the responder, the test speaks for A.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "roce/engine_bed.h"
#include "roce/rnr_timer.h"

namespace braid::roce::testing {
namespace {

class ResponderEngine : public ::testing::Test {
 protected:
  void connect(const QpOptions& options = {}) {
    bed.recording = true;
    bed.connect(options);
  }
  Headers request(Opcode opcode, std::uint32_t psn) const {
    Headers headers;
    headers.opcode = opcode;
    headers.psn = Psn(psn);
    headers.ack_request = true;
    headers.destination_qpn = qpn_of(*bed.b.qp);
    headers.rkey = bed.b.key;
    headers.remote_address = bed.b.address(0);
    return headers;
  }
  Headers write_only(std::uint32_t psn, std::uint32_t bytes) const {
    Headers headers = request(Opcode::kWriteOnly, psn);
    headers.dma_length = bytes;
    return headers;
  }
  /// What B has sent since the last call, oldest first.
  std::vector<Packet> answers() {
    bed.cut = true;  // A does not need to see them
    bed.transmit();
    std::vector<Packet> out;
    kept_ = std::move(bed.sent);
    bed.sent.clear();
    for (const auto& datagram : kept_) {
      if (!datagram.to_b) out.push_back(parse(datagram));
    }
    return out;
  }
  std::uint64_t dropped(DropReason reason) const {
    return bed.b.engine->counters().dropped[static_cast<std::size_t>(reason)];
  }

  EngineBed bed;
  std::vector<std::uint8_t> page = std::vector<std::uint8_t>(1024, 0x5A);

 private:
  std::vector<EngineBed::Datagram> kept_;
};

TEST_F(ResponderEngine, RequestsInOneBatch_AreAcknowledgedOnce) {
  connect();
  for (std::uint32_t psn = 0; psn < 3; ++psn) bed.inject(true, write_only(psn, 1024), page);
  const auto out = answers();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].headers.opcode, Opcode::kAcknowledge);
  EXPECT_EQ(out[0].headers.psn.value(), 2U);
  EXPECT_EQ(out[0].headers.syndrome, 0x1F);
  EXPECT_EQ(out[0].headers.msn.value(), 3U);
}

TEST_F(ResponderEngine, NoAckRequest_NoAcknowledge) {
  connect();
  Headers headers = write_only(0, 1024);
  headers.ack_request = false;
  bed.inject(true, headers, page);
  EXPECT_TRUE(answers().empty());
}

TEST_F(ResponderEngine, Gap_IsNakedOnceWithTheExpectedPsn) {
  connect();
  bed.inject(true, write_only(0, 1024), page);
  static_cast<void>(answers());
  bed.inject(true, write_only(2, 1024), page);
  bed.inject(true, write_only(3, 1024), page);
  bed.inject(true, write_only(4, 1024), page);
  const auto out = answers();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].headers.syndrome, 0x60);
  EXPECT_EQ(out[0].headers.psn.value(), 1U);
  bed.inject(true, write_only(1, 1024), page);
  bed.inject(true, write_only(5, 1024), page);
  const auto again = answers();
  ASSERT_EQ(again.size(), 1U);
  EXPECT_EQ(again[0].headers.syndrome, 0x60);
  EXPECT_EQ(again[0].headers.psn.value(), 2U);
}

TEST_F(ResponderEngine, DuplicateWrite_IsAcknowledgedWithTheNewestPsnAndNotExecuted) {
  connect();
  for (std::uint32_t psn = 0; psn < 3; ++psn) bed.inject(true, write_only(psn, 1024), page);
  static_cast<void>(answers());
  bed.b.buffer[0] = 1;
  bed.inject(true, write_only(0, 1024), page);
  const auto out = answers();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].headers.psn.value(), 2U);
  EXPECT_EQ(bed.b.buffer[0], 1);
}

TEST_F(ResponderEngine, DuplicateAtomic_IsAnsweredFromMemoryOfItAndExecutedOnce) {
  connect();
  Headers add = request(Opcode::kFetchAdd, 0);
  add.swap_or_add = 5;
  bed.inject(true, add);
  bed.inject(true, add);
  std::uint64_t word = 0;
  std::memcpy(&word, bed.b.buffer.data(), sizeof word);
  EXPECT_EQ(word, 5U);
  const auto out = answers();
  ASSERT_FALSE(out.empty());
  for (const Packet& packet : out) {
    EXPECT_EQ(packet.headers.opcode, Opcode::kAtomicAcknowledge);
    EXPECT_EQ(packet.headers.original, 0U);
  }
}

TEST_F(ResponderEngine, DuplicateAtomicOutOfMemoryOfIt_IsDropped) {
  QpOptions options;
  options.rd_atomic = 2;
  connect(options);
  Headers add = request(Opcode::kFetchAdd, 0);
  add.swap_or_add = 1;
  for (std::uint32_t psn = 0; psn < 3; ++psn) {
    add.psn = Psn(psn);
    bed.inject(true, add);
    static_cast<void>(answers());
  }
  add.psn = Psn(1);
  bed.inject(true, add);
  EXPECT_EQ(answers().size(), 1U);
  add.psn = Psn(0);
  bed.inject(true, add);
  EXPECT_TRUE(answers().empty());
  EXPECT_EQ(dropped(DropReason::kDuplicateDropped), 1U);
}

TEST_F(ResponderEngine, DuplicateRead_IsReplayedFromTheMiddle) {
  connect();
  Headers read = request(Opcode::kReadRequest, 0);
  read.dma_length = 4 * 1024;
  bed.inject(true, read);
  EXPECT_EQ(answers().size(), 4U);
  read.psn = Psn(2);
  read.remote_address = bed.b.address(2 * 1024);
  read.dma_length = 2 * 1024;
  bed.inject(true, read);
  const auto out = answers();
  ASSERT_EQ(out.size(), 2U);
  EXPECT_EQ(out[0].headers.opcode, Opcode::kReadResponseFirst);
  EXPECT_EQ(out[0].headers.psn.value(), 2U);
  EXPECT_EQ(out[1].headers.opcode, Opcode::kReadResponseLast);
}

TEST_F(ResponderEngine, DuplicateReadOutsideTheOriginal_IsDropped) {
  connect();
  Headers read = request(Opcode::kReadRequest, 0);
  read.dma_length = 4 * 1024;
  bed.inject(true, read);
  static_cast<void>(answers());
  read.psn = Psn(2);
  read.remote_address = bed.b.address(2 * 1024);
  read.dma_length = 2 * 1024 + 1;
  bed.inject(true, read);
  EXPECT_TRUE(answers().empty());
}

TEST_F(ResponderEngine, MiddleReadResponses_CarryNoAeth) {
  connect();
  Headers read = request(Opcode::kReadRequest, 0);
  read.dma_length = 3 * 1024;
  bed.inject(true, read);
  const auto out = answers();
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out[0].headers.syndrome, 0x1F);
  EXPECT_EQ(out[1].headers.opcode, Opcode::kReadResponseMiddle);
  EXPECT_EQ(out[1].headers.syndrome, 0);
  EXPECT_EQ(out[2].headers.syndrome, 0x1F);
}

TEST_F(ResponderEngine, SendWithoutReceive_IsRnrAndNotLost) {
  QpOptions options;
  options.min_rnr_timer = 13;
  connect(options);
  bed.inject(true, request(Opcode::kSendOnly, 0), page);
  bed.inject(true, request(Opcode::kSendOnly, 1), page);
  const auto out = answers();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].headers.syndrome, rnr_syndrome(13));
  EXPECT_EQ(out[0].headers.psn.value(), 0U);
  EXPECT_EQ(dropped(DropReason::kRnrNotReady), 1U);
  ASSERT_EQ(bed.b.post_recv(7, {bed.b.sge(4096, 1024)}), 0);
  bed.inject(true, request(Opcode::kSendOnly, 0), page);
  const auto done = bed.b.poll(bed.b.recv_cq);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].wr_id, 7U);
  EXPECT_EQ(bed.b.buffer[4096], 0x5A);
}

// Requirement: 20
TEST_F(ResponderEngine, SeventeenthImmediate_IsRnrWithSixteenReceives) {
  connect();
  for (std::uint64_t id = 0; id < 16; ++id) ASSERT_EQ(bed.b.post_recv(id, {}), 0);
  for (std::uint32_t psn = 0; psn < 17; ++psn) {
    Headers headers = request(Opcode::kWriteOnlyImm, psn);
    headers.imm_network = psn;
    bed.inject(true, headers);
  }
  EXPECT_EQ(bed.b.poll(bed.b.recv_cq).size(), 16U);
  const auto out = answers();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(ack_kind(out[0].headers.syndrome), AckKind::kRnr);
  EXPECT_EQ(out[0].headers.psn.value(), 16U);
}

TEST_F(ResponderEngine, WriteImmediateToBadKeyWithoutReceive_IsAccessErrorAtOnce) {
  connect();
  Headers headers = request(Opcode::kWriteOnlyImm, 0);
  headers.dma_length = 1024;
  headers.rkey ^= 1U;
  bed.inject(true, headers, page);
  const auto out = answers();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].headers.syndrome, nak_syndrome(NakCode::kRemoteAccess));
  EXPECT_EQ(bed.b.buffer[0], 0);
}

TEST_F(ResponderEngine, WriteImmediateWithoutReceive_IsRnrWithNothingWrittenThenExecutedOnce) {
  connect();
  Headers headers = request(Opcode::kWriteOnlyImm, 0);
  headers.dma_length = 1024;
  bed.inject(true, headers, page);
  const auto refused = answers();
  ASSERT_EQ(refused.size(), 1U);
  EXPECT_EQ(ack_kind(refused[0].headers.syndrome), AckKind::kRnr);
  EXPECT_EQ(bed.b.buffer[0], 0);
  ASSERT_EQ(bed.b.post_recv(3, {}), 0);
  bed.inject(true, headers, page);
  EXPECT_EQ(bed.b.poll(bed.b.recv_cq).size(), 1U);
  EXPECT_EQ(bed.b.buffer[1023], 0x5A);
}

TEST_F(ResponderEngine, WriteImmediate_ReportsRethLengthAndTheImmediate) {
  connect();
  ASSERT_EQ(bed.b.post_recv(3, {}), 0);
  Headers headers = request(Opcode::kWriteFirst, 0);
  headers.dma_length = 1025;
  bed.inject(true, headers, page);
  Headers last = request(Opcode::kWriteLastImm, 1);
  last.imm_network = 0xAABBCCDD;
  bed.inject(true, last, std::vector<std::uint8_t>{9});
  const auto done = bed.b.poll(bed.b.recv_cq);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].opcode, IBV_WC_RECV_RDMA_WITH_IMM);
  EXPECT_EQ(done[0].byte_len, 1025U);
  EXPECT_EQ(done[0].imm_data, 0xAABBCCDDU);
  EXPECT_EQ(bed.b.buffer[1024], 9);
}

TEST_F(ResponderEngine, ZeroLengthWriteAndRead_SkipTheKeyCheck) {
  connect();
  Headers headers = write_only(0, 0);
  headers.rkey = 0xDEAD;
  headers.remote_address = 1;
  bed.inject(true, headers);
  Headers read = request(Opcode::kReadRequest, 1);
  read.rkey = 0xDEAD;
  bed.inject(true, read);
  const auto out = answers();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].headers.opcode, Opcode::kReadResponseOnly);
  EXPECT_EQ(out[0].headers.psn.value(), 1U);
  EXPECT_EQ(state_of(*bed.b.qp), IBV_QPS_RTS);
}

struct Refusal {
  const char* name;
  Opcode opcode;
  std::uint32_t payload_bytes;
  std::uint32_t dma_length;
  int access;
  std::uint32_t key_flip;
  std::uint64_t address_offset;
  std::uint8_t syndrome;
};

class ResponderRefusal : public ResponderEngine, public ::testing::WithParamInterface<Refusal> {};

TEST_P(ResponderRefusal, Request_IsNakedAndTheQpFails) {
  const Refusal& refusal = GetParam();
  QpOptions options;
  options.access = refusal.access;
  connect(options);
  ASSERT_EQ(bed.b.post_recv(1, {bed.b.sge(0, 64)}), 0);
  Headers headers = request(refusal.opcode, 0);
  headers.dma_length = refusal.dma_length;
  headers.rkey ^= refusal.key_flip;
  headers.remote_address += refusal.address_offset;
  bed.inject(true, headers, std::vector<std::uint8_t>(refusal.payload_bytes, 1));
  const auto out = answers();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].headers.syndrome, refusal.syndrome);
  EXPECT_EQ(out[0].headers.psn.value(), 0U);
  EXPECT_EQ(state_of(*bed.b.qp), IBV_QPS_ERR);
  const auto flushed = bed.b.poll(bed.b.recv_cq);
  ASSERT_EQ(flushed.size(), 1U);
  EXPECT_NE(flushed[0].status, IBV_WC_SUCCESS);
}

constexpr int kAll = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
constexpr std::uint64_t kEnd = Side::kBufferBytes;

INSTANTIATE_TEST_SUITE_P(
    All, ResponderRefusal,
    ::testing::Values(
        Refusal{"write_bad_key", Opcode::kWriteOnly, 8, 8, kAll, 1, 0, 0x62},
        Refusal{"write_past_end", Opcode::kWriteOnly, 8, 8, kAll, 0, kEnd - 7, 0x62},
        Refusal{"write_before_start", Opcode::kWriteOnly, 8, 8, kAll, 0, ~std::uint64_t{0}, 0x62},
        Refusal{"write_not_enabled", Opcode::kWriteOnly, 8, 8, IBV_ACCESS_REMOTE_READ, 0, 0, 0x61},
        Refusal{"write_shorter_than_reth", Opcode::kWriteOnly, 8, 12, kAll, 0, 0, 0x61},
        Refusal{"write_longer_than_reth", Opcode::kWriteOnly, 12, 8, kAll, 0, 0, 0x61},
        Refusal{"write_too_long", Opcode::kWriteFirst, 1024, 0x80000001, kAll, 0, 0, 0x61},
        Refusal{"first_not_full", Opcode::kWriteFirst, 512, 4096, kAll, 0, 0, 0x61},
        Refusal{"only_above_mtu", Opcode::kWriteOnly, 2048, 2048, kAll, 0, 0, 0x61},
        Refusal{"middle_without_first", Opcode::kWriteMiddle, 1024, 0, kAll, 0, 0, 0x61},
        Refusal{"last_without_first", Opcode::kSendLast, 8, 0, kAll, 0, 0, 0x61},
        Refusal{"send_invalidate", Opcode::kSendOnlyInvalidate, 8, 0, kAll, 0, 0, 0x61},
        Refusal{"send_too_long", Opcode::kSendOnly, 65, 0, kAll, 0, 0, 0x61},
        Refusal{"read_bad_key", Opcode::kReadRequest, 0, 8, kAll, 1, 0, 0x62},
        Refusal{"read_past_end", Opcode::kReadRequest, 0, 8, kAll, 0, kEnd - 7, 0x62},
        Refusal{"read_not_enabled", Opcode::kReadRequest, 0, 8, IBV_ACCESS_REMOTE_WRITE, 0, 0,
                0x61},
        Refusal{"read_too_long", Opcode::kReadRequest, 0, 0x80000001, kAll, 0, 0, 0x61},
        Refusal{"atomic_misaligned", Opcode::kFetchAdd, 0, 0, kAll, 0, 4, 0x61},
        Refusal{"atomic_bad_key", Opcode::kCompareSwap, 0, 0, kAll, 1, 0, 0x62},
        Refusal{"atomic_past_end", Opcode::kFetchAdd, 0, 0, kAll, 0, kEnd, 0x62},
        Refusal{"atomic_not_enabled", Opcode::kFetchAdd, 0, 0, IBV_ACCESS_REMOTE_WRITE, 0, 0,
                0x61}),
    [](const auto& refusal) { return std::string(refusal.param.name); });

TEST_F(ResponderEngine, LimitsThatHold_AreNotRefused) {
  connect();
  ASSERT_EQ(bed.b.post_recv(1, {bed.b.sge(0, 64)}), 0);
  Headers write = write_only(0, 8);
  write.remote_address = bed.b.address(kEnd - 8);
  bed.inject(true, write, std::vector<std::uint8_t>(8, 1));
  bed.inject(true, request(Opcode::kSendOnly, 1), std::vector<std::uint8_t>(64, 2));
  Headers read = request(Opcode::kReadRequest, 2);
  read.remote_address = bed.b.address(kEnd - 8);
  read.dma_length = 8;
  bed.inject(true, read);
  Headers add = request(Opcode::kFetchAdd, 3);
  add.remote_address = bed.b.address(kEnd - 8);
  bed.inject(true, add);
  EXPECT_EQ(state_of(*bed.b.qp), IBV_QPS_RTS);
  EXPECT_EQ(answers().size(), 2U);
}

TEST_F(ResponderEngine, ReadsBeyondMaxDestRdAtomic_AreRefused) {
  QpOptions options;
  options.rd_atomic = 1;
  connect(options);
  Headers read = request(Opcode::kReadRequest, 0);
  read.dma_length = 8;
  for (std::uint32_t psn = 0; psn < 2; ++psn) {
    read.psn = Psn(psn);
    bed.inject(true, read);
  }
  EXPECT_EQ(state_of(*bed.b.qp), IBV_QPS_RTS) << "a replay's worth of slack is allowed";
  read.psn = Psn(2);
  bed.inject(true, read);
  EXPECT_EQ(state_of(*bed.b.qp), IBV_QPS_ERR);
}

TEST_F(ResponderEngine, StrangersPackets_AreDroppedByReason) {
  connect();
  Headers headers = write_only(0, 1024);
  headers.destination_qpn ^= 0x10000;
  bed.inject(true, headers, page);
  EXPECT_EQ(dropped(DropReason::kUnknownQp), 1U);
  headers = write_only(0, 1024);
  headers.pkey = 0x1234;
  bed.inject(true, headers, page);
  EXPECT_EQ(dropped(DropReason::kBadPkey), 1U);
  const std::uint8_t shorter[8] = {};
  bed.inject(true, shorter);
  EXPECT_EQ(dropped(DropReason::kTooShort), 1U);
  EXPECT_TRUE(answers().empty());
}

TEST_F(ResponderEngine, Deregistration_InTheMiddleOfAWriteTakesEffect) {
  connect();
  Headers first = request(Opcode::kWriteFirst, 0);
  first.dma_length = 2048;
  bed.inject(true, first, page);
  ASSERT_TRUE(bed.b.engine->memory().erase(bed.b.key));
  bed.inject(true, request(Opcode::kWriteLast, 1), page);
  const auto out = answers();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(out[0].headers.syndrome, 0x62);
  EXPECT_TRUE(bed.b.events.saw(IBV_EVENT_QP_ACCESS_ERR));
}

TEST_F(ResponderEngine, CompletionQueueOverrun_BreaksTheQueueAndTheQp) {
  connect();
  for (std::uint64_t id = 0; id < 64; ++id) ASSERT_EQ(bed.b.post_recv(id, {}), 0);
  std::uint32_t psn = 0;
  while (state_of(*bed.b.qp) == IBV_QPS_RTS && psn < 3000) {
    bed.inject(true, request(Opcode::kWriteOnlyImm, psn++));
    if (psn % 64 == 0) {
      for (std::uint64_t id = 0; id < 64; ++id) ASSERT_EQ(bed.b.post_recv(id, {}), 0);
    }
  }
  EXPECT_EQ(state_of(*bed.b.qp), IBV_QPS_ERR);
  EXPECT_TRUE(bed.b.events.saw(IBV_EVENT_CQ_ERR));
  EXPECT_TRUE(bed.b.events.saw(IBV_EVENT_QP_FATAL));
  EXPECT_TRUE(bed.b.recv_cq.in_error());
}

}  // namespace
}  // namespace braid::roce::testing
