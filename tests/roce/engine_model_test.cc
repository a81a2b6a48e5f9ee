// A pair of engines under loss, duplication, reordering and corruption, against a byte-exact model:
// both buffers, every completion, every immediate, in order, exactly once.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "roce/engine_bed.h"

namespace braid::roce::testing {
namespace {

constexpr std::uint32_t kRegionBytes = 256U << 10U;  // remote target region of each side
constexpr std::uint64_t kLocalBase = 1U << 20U;      // local sources and sinks lie above

/// What must be true when a WR completes, recorded when it is posted.
struct Expected {
  std::uint64_t wr_id;
  ibv_wc_opcode opcode;
  std::uint64_t sink_offset;       // where a READ or atomic lands
  std::vector<std::uint8_t> sink;  // and what
};

struct ExpectedReceive {
  ibv_wc_opcode opcode;
  std::uint32_t byte_len;
  bool has_imm;
  std::uint32_t imm;
  std::vector<std::uint8_t> data;  // of a SEND
};

/// Drives one direction: the requester is `from`, the memory model is of `to`'s target region.
class Direction {
 public:
  Direction(Side& from, Side& to, Random& random, std::uint32_t mtu)
      : from_(from), to_(to), random_(random), mtu_(mtu), model_(kRegionBytes) {
    for (std::size_t i = 0; i < model_.size(); ++i) {
      model_[i] = static_cast<std::uint8_t>(random_.next());
    }
    std::copy(model_.begin(), model_.end(), to_.buffer.begin());
  }

  void post_receives() {
    while (receives_posted_ - receives_seen_ < 32 && random_.below(4) != 0) {
      const std::uint64_t slot = receives_posted_ % 64;
      // Receives land in the upper half of the responder's buffer, 16 KiB each.
      const std::uint64_t offset = (2U << 20U) + slot * kReceiveBytes;
      if (to_.post_recv(receives_posted_,
                        {to_.sge(offset, kReceiveBytes / 2),
                         to_.sge(offset + kReceiveBytes / 2, kReceiveBytes / 2)}) != 0) {
        break;
      }
      ++receives_posted_;
    }
  }

  void post_one() {
    switch (random_.below(7)) {
      case 0: post_send(false); break;
      case 1: post_send(true); break;
      case 2: post_write(false); break;
      case 3: post_write(true); break;
      case 4: post_read(); break;
      case 5: post_atomic(true); break;
      default: post_atomic(false); break;
    }
  }

  void check_completions() {
    for (const ibv_wc& wc : from_.poll(from_.send_cq)) {
      ASSERT_FALSE(expected_.empty());
      const Expected& want = expected_.front();
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.wr_id, want.wr_id);
      EXPECT_EQ(wc.opcode, want.opcode);
      EXPECT_TRUE(std::equal(want.sink.begin(), want.sink.end(),
                             from_.buffer.begin() + static_cast<std::ptrdiff_t>(want.sink_offset)))
          << "sink of WR " << want.wr_id;
      expected_.pop_front();
    }
    for (const ibv_wc& wc : to_.poll(to_.recv_cq)) {
      ASSERT_FALSE(receives_.empty());
      const ExpectedReceive& want = receives_.front();
      ASSERT_EQ(wc.status, IBV_WC_SUCCESS);
      EXPECT_EQ(wc.opcode, want.opcode);
      EXPECT_EQ(wc.byte_len, want.byte_len);
      EXPECT_EQ((wc.wc_flags & IBV_WC_WITH_IMM) != 0, want.has_imm);
      if (want.has_imm) {
        EXPECT_EQ(wc.imm_data, want.imm);
      }
      EXPECT_EQ(wc.wr_id, receives_seen_);
      const std::uint64_t offset = (2U << 20U) + (receives_seen_ % 64) * kReceiveBytes;
      EXPECT_TRUE(std::equal(want.data.begin(), want.data.end(),
                             to_.buffer.begin() + static_cast<std::ptrdiff_t>(offset)));
      ++receives_seen_;
      receives_.pop_front();
    }
  }

  void check_end() {
    EXPECT_TRUE(expected_.empty());
    EXPECT_TRUE(receives_.empty());
    EXPECT_TRUE(std::equal(model_.begin(), model_.end(), to_.buffer.begin()));
  }

  [[nodiscard]] bool idle() const { return expected_.empty() && receives_.empty(); }
  [[nodiscard]] std::size_t outstanding() const { return expected_.size(); }

 private:
  static constexpr std::uint32_t kReceiveBytes = 16U << 10U;
  static constexpr std::uint64_t kSlots = 64;

  std::uint32_t random_size(std::uint32_t limit) {
    switch (random_.below(6)) {
      case 0: return 0;
      case 1: return std::min(limit, mtu_ - 1);
      case 2: return std::min(limit, mtu_);
      case 3: return std::min(limit, mtu_ + 1);
      default: return static_cast<std::uint32_t>(random_.below(limit));
    }
  }
  // Each WR has a slot of its own for its source or sink, so that the model needs no history.
  std::uint64_t slot_offset() const { return kLocalBase + (next_id_ % kSlots) * kReceiveBytes; }

  std::vector<ibv_sge> fill_source(std::uint32_t bytes, std::vector<std::uint8_t>& copy) {
    const std::uint64_t offset = slot_offset();
    copy.resize(bytes);
    for (std::uint32_t i = 0; i < bytes; ++i) {
      copy[i] = from_.buffer[offset + i] = static_cast<std::uint8_t>(random_.next());
    }
    std::vector<ibv_sge> sges;
    std::uint32_t done = 0;
    while (done < bytes) {
      const auto piece = static_cast<std::uint32_t>(
          sges.size() == 15 ? bytes - done : 1 + random_.below(bytes - done));
      sges.push_back(from_.sge(offset + done, piece));
      done += piece;
    }
    return sges;
  }

  // What follows a READ may overtake its data unless it is fenced; READs themselves keep order.
  static unsigned flags() { return IBV_SEND_SIGNALED | IBV_SEND_FENCE; }

  void post_send(bool imm) {
    std::vector<std::uint8_t> data;
    const auto sges = fill_source(random_size(kReceiveBytes), data);
    const auto value = static_cast<std::uint32_t>(random_.next());
    const auto bytes = static_cast<std::uint32_t>(data.size());
    if (from_.post(imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, next_id_, sges, 0, 0, flags(),
                   value) != 0) {
      return;
    }
    expected_.push_back({next_id_++, IBV_WC_SEND, 0, {}});
    receives_.push_back({IBV_WC_RECV, bytes, imm, value, data});
  }

  void post_write(bool imm) {
    std::vector<std::uint8_t> data;
    const auto sges = fill_source(random_size(kReceiveBytes), data);
    const std::uint64_t at = random_.below(kRegionBytes - data.size() + 1);
    const auto value = static_cast<std::uint32_t>(random_.next());
    const auto bytes = static_cast<std::uint32_t>(data.size());
    if (from_.post(imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, next_id_, sges,
                   to_.address(at), to_.key, flags(), value) != 0) {
      return;
    }
    expected_.push_back({next_id_++, IBV_WC_RDMA_WRITE, 0, {}});
    std::copy(data.begin(), data.end(), model_.begin() + static_cast<std::ptrdiff_t>(at));
    if (imm) receives_.push_back({IBV_WC_RECV_RDMA_WITH_IMM, bytes, true, value, {}});
  }

  void post_read() {
    const std::uint32_t bytes = random_size(kReceiveBytes);
    const std::uint64_t at = random_.below(kRegionBytes - bytes + 1);
    const std::uint64_t sink = slot_offset();
    std::vector<ibv_sge> sges;
    if (bytes != 0) {
      const auto first = static_cast<std::uint32_t>(random_.below(bytes));
      if (first != 0) sges.push_back(from_.sge(sink, first));
      sges.push_back(from_.sge(sink + first, bytes - first));
    }
    if (from_.post(IBV_WR_RDMA_READ, next_id_, sges, to_.address(at), to_.key) != 0) {
      return;
    }
    const auto begin = model_.begin() + static_cast<std::ptrdiff_t>(at);
    expected_.push_back({next_id_++, IBV_WC_RDMA_READ, sink, {begin, begin + bytes}});
  }

  void post_atomic(bool add) {
    const std::uint64_t at = random_.below(kRegionBytes / 8) * 8;
    std::uint64_t found = 0;
    std::memcpy(&found, model_.data() + at, sizeof found);
    const std::uint64_t operand = random_.next();
    const std::uint64_t compare = random_.below(2) == 0 ? found : operand;
    const std::uint64_t sink = slot_offset();
    const int error =
        add ? from_.post_atomic(IBV_WR_ATOMIC_FETCH_AND_ADD, next_id_, from_.sge(sink, 8),
                                to_.address(at), to_.key, operand, 0)
            : from_.post_atomic(IBV_WR_ATOMIC_CMP_AND_SWP, next_id_, from_.sge(sink, 8),
                                to_.address(at), to_.key, compare, operand);
    if (error != 0) return;
    std::uint64_t left = found;
    if (add) {
      left += operand;
    } else if (compare == found) {
      left = operand;
    }
    std::memcpy(model_.data() + at, &left, sizeof left);
    std::vector<std::uint8_t> original(8);
    std::memcpy(original.data(), &found, sizeof found);
    expected_.push_back(
        {next_id_++, add ? IBV_WC_FETCH_ADD : IBV_WC_COMP_SWAP, sink, std::move(original)});
  }

  Side& from_;
  Side& to_;
  Random& random_;
  std::uint32_t mtu_;
  std::vector<std::uint8_t> model_;
  std::deque<Expected> expected_;
  std::deque<ExpectedReceive> receives_;
  std::uint64_t next_id_ = 0;
  std::uint64_t receives_posted_ = 0;
  std::uint64_t receives_seen_ = 0;
};

struct Scenario {
  std::string name;
  NetworkFaults faults;
};

class EngineModel : public ::testing::TestWithParam<Scenario> {};

void run_seed(const Scenario& scenario, std::uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  Random random(seed);
  EngineOptions options;
  options.window_packets = static_cast<std::uint32_t>(8U << random.below(5));
  options.min_window_packets = 4;
  options.seed = seed;
  EngineBed bed(options, seed);
  bed.faults = scenario.faults;
  QpOptions qp;
  qp.mtu_bytes = static_cast<std::uint32_t>(256U << random.below(5));
  qp.start_psn = random.below(2) == 0 ? 0xFFFFFF - static_cast<std::uint32_t>(random.below(64))
                                      : static_cast<std::uint32_t>(random.below(1U << 24));
  qp.rd_atomic = static_cast<std::uint8_t>(1 + random.below(16));
  qp.timeout_code = 8;  // below the engine's floor, so the floor applies
  bed.connect(qp);
  Direction forward(bed.a, bed.b, random, qp.mtu_bytes);
  Direction backward(bed.b, bed.a, random, qp.mtu_bytes);
  for (int round = 0; round < 400; ++round) {
    forward.post_receives();
    backward.post_receives();
    // At most 32 outstanding: every WR's slot is then free again before it comes round.
    if (forward.outstanding() < 32 && random.below(2) == 0) forward.post_one();
    if (backward.outstanding() < 32 && random.below(2) == 0) backward.post_one();
    bed.run(random.below(40));
    forward.check_completions();
    backward.check_completions();
    if (::testing::Test::HasFatalFailure()) return;
  }
  for (int round = 0; round < 200 && !(forward.idle() && backward.idle()); ++round) {
    forward.post_receives();
    backward.post_receives();
    bed.run(5000);
    forward.check_completions();
    backward.check_completions();
    if (::testing::Test::HasFatalFailure()) return;
  }
  forward.check_end();
  backward.check_end();
}

TEST_P(EngineModel, RandomOperations_MatchTheModelByteForByte) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    run_seed(GetParam(), seed);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Networks, EngineModel,
                         ::testing::Values(Scenario{"clean", {}},
                                           Scenario{"lossy", {.drop_ppm = 10'000}},
                                           Scenario{"duplicating", {.duplicate_ppm = 100'000}},
                                           Scenario{"reordering", {.reorder_ppm = 50'000}},
                                           Scenario{"corrupting", {.corrupt_ppm = 10'000}},
                                           Scenario{"hostile",
                                                    {.drop_ppm = 20'000,
                                                     .duplicate_ppm = 20'000,
                                                     .reorder_ppm = 20'000,
                                                     .corrupt_ppm = 10'000}}),
                         [](const auto& scenario) { return scenario.param.name; });

}  // namespace
}  // namespace braid::roce::testing
