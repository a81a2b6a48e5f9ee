#include <braid/channel_options.h>

#include <algorithm>
#include <bit>

#include "bootstrap/messages.h"
#include "channel/channel_core.h"
#include "channel/control_budget.h"
#include "channel/imm.h"
#include "channel/planner.h"

namespace braid {
namespace {

constexpr std::uint32_t kMaxDepth = 8192;
constexpr std::uint32_t kMaxReadDepth = 128;
constexpr std::uint32_t kMaxTable = 65536;
constexpr std::uint32_t kControlEntries = 96;  // of the control QP in each completion queue

// Collects the first fault; later checks then do nothing.
class Checker {
 public:
  explicit Checker(std::string& why) noexcept : why_(why) {}

  void range(const char* name, std::uint64_t value, std::uint64_t low, std::uint64_t high) {
    if (ok_ && (value < low || value > high)) {
      fail(name, value, std::to_string(low) + ".." + std::to_string(high));
    }
  }
  void that(bool condition, const char* name, std::uint64_t value, const char* allowed) {
    if (ok_ && !condition) fail(name, value, allowed);
  }
  [[nodiscard]] Status status() const noexcept {
    return ok_ ? Status() : Status(StatusCode::kInvalidArgument);
  }

 private:
  void fail(const char* name, std::uint64_t value, const std::string& allowed) {
    why_ = std::string("the channel option ") + name + " is " + std::to_string(value) +
           ", allowed is " + allowed;
    ok_ = false;
  }
  std::string& why_;
  bool ok_ = true;
};

bool is_mtu(std::uint32_t bytes) noexcept {
  return bytes == 0 || (std::has_single_bit(bytes) && bytes >= 256 && bytes <= 4096);
}

}  // namespace

std::string_view to_string(SchedulerPolicy policy) noexcept {
  switch (policy) {
    case SchedulerPolicy::kStaticSplit: return "static_split";
    case SchedulerPolicy::kRoundRobin: return "round_robin";
    case SchedulerPolicy::kDqplb: return "dqplb";
    case SchedulerPolicy::kAdaptive: return "adaptive";
  }
  return "unknown";
}

std::optional<SchedulerPolicy> parse_scheduler_policy(std::string_view name) noexcept {
  for (const SchedulerPolicy policy : {SchedulerPolicy::kStaticSplit, SchedulerPolicy::kRoundRobin,
                                       SchedulerPolicy::kDqplb, SchedulerPolicy::kAdaptive}) {
    if (name == to_string(policy)) return policy;
  }
  return std::nullopt;
}

Status resolve_options(const DeviceCore& device, ChannelOptions& options, std::string& why) {
  Checker check(why);
  check.range("lanes", options.lanes, 1, kMaxLanes);
  check.range("segment_bytes", options.segment_bytes, channel::kCutAlignment,
              channel::kMaxSegmentBytes);
  check.range("window_segments", options.window_segments, 1, channel::kMaxWindow);
  check.that(std::has_single_bit(options.window_segments), "window_segments",
             options.window_segments, "a power of two");
  check.range("lane_depth", options.lane_depth, 1, kMaxDepth);
  check.range("receive_depth", options.receive_depth, 1, kMaxDepth);
  check.range("read_depth", options.read_depth, 0, kMaxReadDepth);
  check.range("static_threshold_bytes", options.static_threshold_bytes, 1,
              channel::kMaxSegmentBytes);
  check.range("operation_capacity", options.operation_capacity, 1, kMaxTable);
  check.range("notification_capacity", options.notification_capacity, 1, kMaxTable);
  check.that(is_mtu(options.path_mtu_bytes), "path_mtu_bytes", options.path_mtu_bytes,
             "0, 256, 512, 1024, 2048 or 4096");
  check.range("ack_timeout_exponent", options.ack_timeout_exponent, 0, 31);
  check.range("retry_count", options.retry_count, 0, 7);
  check.range("rnr_retry_count", options.rnr_retry_count, 0, 6);
  check.range("min_rnr_timer", options.min_rnr_timer, 0, 31);
  check.range("service_level", options.service_level, 0, 7);
  check.range("hop_limit", options.hop_limit, 1, 255);
  check.range("exports", options.exports.size(), 0, bootstrap::kMaxExports);
  check.range("notify_ids", options.notify_ids.size(), 0, kMaxNotifyIndex);
  for (const std::uint16_t port : options.source_ports) check.range("source_ports", port, 1, 65535);
  check.that(options.connect_timeout > Duration(0), "connect_timeout", 0, "more than 0");
  check.that(options.recovery_timeout > Duration(0), "recovery_timeout", 0, "more than 0");
  check.that(options.lane_timeout >= Duration(0), "lane_timeout", 0, "0 or more");
  check.that(options.repath_after >= Duration(0), "repath_after", 0, "0 or more");
  check.that(options.repath_ratio >= 0 && options.repath_ratio <= 1, "repath_ratio", 0, "0..1");
  if (!check.status().ok()) return check.status();

  // Both depths shrink to what a QP holds and to their share of the largest completion queue, so
  // that a queue can never overrun.
  const ibv_device_attr& limits = device.attributes();
  const auto max_wr = static_cast<std::uint32_t>(std::max(limits.max_qp_wr, 1));
  const auto max_cqe = static_cast<std::uint32_t>(std::max(limits.max_cqe, 1));
  const std::uint32_t share =
      max_cqe > kControlEntries ? (max_cqe - kControlEntries) / options.lanes : 0;
  if (share == 0) {
    why = "a completion queue of " + device.name() + " holds " + std::to_string(max_cqe) +
          " entries, too few for " + std::to_string(options.lanes) + " lanes";
    return Status(StatusCode::kInvalidArgument);
  }
  // Fetches share the send queue with segments, and take at most half of it.
  const auto max_reads = static_cast<std::uint32_t>(std::max(limits.max_qp_init_rd_atom, 0));
  const std::uint32_t sends = std::min(max_wr, share);
  options.read_depth = std::min({options.read_depth, max_reads, sends / 2});
  options.lane_depth = std::min(options.lane_depth, sends - options.read_depth);
  options.receive_depth = std::min({options.receive_depth, max_wr, share});
  const std::uint32_t port_max = device.port_attributes().max_msg_sz;
  options.segment_bytes = channel::effective_segment_bytes(
      options.segment_bytes, port_max == 0 ? channel::kMaxSegmentBytes : port_max);
  return Status();
}

}  // namespace braid
