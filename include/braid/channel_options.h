#pragma once

#include <braid/memory.h>
#include <braid/time.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace braid {

inline constexpr std::uint32_t kMaxLanes = 128;
inline constexpr std::uint32_t kMaxNotifyIndex = 127;

/// Who decides which lane carries what (docs/architecture.md §4).
enum class SchedulerPolicy : std::uint8_t {
  kStaticSplit,  // each put divided over all lanes at once, as HCOMM does
  kRoundRobin,   // whole segments strictly in turn
  kDqplb,        // in turn while lanes have room, then whichever completes one
  kAdaptive,     // by each lane's measured rate
};
/// Names as in configuration: static_split, round_robin, dqplb, adaptive.
[[nodiscard]] std::string_view to_string(SchedulerPolicy policy) noexcept;
[[nodiscard]] std::optional<SchedulerPolicy> parse_scheduler_policy(std::string_view name) noexcept;

/// Everything about a channel that its user may decide. Each side has its own; `lanes` and the
/// number of notify ids must agree, and both sides fail with both numbers when they do not.
struct ChannelOptions {
  /// QPs that carry data. Default 4; 1..128; on the listening side also 0 = as many as the peer
  /// asks for. Memory: each lane costs its queues on the device, about 64 bytes per WR of
  /// lane_depth + receive_depth. More lanes use more network paths.
  std::uint32_t lanes = 4;

  /// Most bytes that one WR carries. Default 512 KiB; 128..1 GiB, rounded down to a multiple of
  /// 128 and to what the port allows in one message. Smaller spreads short puts over more lanes
  /// and costs more WRs.
  std::uint32_t segment_bytes = 512U << 10U;

  /// Segments between the next one and the oldest one that is not acknowledged; it bounds what
  /// the receiver has to reorder. Default 1024; a power of two, 1..2^20. The smaller of the two
  /// sides' values holds. Memory: 72 bytes per segment at the sender, 1 at the receiver. Raise it
  /// when lanes x lane_depth is larger.
  std::uint32_t window_segments = 1024;

  /// Segments posted and not completed per lane; a lane that has so many is passed over.
  /// Default 16; 1..8192. At 512 KiB this is 8 MiB per lane. Lower: a slow lane holds less back at
  /// the end of a put. Higher: longer paths stay full.
  std::uint32_t lane_depth = 16;

  /// Receives kept posted per lane; the peer never has more segments than these under way.
  /// Default 64; 1..8192. Raise it for small segments on long paths.
  std::uint32_t receive_depth = 64;

  /// Parts of gets, and atomics, under way per lane. Default 16; 0..128, lowered to what both
  /// devices allow a queue pair (max_qp_init_rd_atom here, max_qp_rd_atom at the peer). 0: no gets
  /// and no atomics, and no memory for them. Raise it for small gets on long paths.
  std::uint32_t read_depth = 16;

  /// Which lane carries what. Default adaptive. The others are there for comparison, and for peers'
  /// expectations of how much each queue pair carries. PutOptions::policy overrides it.
  SchedulerPolicy policy = SchedulerPolicy::kAdaptive;
  /// Puts up to so many bytes go whole to one lane, with adaptive. Default 64 KiB.
  std::uint32_t small_put_bytes = 64U << 10U;
  /// Time for which a lane has to stay below repath_ratio of the fastest lane's rate, while there
  /// is something to send, until it tries another source port, and so perhaps another path. Default
  /// 0: never. Where ECMP hashes collide, some 50 round trips are a good value. The port is a
  /// random one of 49152..65535, whatever source_ports says; when the lanes together gain nothing
  /// by it, the lane goes back, and tries ever more seldom. Needs 3 lanes; acts with policy
  /// adaptive.
  Duration repath_after = Duration(0);
  /// Default 0.7: of two lanes that share a path each has half the rate of one that has its own.
  double repath_ratio = 0.7;
  /// Bytes per lane below which static split uses fewer lanes. Default 512 KiB; 1 B..1 GiB.
  std::uint32_t static_threshold_bytes = 512U << 10U;
  /// Static split never gives a lane less than the threshold; default false, as HCOMM's formula.
  bool static_floor = false;

  /// Operations accepted and not yet polled as completed. Default 256; 1..65536. Memory: about
  /// 128 bytes each. Beyond, put() says kWouldBlock.
  std::uint32_t operation_capacity = 256;

  /// Notifications delivered and not yet polled. Default 256; 1..65536. Memory: 16 bytes each.
  /// When they are full the peer is slowed down; nothing is lost.
  std::uint32_t notification_capacity = 256;

  /// UDP source ports of the lanes: lane i asks for source_ports[i mod size]. Empty: the device
  /// chooses. A port is hash input for the network: distinct ports make distinct paths likely,
  /// not certain.
  std::vector<std::uint16_t> source_ports = {};

  /// Path MTU limit in bytes: 256, 512, 1024, 2048, 4096; 0 = the device's. The smaller of the two
  /// sides' values holds.
  std::uint32_t path_mtu_bytes = 0;

  /// Time without acknowledgement before packets are sent again: 4.096 us * 2^exponent.
  /// Default 16 (268 ms); 0..31, 0 = packets are never sent again. Lower finds a dead path sooner;
  /// it must stay above the round-trip time with full queues.
  std::uint8_t ack_timeout_exponent = 16;
  /// Times a packet is sent again before the lane fails. Default 6; 0..7. Some devices (rdma_rxe)
  /// take 7 for "without end": a dead peer is then noticed by segment_timeout only.
  std::uint8_t retry_count = 6;
  /// Times a receiver that is not ready is asked again. Default 6; 0..6. Credits keep this from
  /// being used in healthy running.
  std::uint8_t rnr_retry_count = 6;
  /// Receiver-not-ready delay that this side asks for. Default 12 (0.64 ms); 0..31, IBTA code.
  std::uint8_t min_rnr_timer = 12;

  /// IPv4 TOS or IPv6 traffic class; DSCP is the upper six bits. Default 0.
  std::uint8_t traffic_class = 0;
  /// Service level. Default 0; 0..7.
  std::uint8_t service_level = 0;
  /// IP TTL or hop limit. Default 64; 1..255.
  std::uint8_t hop_limit = 64;

  /// Silence after which the peer's device is probed. Default 1 s; 0 = never, then a peer that
  /// dies while this side only receives is not noticed. A dead peer is found after this plus
  /// about (retry_count + 1) ack timeouts.
  Duration keepalive_interval = std::chrono::seconds(1);
  /// Whether the channel lives on when a queue pair fails: what it carried goes over the others,
  /// and it is replaced. Default true. False: any failure of a queue pair fails the channel at
  /// once, for callers that have a recovery of their own.
  bool heal = true;
  /// Time without any completion after which a lane that has work is given up, when the peer
  /// answers elsewhere. Default 200 ms; 0 = never, then only the device's own limits count
  /// (ack_timeout_exponent, retry_count). A lane gets eight times its usual time between two
  /// completions when that is longer, and twice as long after each time in vain. Lower finds a dead
  /// path sooner, and takes stalls for death.
  Duration lane_timeout = std::chrono::milliseconds(200);
  /// Time that operations wait while nothing gets through at all. Default 30 s; > 0. The channel
  /// fails then, and every operation ends with the cause. Raise it to outlast longer outages.
  Duration recovery_timeout = std::chrono::seconds(30);

  /// Time that a segment may stay without completion, whatever the device's own timers say.
  /// Default 30 s; 0 = no limit. The channel fails with kTimeout then.
  Duration segment_timeout = std::chrono::seconds(30);
  /// Time that connecting may take once the peers' sockets are joined. Default 10 s; > 0.
  Duration connect_timeout = std::chrono::seconds(10);

  /// Regions told to the peer at connect; it finds them in Channel::remote_memories() in this
  /// order. Default none; at most 1024.
  std::vector<RemoteMemory> exports = {};
  /// 32-bit ids behind the notify indices 1, 2, ... of what the peer sends to this side. Default
  /// empty: ids 1..127, each equal to its index. At most 127; both sides must have equally many.
  std::vector<std::uint32_t> notify_ids = {};
};

}  // namespace braid
