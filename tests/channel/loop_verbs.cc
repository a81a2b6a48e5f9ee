#include "channel/loop_verbs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace braid::test {

struct LoopSend {
  ibv_send_wr wr{};
  ibv_sge sge{};
};

struct LoopReceive {
  std::uint64_t wr_id = 0;
  ibv_sge sge{};
  int num_sge = 0;
};

struct LoopQp : ibv_qp {
  Ring<LoopSend> sends;
  Ring<LoopReceive> receives;
  LoopQp* peer = nullptr;
  std::uint32_t peer_qpn = 0;
  bool held = false;
  bool loses_completions = false;
  std::uint16_t source_port = 0;
  std::uint32_t reads = 0;  // READs and atomics posted and not executed
};

struct LoopCq : ibv_cq {
  Ring<ibv_wc> completions;
};

struct LoopContext : ibv_context {
  LoopVerbs* api = nullptr;

  static int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
    return static_cast<LoopContext*>(qp->context)
        ->api->post_send(*static_cast<LoopQp*>(qp), wr, bad);
  }
  static int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
    return static_cast<LoopContext*>(qp->context)
        ->api->post_recv(*static_cast<LoopQp*>(qp), wr, bad);
  }
  static int poll_cq(ibv_cq* cq, int count, ibv_wc* out) {
    Ring<ibv_wc>& ring = static_cast<LoopCq*>(cq)->completions;
    int taken = 0;
    for (; taken < count && !ring.empty(); ring.pop()) out[taken++] = ring.front();
    return taken;
  }
};

namespace {
constexpr std::uint32_t kFirstQpn = 32;

bool is_fetch(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_READ || opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
         opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

ibv_wc_opcode completed_opcode(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_SEND: return IBV_WC_SEND;
    case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP: return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_WC_FETCH_ADD;
    default: return IBV_WC_RDMA_WRITE;
  }
}
}  // namespace

LoopVerbs::LoopVerbs() { std::strcpy(device_.name, "loop0"); }

LoopVerbs::~LoopVerbs() = default;

void LoopVerbs::push(ibv_cq* cq, const ibv_wc& completion) {
  if (!static_cast<LoopCq*>(cq)->completions.push(completion)) ++cq_overruns_;
}

int LoopVerbs::post_send(LoopQp& qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  ++doorbells_;
  if (refuse_silently_ > 0) {
    --refuse_silently_;
    return EIO;
  }
  const bool refuse = refuse_posts_ > 0;
  if (refuse) --refuse_posts_;
  for (bool first = true; wr != nullptr; wr = wr->next, first = false) {
    *bad = wr;
    if (qp.state == IBV_QPS_ERR) {
      ibv_wc flushed{};
      flushed.wr_id = wr->wr_id;
      flushed.status = IBV_WC_WR_FLUSH_ERR;
      push(qp.send_cq, flushed);
      continue;
    }
    if (qp.state != IBV_QPS_RTS || wr->num_sge > 1) return EINVAL;
    // To hardware a length of 0 in an SGE is 2^31 bytes.
    if (wr->num_sge == 1 && wr->sg_list->length == 0) return EINVAL;
    if (refuse && !first) return ENOMEM;
    LoopSend send{*wr, wr->num_sge > 0 ? *wr->sg_list : ibv_sge{}};
    if (!qp.sends.push(send)) return ENOMEM;
    if (is_fetch(wr->opcode)) reads_high_water_ = std::max(reads_high_water_, ++qp.reads);
  }
  *bad = nullptr;
  return 0;
}

int LoopVerbs::post_recv(LoopQp& qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  for (; wr != nullptr; wr = wr->next) {
    *bad = wr;
    if (qp.state == IBV_QPS_RESET) return EINVAL;
    if (!qp.receives.push({wr->wr_id, wr->num_sge > 0 ? *wr->sg_list : ibv_sge{}, wr->num_sge})) {
      return ENOMEM;
    }
  }
  *bad = nullptr;
  return 0;
}

void LoopVerbs::flush(LoopQp& qp, ibv_wc_status first) {
  qp.state = IBV_QPS_ERR;
  ibv_wc wc{};
  wc.qp_num = qp.qp_num;
  wc.status = first;
  for (; !qp.sends.empty(); qp.sends.pop()) {
    wc.wr_id = qp.sends.front().wr.wr_id;
    push(qp.send_cq, wc);
    wc.status = IBV_WC_WR_FLUSH_ERR;
  }
  wc.status = IBV_WC_WR_FLUSH_ERR;
  for (; !qp.receives.empty(); qp.receives.pop()) {
    wc.wr_id = qp.receives.front().wr_id;
    push(qp.recv_cq, wc);
  }
}

std::byte* LoopVerbs::remote(std::uint32_t rkey, std::uint64_t address, std::uint64_t bytes,
                             int access) {
  const auto region = regions_.find(rkey);
  if (region == regions_.end() || (region_access_[rkey] & access) == 0) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(region->second->addr);
  const std::uint64_t length = region->second->length;
  if (address < begin || bytes > length || address - begin > length - bytes) return nullptr;
  return reinterpret_cast<std::byte*>(address);
}

ibv_wc_status LoopVerbs::execute_one_sided(const LoopSend& send, std::uint32_t bytes) {
  auto* local = reinterpret_cast<std::byte*>(send.sge.addr);
  if (send.wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
      send.wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
    const auto& atomic = send.wr.wr.atomic;
    std::byte* target = remote(atomic.rkey, atomic.remote_addr, 8, IBV_ACCESS_REMOTE_ATOMIC);
    if (target == nullptr || bytes != 8) return IBV_WC_REM_ACCESS_ERR;
    std::uint64_t before = 0;
    std::memcpy(&before, target, 8);
    std::uint64_t after = before + atomic.compare_add;
    if (send.wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
      after = before == atomic.compare_add ? atomic.swap : before;
    }
    std::memcpy(target, &after, 8);
    std::memcpy(local, &before, 8);
    return IBV_WC_SUCCESS;
  }
  if (bytes == 0) return IBV_WC_SUCCESS;
  const bool read = send.wr.opcode == IBV_WR_RDMA_READ;
  std::byte* there = remote(send.wr.wr.rdma.rkey, send.wr.wr.rdma.remote_addr, bytes,
                            read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE);
  if (there == nullptr) return IBV_WC_REM_ACCESS_ERR;
  std::memcpy(read ? local : there, read ? there : local, bytes);
  return IBV_WC_SUCCESS;
}

void LoopVerbs::execute(LoopQp& qp) {
  const LoopSend& send = qp.sends.front();
  LoopQp* peer = qp.peer;
  const bool deaf = peer == nullptr || peer->state == IBV_QPS_ERR || peer->state == IBV_QPS_INIT ||
                    peer->peer != &qp;
  if (deaf || unplugged_) return flush(qp, IBV_WC_RETRY_EXC_ERR);
  const std::uint32_t bytes = send.wr.num_sge > 0 ? send.sge.length : 0;
  const bool is_write = send.wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
  if (send.wr.opcode != IBV_WR_SEND) {
    const ibv_wc_status status = execute_one_sided(send, bytes);
    if (status != IBV_WC_SUCCESS) {
      flush(qp, status);
      return flush(*peer, IBV_WC_WR_FLUSH_ERR);
    }
  }
  if (is_write || send.wr.opcode == IBV_WR_SEND) {
    if (peer->receives.empty()) {
      ++rnr_count_;
      return flush(qp, IBV_WC_RNR_RETRY_EXC_ERR);
    }
    const LoopReceive receive = peer->receives.front();
    peer->receives.pop();
    ibv_wc wc{};
    wc.wr_id = receive.wr_id;
    wc.qp_num = peer->qp_num;
    wc.byte_len = bytes;
    wc.opcode = is_write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    wc.imm_data = send.wr.imm_data;
    wc.wc_flags = is_write ? static_cast<unsigned>(IBV_WC_WITH_IMM) : 0U;
    if (!is_write && bytes > 0) {
      std::memcpy(reinterpret_cast<void*>(receive.sge.addr), reinterpret_cast<void*>(send.sge.addr),
                  bytes);
    }
    push(peer->recv_cq, wc);
  }
  ibv_wc wc{};
  wc.wr_id = send.wr.wr_id;
  wc.qp_num = qp.qp_num;
  wc.opcode = completed_opcode(send.wr.opcode);
  if (is_fetch(send.wr.opcode)) --qp.reads;
  if (!qp.loses_completions) push(qp.send_cq, wc);
  qp.sends.pop();
}

bool LoopVerbs::deliver_one(Random& random) {
  const std::size_t start = qps_.empty() ? 0 : random.below(qps_.size());
  for (std::size_t i = 0; i < qps_.size(); ++i) {
    LoopQp* qp = qps_[(start + i) % qps_.size()];
    if (qp == nullptr || qp->held || qp->sends.empty()) continue;
    execute(*qp);
    return true;
  }
  return false;
}

std::size_t LoopVerbs::deliver_all() {
  std::size_t count = 0;
  for (LoopQp* qp : qps_) {
    for (; qp != nullptr && !qp->held && !qp->sends.empty(); ++count) execute(*qp);
  }
  return count;
}

void LoopVerbs::hold(std::uint32_t qpn, bool held) { qps_.at(qpn - kFirstQpn)->held = held; }

std::uint32_t LoopVerbs::random_qpn(Random& random) const {
  const std::size_t start = qps_.empty() ? 0 : random.below(qps_.size());
  for (std::size_t i = 0; i < qps_.size(); ++i) {
    const LoopQp* qp = qps_[(start + i) % qps_.size()];
    if (qp != nullptr && qp->state == IBV_QPS_RTS) return qp->qp_num;
  }
  return 0;
}

void LoopVerbs::lose_completions(std::uint32_t qpn) {
  qps_.at(qpn - kFirstQpn)->loses_completions = true;
}

void LoopVerbs::break_qp(std::uint32_t qpn, ibv_wc_status status) {
  LoopQp* qp = qps_.at(qpn - kFirstQpn);
  if (qp != nullptr) flush(*qp, status);  // else it was replaced meanwhile
}

ibv_device** LoopVerbs::get_device_list(int* count) {
  *count = 1;
  return new ibv_device* [2] { &device_, nullptr };
}
void LoopVerbs::free_device_list(ibv_device** list) { delete[] list; }
const char* LoopVerbs::get_device_name(ibv_device* device) { return device->name; }

ibv_context* LoopVerbs::open_device(ibv_device* device) {
  auto* context = new LoopContext{};
  context->device = device;
  context->api = this;
  context->ops.post_send = LoopContext::post_send;
  context->ops.post_recv = LoopContext::post_recv;
  context->ops.poll_cq = LoopContext::poll_cq;
  ++live_;
  return context;
}
int LoopVerbs::close_device(ibv_context* context) {
  delete static_cast<LoopContext*>(context);
  --live_;
  return 0;
}
int LoopVerbs::query_device(ibv_context*, ibv_device_attr* attr) {
  *attr = {};
  attr->max_qp_wr = 4096;
  attr->max_cqe = max_cqe;
  attr->max_qp_rd_atom = attr->max_qp_init_rd_atom = max_rd_atomic;
  attr->atomic_cap = atomic_cap;
  return 0;
}
int LoopVerbs::query_port(ibv_context*, std::uint8_t, ibv_port_attr* attr) {
  *attr = {};
  attr->state = IBV_PORT_ACTIVE;
  attr->active_mtu = attr->max_mtu = IBV_MTU_4096;
  attr->gid_tbl_len = 1;
  attr->max_msg_sz = max_msg_bytes;
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}
int LoopVerbs::query_gid(ibv_context*, std::uint8_t, int, ibv_gid* gid) {
  *gid = {};
  gid->raw[10] = gid->raw[11] = 0xFF;
  gid->raw[12] = 10;
  gid->raw[15] = 1;
  return 0;
}
int LoopVerbs::query_gid_ex(ibv_context* context, std::uint32_t, std::uint32_t index,
                            ibv_gid_entry* entry) {
  if (index != 0) return EINVAL;
  *entry = {};
  entry->gid_type = IBV_GID_TYPE_ROCE_V2;
  entry->port_num = 1;
  return query_gid(context, 1, 0, &entry->gid);
}
int LoopVerbs::query_pkey(ibv_context*, std::uint8_t, int, __be16* pkey) {
  *pkey = 0xFFFF;
  return 0;
}
ibv_pd* LoopVerbs::alloc_pd(ibv_context* context) {
  ++live_;
  return new ibv_pd{context, 0};
}
int LoopVerbs::dealloc_pd(ibv_pd* pd) {
  delete pd;
  --live_;
  return 0;
}
ibv_mr* LoopVerbs::reg_mr_iova(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t,
                               int access) {
  auto* mr = new ibv_mr{};
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = bytes;
  mr->lkey = mr->rkey = next_key_++;
  regions_[mr->rkey] = mr;
  region_access_[mr->rkey] = access;
  ++live_;
  return mr;
}
ibv_mr* LoopVerbs::reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
  errno = EOPNOTSUPP;
  return nullptr;
}
int LoopVerbs::dereg_mr(ibv_mr* mr) {
  regions_.erase(mr->rkey);
  delete mr;
  --live_;
  return 0;
}
ibv_cq* LoopVerbs::create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel*,
                             int) {
  if (cqe > max_cqe) {
    errno = EINVAL;
    return nullptr;
  }
  auto* cq = new LoopCq{};
  cq->context = context;
  cq->cq_context = cq_context;
  cq->completions = Ring<ibv_wc>(static_cast<std::size_t>(cqe));
  ++live_;
  return cq;
}
int LoopVerbs::destroy_cq(ibv_cq* cq) {
  delete static_cast<LoopCq*>(cq);
  --live_;
  return 0;
}
ibv_qp* LoopVerbs::create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  if (refuse_qps_ > 0) {
    --refuse_qps_;
    errno = ENOMEM;
    return nullptr;
  }
  auto* qp = new LoopQp{};
  qp->context = pd->context;
  qp->pd = pd;
  qp->send_cq = attr->send_cq;
  qp->recv_cq = attr->recv_cq;
  qp->qp_num = kFirstQpn + static_cast<std::uint32_t>(qps_.size());
  qp->sends = Ring<LoopSend>(attr->cap.max_send_wr);
  qp->receives = Ring<LoopReceive>(attr->cap.max_recv_wr);
  qps_.push_back(qp);
  ++live_;
  return qp;
}
int LoopVerbs::modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  auto& own = *static_cast<LoopQp*>(qp);
  if ((mask & IBV_QP_DEST_QPN) != 0) own.peer_qpn = attr->dest_qp_num;
  if ((mask & IBV_QP_STATE) == 0) return 0;
  if (attr->qp_state == IBV_QPS_ERR) {
    if (own.state != IBV_QPS_ERR) flush(own, IBV_WC_WR_FLUSH_ERR);
    return 0;
  }
  own.state = attr->qp_state;
  note_bring_up(own, *attr);
  if (own.state == IBV_QPS_RTR) {
    // A peer that is not there, or not any more, is found out by sending to it.
    const std::size_t index = own.peer_qpn - kFirstQpn;
    own.peer = index < qps_.size() ? qps_[index] : nullptr;
  }
  return 0;
}
void LoopVerbs::note_bring_up(const LoopQp& qp, const ibv_qp_attr& attr) {
  if (attr.qp_state == IBV_QPS_RTR) {
    bring_ups_.push_back(
        {.qpn = qp.qp_num, .receives = qp.receives.size(), .address = attr.ah_attr});
  }
  if (attr.qp_state != IBV_QPS_RTS) return;
  for (QpBringUp& each : bring_ups_) {
    if (each.qpn != qp.qp_num) continue;
    each.timeout = attr.timeout;
    each.retry_count = attr.retry_cnt;
    each.rnr_retry = attr.rnr_retry;
  }
}
int LoopVerbs::destroy_qp(ibv_qp* qp) {
  qps_[qp->qp_num - kFirstQpn] = nullptr;
  for (LoopQp* other : qps_) {
    if (other != nullptr && other->peer == qp) other->peer = nullptr;
  }
  delete static_cast<LoopQp*>(qp);
  --live_;
  return 0;
}
int LoopVerbs::modify_qp_udp_sport(ibv_qp* qp, std::uint16_t port) {
  if (!offer_source_ports) return EOPNOTSUPP;
  if (port < 1024) return EACCES;
  static_cast<LoopQp*>(qp)->source_port = port;
  return 0;
}
int LoopVerbs::query_qp_udp_sport(ibv_qp* qp, std::uint16_t* port) {
  *port = static_cast<LoopQp*>(qp)->source_port;
  return 0;
}

}  // namespace braid::test
