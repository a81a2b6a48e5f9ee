#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/random.h"
#include "roce/engine.h"

namespace braid::roce::testing {

/// What the network between two engines does to packets, in parts per million.
struct NetworkFaults {
  std::uint32_t drop_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t reorder_ppm = 0;
  std::uint32_t corrupt_ppm = 0;
};

/// Records what an engine reports.
class RecordingEvents final : public EngineEvents {
 public:
  void on_completion_event(CompletionQueue& cq) noexcept override { completions.push_back(&cq); }
  void on_qp_event(Qp&, ibv_event_type type) noexcept override { types.push_back(type); }
  void on_cq_event(CompletionQueue&, ibv_event_type type) noexcept override {
    types.push_back(type);
  }
  void on_srq_event(ReceiveQueue&, ibv_event_type type) noexcept override { types.push_back(type); }
  [[nodiscard]] bool saw(ibv_event_type type) const;

  std::vector<CompletionQueue*> completions;
  std::vector<ibv_event_type> types;
};

struct QpOptions {
  std::uint32_t mtu_bytes = 1024;
  std::uint32_t start_psn = 0;
  std::uint8_t timeout_code = 14;
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry = 7;
  std::uint8_t min_rnr_timer = 1;  // 0.01 ms
  std::uint8_t rd_atomic = 16;
  std::uint32_t queue_depth = 64;
  std::uint32_t max_inline_bytes = 64;
  bool signal_all = false;
  int access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
};

/// One engine with a QP, its queues and a registered buffer.
struct Side {
  explicit Side(const EngineOptions& options, IpAddress own_address);

  [[nodiscard]] ibv_sge sge(std::uint64_t offset, std::uint32_t bytes);
  [[nodiscard]] std::uint64_t address(std::uint64_t offset) const {
    return reinterpret_cast<std::uint64_t>(buffer.data()) + offset;
  }
  /// Posts one WR built from the arguments; returns post_send's result.
  int post(ibv_wr_opcode opcode, std::uint64_t wr_id, std::vector<ibv_sge> sges,
           std::uint64_t remote_address, std::uint32_t rkey, unsigned flags = IBV_SEND_SIGNALED,
           std::uint32_t imm = 0);
  int post_atomic(ibv_wr_opcode opcode, std::uint64_t wr_id, ibv_sge sge,
                  std::uint64_t remote_address, std::uint32_t rkey, std::uint64_t compare_add,
                  std::uint64_t swap);
  int post_recv(std::uint64_t wr_id, std::vector<ibv_sge> sges);
  [[nodiscard]] std::vector<ibv_wc> poll(CompletionQueue& cq);

  static constexpr std::size_t kBufferBytes = 4U << 20U;

  IpAddress ip;
  RecordingEvents events;
  std::unique_ptr<Engine> engine;
  CompletionQueue send_cq{1024, nullptr};
  CompletionQueue recv_cq{1024, nullptr};
  std::vector<std::uint8_t> buffer;
  std::uint32_t key = 0;
  Qp* qp = nullptr;
};

/// Two engines and the network between them, in virtual time.
///
/// step() delivers what is due, lets both sides send, or jumps to the nearest deadline, whichever
/// comes first: no test waits.
class EngineBed {
 public:
  explicit EngineBed(const EngineOptions& options = {}, std::uint64_t seed = 1);

  /// Creates and connects a QP on each side.
  void connect(const QpOptions& a, const QpOptions& b);
  void connect(const QpOptions& both = {}) { connect(both, both); }

  /// Lets both sides send what they may send now, and nothing else.
  void transmit();
  /// False when nothing is left to happen.
  bool step();
  /// Steps until nothing is left, or at most `limit` steps. Returns the steps taken.
  std::size_t run(std::size_t limit = 1'000'000);

  struct Datagram {
    TimePoint due;
    std::uint64_t order;
    bool to_b;
    FlowAddress flow;
    std::vector<std::uint8_t> bytes;
  };
  /// Hands a packet to one side as if it came from the other. Not subject to faults.
  void inject(bool to_b, std::span<const std::uint8_t> bytes);
  /// Encodes, seals with a correct ICRC and injects.
  void inject(bool to_b, Headers headers, std::span<const std::uint8_t> payload = {});

  Side a;
  Side b;
  NetworkFaults faults;
  TimePoint now{};
  Duration latency = std::chrono::microseconds(5);
  bool cut = false;            // every packet is lost
  std::vector<Datagram> sent;  // everything that either side sent, if recording
  bool recording = false;
  std::vector<std::size_t> drop_next_of_a;  // indices into a's coming packets to lose
  std::size_t sent_by_a = 0;

 private:
  void pump(Side& from, bool to_b);
  void carry(bool to_b, const FlowAddress& flow, std::vector<std::uint8_t> bytes);
  void deliver(const Datagram& datagram);

  Random random_;
  std::uint64_t order_ = 0;
  std::vector<Datagram> in_flight_;
  TxBatch batch_{64};
};

/// Parses the headers of a recorded packet.
[[nodiscard]] Packet parse(const EngineBed::Datagram& datagram);

}  // namespace braid::roce::testing
