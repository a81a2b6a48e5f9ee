#include <cerrno>
#include <cstring>
#include <string>

#include "softverbs/qp_transitions.h"
#include "softverbs/soft_context.h"

namespace braid::softverbs {
namespace {

constexpr std::uint32_t kPsnMask = 0xFFFFFF;
// RoCEv2 source ports that libibverbs derives lie in 0xC000..0xFFFF.
constexpr std::uint32_t kPortRange = 0x4000;
constexpr std::uint8_t kDefaultHopLimit = 64;

/// As ibv_flow_label_to_udp_sport(): the label's 20 bits folded into the port's 14.
std::uint16_t port_of_label(std::uint32_t label) noexcept {
  return static_cast<std::uint16_t>(((label & (kPortRange - 1)) ^ (label >> 14 & 0x3F)) | 0xC000);
}

/// The label that a kernel driver derives from the QPNs when the application gives none.
std::uint32_t derived_label(std::uint32_t local_qpn, std::uint32_t remote_qpn) noexcept {
  std::uint64_t product = std::uint64_t{local_qpn} * remote_qpn;
  product ^= product >> 20;
  product ^= product >> 40;
  return static_cast<std::uint32_t>(product & 0xFFFFF);
}

bool in_range(const ibv_qp_attr& attr, int mask, std::uint32_t max_mtu_bytes) noexcept {
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  if (has(IBV_QP_PORT) && attr.port_num != SoftLimits::kPorts) return false;
  if (has(IBV_QP_PKEY_INDEX) && attr.pkey_index != 0) return false;
  if (has(IBV_QP_PATH_MTU)) {
    if (attr.path_mtu < IBV_MTU_256 || attr.path_mtu > IBV_MTU_4096) return false;
    if ((128U << static_cast<unsigned>(attr.path_mtu)) > max_mtu_bytes) return false;
  }
  if (has(IBV_QP_DEST_QPN) && attr.dest_qp_num > kPsnMask) return false;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC) && attr.max_dest_rd_atomic > SoftLimits::kMaxRdAtomic) {
    return false;
  }
  if (has(IBV_QP_MAX_QP_RD_ATOMIC) && attr.max_rd_atomic > SoftLimits::kMaxRdAtomic) return false;
  if (has(IBV_QP_MIN_RNR_TIMER) && attr.min_rnr_timer > 31) return false;
  if (has(IBV_QP_TIMEOUT) && attr.timeout > 31) return false;
  if (has(IBV_QP_RETRY_CNT) && attr.retry_cnt > 7) return false;
  return !has(IBV_QP_RNR_RETRY) || attr.rnr_retry <= 7;
}

void remember(ibv_qp_attr& out, const ibv_qp_attr& in, int mask) noexcept {
  const auto has = [mask](int bit) { return (mask & bit) != 0; };
  if (has(IBV_QP_ACCESS_FLAGS)) out.qp_access_flags = in.qp_access_flags;
  if (has(IBV_QP_PKEY_INDEX)) out.pkey_index = in.pkey_index;
  if (has(IBV_QP_PORT)) out.port_num = in.port_num;
  if (has(IBV_QP_AV)) out.ah_attr = in.ah_attr;
  if (has(IBV_QP_PATH_MTU)) out.path_mtu = in.path_mtu;
  if (has(IBV_QP_TIMEOUT)) out.timeout = in.timeout;
  if (has(IBV_QP_RETRY_CNT)) out.retry_cnt = in.retry_cnt;
  if (has(IBV_QP_RNR_RETRY)) out.rnr_retry = in.rnr_retry;
  if (has(IBV_QP_MAX_QP_RD_ATOMIC)) out.max_rd_atomic = in.max_rd_atomic;
  if (has(IBV_QP_MAX_DEST_RD_ATOMIC)) out.max_dest_rd_atomic = in.max_dest_rd_atomic;
  if (has(IBV_QP_MIN_RNR_TIMER)) out.min_rnr_timer = in.min_rnr_timer;
  if (has(IBV_QP_DEST_QPN)) out.dest_qp_num = in.dest_qp_num;
  if (has(IBV_QP_EN_SQD_ASYNC_NOTIFY)) out.en_sqd_async_notify = in.en_sqd_async_notify;
}

}  // namespace

int SoftContext::check_modify(const ibv_qp_attr& attr, int mask, ibv_qp_state from,
                              ibv_qp_state to) const noexcept {
  if ((mask & IBV_QP_CUR_STATE) != 0 && attr.cur_qp_state != from) return EINVAL;
  const QpTransition* transition = find_transition(from, to);
  if (transition == nullptr || !allows(*transition, mask)) return EINVAL;
  return in_range(attr, mask, driver_->max_mtu_bytes()) ? 0 : EINVAL;
}

int SoftContext::resolve_flow(const SoftQp& qp, const ibv_qp_attr& attr, int mask,
                              roce::FlowAddress& flow) const noexcept {
  const ibv_ah_attr& ah = attr.ah_attr;
  const auto addresses = driver_->addresses();
  // RoCE has no addressing without the global route header.
  if (ah.is_global == 0 || ah.grh.sgid_index >= addresses.size()) return EINVAL;
  if ((mask & IBV_QP_PORT) == 0 && ah.port_num != SoftLimits::kPorts) return EINVAL;
  flow.source = addresses[ah.grh.sgid_index];
  std::memcpy(flow.destination.bytes.data(), ah.grh.dgid.raw, sizeof ah.grh.dgid.raw);
  if (flow.source.is_v4() != flow.destination.is_v4()) return ENETUNREACH;
  flow.traffic_class = ah.grh.traffic_class;
  flow.hop_limit = ah.grh.hop_limit != 0 ? ah.grh.hop_limit : kDefaultHopLimit;
  const std::uint32_t remote =
      (mask & IBV_QP_DEST_QPN) != 0 ? attr.dest_qp_num : qp.attr.dest_qp_num;
  const std::uint32_t label = ah.grh.flow_label & 0xFFFFF;
  flow.source_port = port_of_label(label != 0 ? label : derived_label(qp.qp_base.qp_num, remote));
  return 0;
}

int SoftContext::open_flow_port(SoftQp& qp, roce::FlowAddress& flow, bool requested) noexcept {
  // A derived port only has to spread flows: another one will do when it is taken, and the port
  // that the device receives on, which is always open, when descriptors have run out.
  const std::uint32_t attempts = requested ? 1 : 64;
  Status status;
  for (std::uint32_t i = 0; i <= attempts; ++i) {
    status = driver_->open_source_port(flow.source, flow.source_port);
    if (status.ok()) {
      close_flow_port(qp);
      qp.open_port = flow.source_port;
      return 0;
    }
    if (requested) break;
    const bool exhausted = status.detail() == EMFILE || status.detail() == ENFILE;
    flow.source_port =
        exhausted || i + 1 == attempts
            ? roce::kRoceUdpPort
            : static_cast<std::uint16_t>(((flow.source_port + 1U) & (kPortRange - 1)) | 0xC000);
  }
  if (sink_) {
    sink_("QP " + std::to_string(qp.qp_base.qp_num) + " cannot send from UDP source port " +
          std::to_string(flow.source_port) + ": " + std::strerror(status.detail()) +
          "; ask for another port");
  }
  return status.detail() != 0 ? status.detail() : EADDRNOTAVAIL;
}

void SoftContext::close_flow_port(SoftQp& qp) noexcept {
  if (qp.open_port == 0) return;
  driver_->close_source_port(roce::flow_of(*qp.engine_qp).source, qp.open_port);
  qp.open_port = 0;
}

int SoftContext::modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) noexcept {
  SoftQp& own = *soft(qp);
  const std::lock_guard lock(driver_->mutex());
  const ibv_qp_state from = roce::state_of(*own.engine_qp);
  const ibv_qp_state to = (mask & IBV_QP_STATE) != 0 ? attr->qp_state : from;
  if (const int error = check_modify(*attr, mask, from, to); error != 0) return error;
  roce::FlowAddress flow;
  if ((mask & IBV_QP_AV) != 0) {
    if (const int error = resolve_flow(own, *attr, mask, flow); error != 0) return error;
    const bool requested = (attr->ah_attr.grh.flow_label & 0xFFFFF) != 0;
    if (const int error = open_flow_port(own, flow, requested); error != 0) return error;
  }
  if (to == IBV_QPS_RESET || to == IBV_QPS_ERR) driver_->flush();
  if (to == IBV_QPS_RESET) close_flow_port(own);
  const int error = driver_->engine().modify_qp(*own.engine_qp, *attr, mask, flow);
  if (error != 0) return error;
  remember(own.attr, *attr, mask);
  if (to == IBV_QPS_RESET) own.attr = ibv_qp_attr{};
  qp->state = roce::state_of(*own.engine_qp);
  driver_->after_post();
  return 0;
}

int SoftContext::modify_source_port(ibv_qp* qp, std::uint16_t port) noexcept {
  SoftQp& own = *soft(qp);
  const std::lock_guard lock(driver_->mutex());
  const ibv_qp_state state = roce::state_of(*own.engine_qp);
  if (port == 0 || (state != IBV_QPS_RTR && state != IBV_QPS_RTS)) return EINVAL;
  roce::FlowAddress flow = roce::flow_of(*own.engine_qp);
  flow.source_port = port;
  if (const int error = open_flow_port(own, flow, true); error != 0) return error;
  driver_->engine().set_source_port(*own.engine_qp, port);
  return 0;
}

int SoftContext::query_source_port(ibv_qp* qp, std::uint16_t* port) noexcept {
  const SoftQp& own = *soft(qp);
  const std::lock_guard lock(driver_->mutex());
  if (own.open_port == 0) return EINVAL;
  *port = own.open_port;
  return 0;
}

}  // namespace braid::softverbs
