#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "verbs/conformance/conformance_bed.h"
#include "verbs/rc_setup.h"

namespace braid::verbs::conformance {

using Bytes = std::vector<std::uint8_t>;

inline constexpr int kAllAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
                                  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// `count` bytes that depend on seed and position.
[[nodiscard]] Bytes pattern(std::size_t count, std::uint64_t seed);

/// Registered bytes between two unregistered canaries.
class Memory {
 public:
  Memory(VerbsApi& api, ibv_pd* pd, std::size_t bytes, int access = kAllAccess);
  /// Registered under an address of the caller's choice.
  Memory(VerbsApi& api, ibv_pd* pd, std::size_t bytes, int access, std::uint64_t iova);
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  [[nodiscard]] std::uint8_t* data() { return storage_.data() + kCanaryBytes; }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// Address that WRs use for a byte.
  [[nodiscard]] std::uint64_t address(std::size_t offset = 0) const { return iova_ + offset; }
  [[nodiscard]] std::uint32_t lkey() const { return mr_->lkey; }
  [[nodiscard]] std::uint32_t rkey() const { return mr_->rkey; }
  [[nodiscard]] ibv_mr* mr() { return mr_; }

  void fill(std::uint8_t value);
  void set(std::size_t offset, const Bytes& bytes);
  [[nodiscard]] Bytes get(std::size_t offset, std::size_t bytes) const;
  [[nodiscard]] std::uint64_t word(std::size_t offset) const;
  void set_word(std::size_t offset, std::uint64_t value);
  /// Deregisters early; the keys remain readable.
  void deregister();
  /// True when nothing was written beside the region.
  [[nodiscard]] bool canaries_intact() const;

 private:
  static constexpr std::size_t kCanaryBytes = 4096;
  static constexpr std::uint8_t kCanary = 0xC7;

  void register_region(ibv_pd* pd, int access);

  VerbsApi& api_;
  Bytes storage_;
  std::size_t size_;
  std::uint64_t iova_;
  ibv_mr* mr_ = nullptr;
  ibv_mr gone_{};  // what mr_ points to once deregistered
};

struct EndpointOptions {
  std::uint32_t send_wr = 128;
  std::uint32_t recv_wr = 128;
  std::uint32_t sge = 16;
  std::uint32_t inline_bytes = 64;
  int cq_entries = 512;
  bool signal_all = false;
  bool own_cqs = true;  // false: both queues share one CQ
  bool use_srq = false;
  bool use_channel = false;  // completion channels, non-blocking
};

/// A QP with what it needs, on one side.
class Endpoint {
 public:
  Endpoint(const Side& side, const EndpointOptions& options);
  ~Endpoint();
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  /// One more QP on the same CQs and SRQ. The caller destroys it.
  [[nodiscard]] ibv_qp* make_qp();
  /// Destroys the QP early, as a peer that goes away.
  void destroy_qp();

  [[nodiscard]] std::unique_ptr<Memory> memory(std::size_t bytes, int access = kAllAccess);

  /// What the peer must know.
  [[nodiscard]] QpEndpoint describe(ibv_qp* of = nullptr) const;
  [[nodiscard]] ibv_qp_state state();

  /// Takes everything from the CQs into `sends` and `receives`.
  void drain();
  /// Takes the next async event without blocking. False when there is none. Acknowledges it.
  [[nodiscard]] bool take_async_event(ibv_async_event& event);
  /// Takes the next completion event of `channel` without blocking and acknowledges it.
  [[nodiscard]] static bool take_cq_event(VerbsApi& api, ibv_comp_channel* channel, ibv_cq*& cq);

  VerbsApi& api;
  Side side;
  EndpointOptions options;
  ibv_device_attr device{};
  ibv_port_attr port{};
  ibv_pd* pd = nullptr;
  ibv_comp_channel* send_channel = nullptr;
  ibv_comp_channel* recv_channel = nullptr;
  ibv_cq* send_cq = nullptr;
  ibv_cq* recv_cq = nullptr;
  ibv_srq* srq = nullptr;
  ibv_qp* qp = nullptr;
  ibv_qp_cap cap{};  // as granted
  std::uint32_t first_psn = 0;
  std::deque<ibv_wc> sends;
  std::deque<ibv_wc> receives;
};

/// Builds one send WR.
class SendWr {
 public:
  explicit SendWr(ibv_wr_opcode opcode, std::uint64_t id = 1);

  SendWr& from(const Memory& memory, std::size_t offset, std::size_t bytes);
  SendWr& sge(std::uint64_t address, std::uint32_t bytes, std::uint32_t lkey);
  SendWr& to(const Memory& memory, std::size_t offset = 0);
  SendWr& to_address(std::uint64_t address, std::uint32_t rkey);
  SendWr& flags(unsigned flags);  // SIGNALED is not implied
  SendWr& imm(std::uint32_t host_order);
  SendWr& compare_add(std::uint64_t value);
  SendWr& swap(std::uint64_t value);

  /// Posts it alone. Returns the result of ibv_post_send.
  [[nodiscard]] int post(ibv_qp* qp);
  /// The WR, followed by `next`.
  [[nodiscard]] ibv_send_wr* link(ibv_send_wr* next);

 private:
  ibv_send_wr wr_{};
  std::vector<ibv_sge> sges_;
};

/// Posts one receive into [offset, offset + bytes). bytes = 0: a receive without SGEs.
[[nodiscard]] int post_receive(Endpoint& endpoint, std::uint64_t id, const Memory* memory = nullptr,
                               std::size_t offset = 0, std::size_t bytes = 0);

/// Two endpoints, connected by connect(). The fixture of every suite.
class Conformance : public testing::TestWithParam<BedParam> {
 protected:
  static constexpr Duration kPatience = std::chrono::seconds(20);

  void SetUp() override;
  void TearDown() override;

  /// Makes both endpoints. They stay in RESET.
  void make(const EndpointOptions& options = {});
  /// Makes both endpoints and brings them to RTS.
  void connect(const EndpointOptions& options = {}, const RcOptions& rc = patient());
  /// Brings the existing endpoints to RTS.
  void bring_up(const RcOptions& rc = patient());
  /// Retry values that outlast a loaded machine that lets a process wait: 268 ms, 6 retries.
  [[nodiscard]] static RcOptions patient();
  /// Retry values that make failures come soon: 1.05 ms, 3 retries; RNR 0.01 ms, 3 retries. Only
  /// for tests that expect a failure: a loaded machine may be slower than that.
  [[nodiscard]] static RcOptions quick();

  /// Waits until so many completions have come in all. False when they do not.
  [[nodiscard]] bool wait_sends(Endpoint& endpoint, std::size_t count);
  [[nodiscard]] bool wait_receives(Endpoint& endpoint, std::size_t count);
  [[nodiscard]] bool wait_for(const std::function<bool()>& done);
  [[nodiscard]] bool wait_async_event(Endpoint& endpoint, ibv_event_type type,
                                      ibv_async_event& event);
  /// Lets the devices work for a while in which nothing more should happen.
  void settle(Duration duration = std::chrono::milliseconds(30));

  /// Posts the WR on a_ and waits for its completion's status. Fails the test when none comes.
  [[nodiscard]] ibv_wc_status run(SendWr& wr);

  std::unique_ptr<ConformanceBed> bed_;
  std::unique_ptr<Endpoint> a_;
  std::unique_ptr<Endpoint> b_;
};

// Names of the suites. They share the fixture; conformance_suites.h instantiates each.
using DataTransfer = Conformance;
using GatherScatter = Conformance;
using Atomics = Conformance;
using Ordering = Conformance;
using QueueLimits = Conformance;
using SharedReceive = Conformance;
using Events = Conformance;
using StateMachine = Conformance;
using LocalErrors = Conformance;
using RemoteErrors = Conformance;
using RetryErrors = Conformance;
using Registration = Conformance;
using Paths = Conformance;
using HugeMessages = Conformance;

}  // namespace braid::verbs::conformance
