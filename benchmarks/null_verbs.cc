#include "null_verbs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/ring.h"

namespace braid::bench {
namespace {

constexpr std::uint32_t kFirstQpn = 32;
constexpr int kMaxQueue = 1 << 16;

struct NullCompletion {
  std::uint64_t wr_id = 0;
  std::uint32_t qpn = 0;
  std::uint32_t bytes = 0;
  __be32 imm = 0;
  ibv_wc_opcode opcode = IBV_WC_SEND;
};

struct NullReceive {
  std::uint64_t wr_id = 0;
  std::uint64_t address = 0;
};

struct NullCq : ibv_cq {
  Ring<NullCompletion> completions;
};

int not_offered() {
  errno = ENOSYS;
  return ENOSYS;
}

template <typename T>
T* none_offered() {
  errno = ENOSYS;
  return nullptr;
}

}  // namespace

struct NullQp : ibv_qp {
  Ring<NullReceive> receives;
  NullQp* peer = nullptr;
  std::uint32_t peer_qpn = 0;
};

struct NullContext : ibv_context {
  NullVerbs* api = nullptr;

  static int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
    return static_cast<NullContext*>(qp->context)
        ->api->post_send(*static_cast<NullQp*>(qp), wr, bad);
  }
  static int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
    Ring<NullReceive>& receives = static_cast<NullQp*>(qp)->receives;
    for (; wr != nullptr; wr = wr->next) {
      if (receives.push({wr->wr_id, wr->num_sge > 0 ? wr->sg_list->addr : 0})) continue;
      *bad = wr;
      return ENOMEM;
    }
    return 0;
  }
  static int poll_cq(ibv_cq* cq, int count, ibv_wc* out) {
    Ring<NullCompletion>& ring = static_cast<NullCq*>(cq)->completions;
    int taken = 0;
    for (; taken < count && !ring.empty(); ring.pop(), ++taken) {
      const NullCompletion& completion = ring.front();
      ibv_wc& wc = out[taken];
      wc.wr_id = completion.wr_id;
      wc.status = IBV_WC_SUCCESS;
      wc.opcode = completion.opcode;
      wc.qp_num = completion.qpn;
      wc.byte_len = completion.bytes;
      wc.imm_data = completion.imm;
      wc.wc_flags = 0;
    }
    return taken;
  }
};

NullVerbs::NullVerbs() { std::strcpy(device_.name, "null0"); }
NullVerbs::~NullVerbs() = default;

bool NullVerbs::deliver(const NullQp& from, NullQp& to, const ibv_send_wr& wr) {
  if (to.receives.empty()) return false;
  const NullReceive receive = to.receives.front();
  to.receives.pop();
  NullCompletion completion{receive.wr_id, to.qp_num, 0, 0, IBV_WC_RECV_RDMA_WITH_IMM};
  if (wr.num_sge > 0) completion.bytes = wr.sg_list->length;
  if (wr.opcode == IBV_WR_SEND) {
    completion.opcode = IBV_WC_RECV;
    std::memcpy(reinterpret_cast<void*>(receive.address),
                reinterpret_cast<const void*>(wr.sg_list->addr), completion.bytes);
  } else {
    completion.imm = wr.imm_data;
  }
  (void)from;
  return static_cast<NullCq*>(to.recv_cq)->completions.push(completion);
}

int NullVerbs::post_send(NullQp& qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  ++doorbells_;
  auto& sent = static_cast<NullCq*>(qp.send_cq)->completions;
  for (; wr != nullptr; wr = wr->next) {
    ++posted_;
    const bool takes_receive =
        wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM || wr->opcode == IBV_WR_SEND;
    if (takes_receive && !deliver(qp, *qp.peer, *wr)) ++faults_;
    if (!takes_receive && wr->opcode != IBV_WR_RDMA_WRITE) {
      *bad = wr;
      return ENOSYS;
    }
    const ibv_wc_opcode opcode = wr->opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
    if (!sent.push({wr->wr_id, qp.qp_num, 0, 0, opcode})) ++faults_;
  }
  return 0;
}

ibv_device** NullVerbs::get_device_list(int* count) {
  *count = 1;
  return new ibv_device* [2] { &device_, nullptr };
}
void NullVerbs::free_device_list(ibv_device** list) { delete[] list; }
const char* NullVerbs::get_device_name(ibv_device* device) { return device->name; }

ibv_context* NullVerbs::open_device(ibv_device* device) {
  auto* context = new NullContext{};
  context->device = device;
  context->api = this;
  context->ops.post_send = NullContext::post_send;
  context->ops.post_recv = NullContext::post_recv;
  context->ops.poll_cq = NullContext::poll_cq;
  return context;
}
int NullVerbs::close_device(ibv_context* context) {
  delete static_cast<NullContext*>(context);
  return 0;
}

int NullVerbs::query_device(ibv_context*, ibv_device_attr* attr) {
  *attr = {};
  attr->max_qp_wr = kMaxQueue;
  attr->max_cqe = 1 << 20;
  return 0;
}
int NullVerbs::query_port(ibv_context*, std::uint8_t, ibv_port_attr* attr) {
  *attr = {};
  attr->state = IBV_PORT_ACTIVE;
  attr->active_mtu = attr->max_mtu = IBV_MTU_4096;
  attr->gid_tbl_len = 1;
  attr->max_msg_sz = 1U << 30U;
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}
int NullVerbs::query_gid(ibv_context*, std::uint8_t, int, ibv_gid* gid) {
  // An IPv4 address of the block kept for documentation.
  *gid = {};
  gid->raw[10] = gid->raw[11] = 0xFF;
  gid->raw[12] = 192;
  gid->raw[14] = 2;
  gid->raw[15] = 1;
  return 0;
}
int NullVerbs::query_gid_ex(ibv_context* context, std::uint32_t, std::uint32_t index,
                            ibv_gid_entry* entry) {
  if (index != 0) return EINVAL;
  *entry = {};
  entry->gid_type = IBV_GID_TYPE_ROCE_V2;
  entry->port_num = 1;
  return query_gid(context, 1, 0, &entry->gid);
}
int NullVerbs::query_pkey(ibv_context*, std::uint8_t, int, __be16* pkey) {
  *pkey = 0xFFFF;
  return 0;
}
int NullVerbs::get_async_event(ibv_context*, ibv_async_event*) {
  errno = ENOSYS;
  return -1;
}

ibv_pd* NullVerbs::alloc_pd(ibv_context* context) { return new ibv_pd{context, 0}; }
int NullVerbs::dealloc_pd(ibv_pd* pd) {
  delete pd;
  return 0;
}
ibv_mr* NullVerbs::reg_mr_iova(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t, int) {
  auto* mr = new ibv_mr{};
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = bytes;
  mr->lkey = mr->rkey = 1;
  return mr;
}
ibv_mr* NullVerbs::reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
  return none_offered<ibv_mr>();
}
int NullVerbs::rereg_mr(ibv_mr*, int, ibv_pd*, void*, std::size_t, int) { return not_offered(); }
int NullVerbs::dereg_mr(ibv_mr* mr) {
  delete mr;
  return 0;
}
ibv_comp_channel* NullVerbs::create_comp_channel(ibv_context*) {
  return none_offered<ibv_comp_channel>();
}
int NullVerbs::destroy_comp_channel(ibv_comp_channel*) { return not_offered(); }

ibv_cq* NullVerbs::create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel*,
                             int) {
  auto* cq = new NullCq{};
  cq->context = context;
  cq->cq_context = cq_context;
  cq->completions = Ring<NullCompletion>(static_cast<std::size_t>(cqe));
  return cq;
}
int NullVerbs::resize_cq(ibv_cq*, int) { return not_offered(); }
int NullVerbs::destroy_cq(ibv_cq* cq) {
  delete static_cast<NullCq*>(cq);
  return 0;
}
int NullVerbs::get_cq_event(ibv_comp_channel*, ibv_cq**, void**) { return not_offered(); }
ibv_srq* NullVerbs::create_srq(ibv_pd*, ibv_srq_init_attr*) { return none_offered<ibv_srq>(); }
int NullVerbs::modify_srq(ibv_srq*, ibv_srq_attr*, int) { return not_offered(); }
int NullVerbs::query_srq(ibv_srq*, ibv_srq_attr*) { return not_offered(); }
int NullVerbs::destroy_srq(ibv_srq*) { return not_offered(); }

ibv_qp* NullVerbs::create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  auto* qp = new NullQp{};
  qp->context = pd->context;
  qp->pd = pd;
  qp->send_cq = attr->send_cq;
  qp->recv_cq = attr->recv_cq;
  qp->qp_num = kFirstQpn + static_cast<std::uint32_t>(qps_.size());
  qp->receives = Ring<NullReceive>(attr->cap.max_recv_wr);
  qps_.push_back(qp);
  return qp;
}
int NullVerbs::modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  auto& own = *static_cast<NullQp*>(qp);
  if ((mask & IBV_QP_DEST_QPN) != 0) own.peer_qpn = attr->dest_qp_num;
  if ((mask & IBV_QP_STATE) == 0) return 0;
  own.state = attr->qp_state;
  if (own.state != IBV_QPS_RTR) return 0;
  const std::size_t index = own.peer_qpn - kFirstQpn;
  own.peer = index < qps_.size() ? qps_[index] : nullptr;
  return own.peer == nullptr ? EINVAL : 0;
}
int NullVerbs::query_qp(ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*) { return not_offered(); }
int NullVerbs::destroy_qp(ibv_qp* qp) {
  qps_[qp->qp_num - kFirstQpn] = nullptr;
  delete static_cast<NullQp*>(qp);
  return 0;
}
int NullVerbs::modify_qp_udp_sport(ibv_qp*, std::uint16_t) { return EOPNOTSUPP; }
int NullVerbs::query_qp_udp_sport(ibv_qp*, std::uint16_t*) { return EOPNOTSUPP; }

}  // namespace braid::bench
