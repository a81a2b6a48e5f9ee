#include "verbs/rc_setup.h"

#include <algorithm>
#include <cerrno>

namespace braid::verbs {
namespace {

constexpr std::uint32_t kMask24 = 0xFFFFFF;
constexpr std::uint16_t kFirstFlowLabelPort = 0xC000;
constexpr std::uint32_t kFlowLabelLowBits = 0x3FFF;
// Bit 14 and bit 0 cancel in the fold, so this label is not zero and still means 0xC000.
constexpr std::uint32_t kFlowLabelOfFirstPort = 0x4001;

Status modify(VerbsApi& api, ibv_qp* qp, ibv_qp_attr& attr, int mask) noexcept {
  const int error = api.modify_qp(qp, &attr, mask);
  if (error == 0) return Status();
  const StatusCode code = error == EINVAL   ? StatusCode::kInvalidArgument
                          : error == ENOMEM ? StatusCode::kOutOfMemory
                                            : StatusCode::kInternal;
  return Status::from_verbs(code, error);
}

bool options_in_range(const RcOptions& options) noexcept {
  return options.port >= 1 && options.service_level <= 15 && options.timeout <= 31 &&
         options.retry_count <= 7 && options.rnr_retry <= 7 && options.min_rnr_timer <= 31;
}

bool endpoint_in_range(const QpEndpoint& endpoint) noexcept {
  return endpoint.qpn <= kMask24 && endpoint.psn <= kMask24 && mtu_bytes(endpoint.mtu) != 0;
}

}  // namespace

std::optional<std::uint32_t> flow_label_for_port(std::uint16_t port) noexcept {
  if (port < kFirstFlowLabelPort) return std::nullopt;
  const std::uint32_t label = port & kFlowLabelLowBits;
  return label != 0 ? label : kFlowLabelOfFirstPort;
}

std::uint32_t mtu_bytes(ibv_mtu mtu) noexcept {
  const int code = static_cast<int>(mtu);
  if (code < IBV_MTU_256 || code > IBV_MTU_4096) return 0;
  return 128U << static_cast<unsigned>(code);
}

ibv_mtu negotiate_mtu(const QpEndpoint& local, const QpEndpoint& remote) noexcept {
  return std::min(local.mtu, remote.mtu);
}

std::uint8_t negotiate_rd_atomic(const RcOptions& options, const QpEndpoint& remote) noexcept {
  return std::min(options.max_rd_atomic, remote.rd_atomic);
}

Status to_init(VerbsApi& api, ibv_qp* qp, const RcOptions& options) noexcept {
  if (!options_in_range(options)) return Status(StatusCode::kInvalidArgument);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.pkey_index = options.pkey_index;
  attr.port_num = options.port;
  attr.qp_access_flags = static_cast<unsigned>(options.access);
  return modify(api, qp, attr,
                IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

Status to_rtr(VerbsApi& api, ibv_qp* qp, const RcOptions& options, const QpEndpoint& local,
              const QpEndpoint& remote) noexcept {
  if (!options_in_range(options) || !endpoint_in_range(local) || !endpoint_in_range(remote)) {
    return Status(StatusCode::kInvalidArgument);
  }
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.path_mtu = negotiate_mtu(local, remote);
  attr.dest_qp_num = remote.qpn;
  attr.rq_psn = remote.psn;
  attr.max_dest_rd_atomic = local.rd_atomic;
  attr.min_rnr_timer = options.min_rnr_timer;
  attr.ah_attr.port_num = options.port;
  attr.ah_attr.sl = options.service_level;
  attr.ah_attr.dlid = remote.lid;
  if (options.global_route) {
    attr.ah_attr.is_global = 1;
    attr.ah_attr.grh.dgid = remote.gid;
    attr.ah_attr.grh.sgid_index = options.gid_index;
    attr.ah_attr.grh.hop_limit = options.hop_limit;
    attr.ah_attr.grh.traffic_class = options.traffic_class;
    attr.ah_attr.grh.flow_label = flow_label_for_port(options.source_port).value_or(0);
  }
  return modify(api, qp, attr,
                IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                    IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

Status to_rts(VerbsApi& api, ibv_qp* qp, const RcOptions& options, const QpEndpoint& local,
              const QpEndpoint& remote) noexcept {
  if (!options_in_range(options) || !endpoint_in_range(local)) {
    return Status(StatusCode::kInvalidArgument);
  }
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTS;
  attr.timeout = options.timeout;
  attr.retry_cnt = options.retry_count;
  attr.rnr_retry = options.rnr_retry;
  attr.sq_psn = local.psn;
  attr.max_rd_atomic = negotiate_rd_atomic(options, remote);
  return modify(api, qp, attr,
                IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                    IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

Status connect_rc(VerbsApi& api, ibv_qp* qp, const RcOptions& options, const QpEndpoint& local,
                  const QpEndpoint& remote) noexcept {
  Status status = to_init(api, qp, options);
  if (status.ok()) status = to_rtr(api, qp, options, local, remote);
  if (status.ok()) status = to_rts(api, qp, options, local, remote);
  return status;
}

Status to_error(VerbsApi& api, ibv_qp* qp) noexcept {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  return modify(api, qp, attr, IBV_QP_STATE);
}

Status to_reset(VerbsApi& api, ibv_qp* qp) noexcept {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  return modify(api, qp, attr, IBV_QP_STATE);
}

Result<SourcePortReport> request_source_port(VerbsApi& api, ibv_qp* qp,
                                             const RcOptions& options) noexcept {
  SourcePortReport report;
  report.requested = options.source_port;
  if (options.source_port != 0) {
    const int error = api.modify_qp_udp_sport(qp, options.source_port);
    if (error == 0) {
      report.means = SourcePortMeans::kModify;
    } else if (error != EOPNOTSUPP) {
      const bool refused = error == EADDRINUSE || error == EACCES || error == EPERM;
      return Status::from_verbs(refused ? StatusCode::kPermission : StatusCode::kInternal, error);
    } else if (options.global_route && flow_label_for_port(options.source_port).has_value()) {
      report.means = SourcePortMeans::kFlowLabel;
    }
  }
  std::uint16_t effective = 0;
  if (api.query_qp_udp_sport(qp, &effective) == 0) report.verified = effective;
  return report;
}

}  // namespace braid::verbs
