#pragma once

#include <braid/result.h>

#include <cstdint>
#include <optional>

#include "verbs/verbs_api.h"

namespace braid::verbs {

/// What one side tells the other about a QP before the two are connected.
struct QpEndpoint {
  std::uint32_t qpn = 0;       // 24 bits
  std::uint32_t psn = 0;       // 24 bits; first PSN that this side sends
  ibv_gid gid{};               // of the GID index that this side uses
  std::uint16_t lid = 0;       // InfiniBand only; 0 on RoCE
  ibv_mtu mtu = IBV_MTU_1024;  // largest path MTU that this side carries
  std::uint8_t rd_atomic = 1;  // incoming READs and atomics that this side answers at once
};

/// How a reliable connection is brought up. One instance serves every QP of a channel.
struct RcOptions {
  std::uint8_t port = 1;       // device port, from 1
  std::uint8_t gid_index = 0;  // from choose_gid()
  std::uint16_t pkey_index = 0;
  /// What the peer may do (ibv_access_flags). Default: everything; regions restrict it further.
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
               IBV_ACCESS_REMOTE_ATOMIC;
  /// Address by GRH. RoCE always needs it; turn it off for LID-routed InfiniBand only.
  bool global_route = true;
  std::uint8_t hop_limit = 64;
  std::uint8_t traffic_class = 0;  // DSCP << 2
  std::uint8_t service_level = 0;  // 0..7
  /// UDP source port to ask for; 0 = the device chooses. At RTR it becomes the flow label when it
  /// is 0xC000..0xFFFF; request_source_port() asks again in RTS by the device's own call.
  std::uint16_t source_port = 0;
  /// Wait for an acknowledgement, 4.096 us * 2^n; 0 = for ever. Default 14 = 67 ms: some way above
  /// a loaded fabric's round trip. Raise it across sites, lower it to notice dead peers sooner.
  std::uint8_t timeout = 14;
  /// Retries after such a wait, 0..7. Default 6: rdma_rxe takes 7 to mean without end.
  std::uint8_t retry_count = 6;
  /// Retries when the peer has no receive posted, 0..7; 7 = without end. Default 6: finite, so
  /// that a peer that never posts is noticed.
  std::uint8_t rnr_retry = 6;
  /// What this side asks of a sender that it has no receive for: code of requirements' table,
  /// 12 = 0.64 ms.
  std::uint8_t min_rnr_timer = 12;
  /// READs and atomics that this side may have outstanding; the peer's rd_atomic lowers it.
  std::uint8_t max_rd_atomic = 16;
};

/// Names the flow label that makes a device send from UDP source port `port`
/// (ibv_flow_label_to_udp_sport is its inverse).
///
/// Shape: 20 bits. Empty below 0xC000: the mapping cannot express those. Label 0 means "unset" to
/// drivers, so 0xC000 is reached by 0x4001.
[[nodiscard]] std::optional<std::uint32_t> flow_label_for_port(std::uint16_t port) noexcept;

/// The smaller of the two sides' path MTUs.
[[nodiscard]] ibv_mtu negotiate_mtu(const QpEndpoint& local, const QpEndpoint& remote) noexcept;

/// Bytes of a path MTU code; 0 for a value that is none.
[[nodiscard]] std::uint32_t mtu_bytes(ibv_mtu mtu) noexcept;

/// READs and atomics that `local` may have outstanding towards `remote`.
[[nodiscard]] std::uint8_t negotiate_rd_atomic(const RcOptions& options,
                                               const QpEndpoint& remote) noexcept;

// Moves an RC QP from RESET to INIT, INIT to RTR, RTR to RTS. Both sides must call with each
// other's endpoint before either sends.
// Errors: kInvalidArgument for endpoints and options out of range; otherwise kInternal with the
// errno of modify_qp. The QP keeps its state on error.
Status to_init(VerbsApi& api, ibv_qp* qp, const RcOptions& options) noexcept;
Status to_rtr(VerbsApi& api, ibv_qp* qp, const RcOptions& options, const QpEndpoint& local,
              const QpEndpoint& remote) noexcept;
Status to_rts(VerbsApi& api, ibv_qp* qp, const RcOptions& options, const QpEndpoint& local,
              const QpEndpoint& remote) noexcept;
/// All three.
Status connect_rc(VerbsApi& api, ibv_qp* qp, const RcOptions& options, const QpEndpoint& local,
                  const QpEndpoint& remote) noexcept;
/// Moves a QP to ERR from any state: every posted WR completes with IBV_WC_WR_FLUSH_ERR.
Status to_error(VerbsApi& api, ibv_qp* qp) noexcept;
/// Moves a QP to RESET from any state: everything posted is forgotten.
Status to_reset(VerbsApi& api, ibv_qp* qp) noexcept;

/// How a source port was asked for.
enum class SourcePortMeans : std::uint8_t {
  kNone,       // nothing was asked for, or the device offers no means for this port
  kFlowLabel,  // by the address handle at RTR
  kModify,     // by the device's own call in RTS
};

/// What became of a requested source port. It is only hash input: it promises no path.
struct SourcePortReport {
  std::uint16_t requested = 0;  // 0 = none
  SourcePortMeans means = SourcePortMeans::kNone;
  std::uint16_t verified = 0;  // what the device says it uses; 0 = it does not say
};

/// Asks for options.source_port on a QP in RTS, and reads back what the device uses.
///
/// A device without the call is no error: the report then says what the flow label could do.
/// Errors: kPermission when the port is taken or forbidden (EADDRINUSE, EACCES, EPERM), otherwise
/// kInternal, with the errno.
Result<SourcePortReport> request_source_port(VerbsApi& api, ibv_qp* qp,
                                             const RcOptions& options) noexcept;

}  // namespace braid::verbs
