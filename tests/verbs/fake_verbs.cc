#include "verbs/fake_verbs.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>

namespace braid::verbs {
namespace {

struct FakeContext : ibv_context {
  FakeVerbs* api = nullptr;
  std::vector<std::uint64_t>* sent = nullptr;
  std::deque<ibv_async_event> events;
};

struct FakeChannel : ibv_comp_channel {
  std::deque<ibv_cq*> events;
};

struct FakeCq : ibv_cq {
  std::deque<ibv_wc> completions;
  bool armed = false;
};

struct FakeSrq : ibv_srq {
  ibv_srq_attr attr{};
  std::deque<std::uint64_t> posted;
};

struct FakeQp : ibv_qp {
  ibv_qp_init_attr init{};
  ibv_qp_attr attr{};
  std::uint16_t source_port = 0;
  std::deque<std::uint64_t> posted;  // receives
};

FakeCq& own(ibv_cq* cq) { return *static_cast<FakeCq*>(cq); }
FakeQp& own(ibv_qp* qp) { return *static_cast<FakeQp*>(qp); }
FakeSrq& own(ibv_srq* srq) { return *static_cast<FakeSrq*>(srq); }
FakeContext& own(ibv_context* context) { return *static_cast<FakeContext*>(context); }

void push(FakeCq& cq, const ibv_wc& wc) {
  cq.completions.push_back(wc);
  if (cq.armed && cq.channel != nullptr) {
    static_cast<FakeChannel*>(cq.channel)->events.push_back(&cq);
    cq.armed = false;
  }
}

ibv_wc completion(const FakeQp& qp, std::uint64_t wr_id, ibv_wc_status status) {
  ibv_wc wc{};
  wc.wr_id = wr_id;
  wc.status = status;
  wc.qp_num = qp.qp_num;
  return wc;
}

ibv_wc_opcode completion_opcode(ibv_wr_opcode opcode) {
  switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM: return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ: return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP: return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD: return IBV_WC_FETCH_ADD;
    default: return IBV_WC_SEND;
  }
}

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) {
  FakeQp& fake = own(qp);
  for (; wr != nullptr; wr = wr->next) {
    if (wr->num_sge > 16 || (fake.state != IBV_QPS_RTS && fake.state != IBV_QPS_ERR)) {
      *bad = wr;
      return EINVAL;
    }
    own(qp->context).sent->push_back(wr->wr_id);
    const bool flushed = fake.state == IBV_QPS_ERR;
    if (!flushed && fake.init.sq_sig_all == 0 && (wr->send_flags & IBV_SEND_SIGNALED) == 0) {
      continue;
    }
    ibv_wc wc = completion(fake, wr->wr_id, flushed ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS);
    wc.opcode = completion_opcode(wr->opcode);
    for (int i = 0; i < wr->num_sge; ++i) wc.byte_len += wr->sg_list[i].length;
    push(own(qp->send_cq), wc);
  }
  return 0;
}

int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  FakeQp& fake = own(qp);
  for (; wr != nullptr; wr = wr->next) {
    if (wr->num_sge > 16 || fake.state == IBV_QPS_RESET) {
      *bad = wr;
      return EINVAL;
    }
    if (fake.state == IBV_QPS_ERR) {
      push(own(qp->recv_cq), completion(fake, wr->wr_id, IBV_WC_WR_FLUSH_ERR));
    } else {
      fake.posted.push_back(wr->wr_id);
    }
  }
  return 0;
}

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr**) {
  for (; wr != nullptr; wr = wr->next) own(srq).posted.push_back(wr->wr_id);
  return 0;
}

int poll_cq(ibv_cq* cq, int count, ibv_wc* out) {
  FakeCq& fake = own(cq);
  int taken = 0;
  while (taken < count && !fake.completions.empty()) {
    out[taken++] = fake.completions.front();
    fake.completions.pop_front();
  }
  return taken;
}

int req_notify_cq(ibv_cq* cq, int) {
  own(cq).armed = true;
  return 0;
}

}  // namespace

FakeVerbs::FakeVerbs(FakeOptions options)
    : options_(std::move(options)), next_qpn_(options_.first_qpn) {
  std::strcpy(device_.name, "fake0");
}

bool FakeVerbs::complete_receive(ibv_qp* qp, ibv_wc_opcode opcode, std::uint32_t byte_len,
                                 std::uint32_t imm_data) {
  std::deque<std::uint64_t>& posted = qp->srq != nullptr ? own(qp->srq).posted : own(qp).posted;
  if (posted.empty()) return false;
  ibv_wc wc = completion(own(qp), posted.front(), IBV_WC_SUCCESS);
  posted.pop_front();
  wc.opcode = opcode;
  wc.byte_len = byte_len;
  wc.imm_data = imm_data;
  wc.wc_flags = IBV_WC_WITH_IMM;
  push(own(qp->recv_cq), wc);
  return true;
}
void FakeVerbs::push_completion(ibv_cq* cq, const ibv_wc& wc) { push(own(cq), wc); }
void FakeVerbs::raise_async_event(ibv_context* context, const ibv_async_event& event) {
  own(context).events.push_back(event);
}

ibv_device** FakeVerbs::get_device_list(int* count) {
  if (count != nullptr) *count = 1;
  return new ibv_device* [2] { &device_, nullptr };
}
void FakeVerbs::free_device_list(ibv_device** list) { delete[] list; }
const char* FakeVerbs::get_device_name(ibv_device* device) { return device->name; }
std::uint64_t FakeVerbs::get_device_guid(ibv_device*) { return 0x0102030405060708U; }

ibv_context* FakeVerbs::open_device(ibv_device* device) {
  auto* context = new FakeContext{};
  context->device = device;
  context->num_comp_vectors = 1;
  context->async_fd = -1;
  context->api = this;
  context->sent = &sent_;
  context->ops.post_send = post_send;
  context->ops.post_recv = post_recv;
  context->ops.post_srq_recv = post_srq_recv;
  context->ops.poll_cq = poll_cq;
  context->ops.req_notify_cq = req_notify_cq;
  ++live_;
  return context;
}
int FakeVerbs::close_device(ibv_context* context) {
  delete &own(context);
  --live_;
  return 0;
}

int FakeVerbs::query_device(ibv_context*, ibv_device_attr* attr) {
  *attr = {};
  attr->max_qp = 1024;
  attr->max_qp_wr = 4096;
  attr->max_sge = 16;
  attr->max_cqe = 1 << 20;
  attr->max_qp_rd_atom = 16;
  attr->max_qp_init_rd_atom = 16;
  attr->phys_port_cnt = 1;
  return 0;
}
int FakeVerbs::query_port(ibv_context*, std::uint8_t, ibv_port_attr* attr) {
  if (options_.query_port_error != 0) return options_.query_port_error;
  *attr = {};
  attr->state = IBV_PORT_ACTIVE;
  attr->max_mtu = IBV_MTU_4096;
  attr->active_mtu = IBV_MTU_4096;
  attr->gid_tbl_len = static_cast<int>(options_.gids.size());
  attr->max_msg_sz = 1U << 30U;
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}
int FakeVerbs::query_gid(ibv_context*, std::uint8_t, int index, ibv_gid* gid) {
  if (static_cast<std::size_t>(index) >= options_.gids.size()) return -1;
  *gid = options_.gids[static_cast<std::size_t>(index)].gid;
  return 0;
}
int FakeVerbs::query_gid_ex(ibv_context*, std::uint32_t, std::uint32_t index,
                            ibv_gid_entry* entry) {
  if (index >= options_.gids.size()) return EINVAL;
  const FakeGid& fake = options_.gids[index];
  if (fake.error != 0) return fake.error;
  *entry = {};
  entry->gid = fake.gid;
  entry->gid_index = index;
  entry->port_num = 1;
  entry->gid_type = fake.type;
  return 0;
}
int FakeVerbs::query_pkey(ibv_context*, std::uint8_t, int, __be16* pkey) {
  *pkey = 0xFFFF;
  return 0;
}

int FakeVerbs::get_async_event(ibv_context* context, ibv_async_event* event) {
  FakeContext& fake = own(context);
  if (fake.events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  *event = fake.events.front();
  fake.events.pop_front();
  ++unacknowledged_;
  return 0;
}
void FakeVerbs::ack_async_event(ibv_async_event* event) {
  // Only our own QP counts as acknowledged: a decorator must not hand back its own.
  if (event->event_type == IBV_EVENT_QP_FATAL && own(event->element.qp->context).api != this)
    return;
  --unacknowledged_;
}

ibv_pd* FakeVerbs::alloc_pd(ibv_context* context) {
  ++live_;
  return new ibv_pd{context, 0};
}
int FakeVerbs::dealloc_pd(ibv_pd* pd) {
  delete pd;
  --live_;
  return 0;
}
ibv_mr* FakeVerbs::reg_mr_iova(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t, int) {
  auto* mr = new ibv_mr{};
  mr->context = pd->context;
  mr->pd = pd;
  mr->addr = address;
  mr->length = bytes;
  mr->lkey = mr->rkey = next_key_++;
  ++live_;
  return mr;
}
ibv_mr* FakeVerbs::reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
  errno = EOPNOTSUPP;
  return nullptr;
}
int FakeVerbs::rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t bytes, int) {
  if ((flags & IBV_REREG_MR_CHANGE_PD) != 0) mr->pd = pd;
  if ((flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0) {
    mr->addr = address;
    mr->length = bytes;
  }
  mr->lkey = mr->rkey = next_key_++;
  return 0;
}
int FakeVerbs::dereg_mr(ibv_mr* mr) {
  delete mr;
  --live_;
  return 0;
}

ibv_comp_channel* FakeVerbs::create_comp_channel(ibv_context* context) {
  auto* channel = new FakeChannel{};
  channel->context = context;
  channel->fd = -1;
  ++live_;
  return channel;
}
int FakeVerbs::destroy_comp_channel(ibv_comp_channel* channel) {
  delete static_cast<FakeChannel*>(channel);
  --live_;
  return 0;
}
ibv_cq* FakeVerbs::create_cq(ibv_context* context, int cqe, void* cq_context,
                             ibv_comp_channel* channel, int) {
  auto* cq = new FakeCq{};
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->cqe = cqe;
  ++live_;
  return cq;
}
int FakeVerbs::resize_cq(ibv_cq* cq, int cqe) {
  cq->cqe = cqe;
  return 0;
}
int FakeVerbs::destroy_cq(ibv_cq* cq) {
  delete &own(cq);
  --live_;
  return 0;
}
int FakeVerbs::get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  auto& events = static_cast<FakeChannel*>(channel)->events;
  if (events.empty()) {
    errno = EAGAIN;
    return -1;
  }
  *cq = events.front();
  *cq_context = (*cq)->cq_context;
  events.pop_front();
  ++unacknowledged_;
  return 0;
}
void FakeVerbs::ack_cq_events(ibv_cq*, unsigned int count) { unacknowledged_ -= count; }

ibv_srq* FakeVerbs::create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  auto* srq = new FakeSrq{};
  srq->context = pd->context;
  srq->srq_context = attr->srq_context;
  srq->pd = pd;
  srq->attr = attr->attr;
  ++live_;
  return srq;
}
int FakeVerbs::modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int) {
  own(srq).attr.srq_limit = attr->srq_limit;
  return 0;
}
int FakeVerbs::query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  *attr = own(srq).attr;
  return 0;
}
int FakeVerbs::destroy_srq(ibv_srq* srq) {
  delete &own(srq);
  --live_;
  return 0;
}

ibv_qp* FakeVerbs::create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  auto* qp = new FakeQp{};
  attr->cap.max_inline_data = std::max(attr->cap.max_inline_data, 64U);
  qp->init = *attr;
  qp->context = pd->context;
  qp->qp_context = attr->qp_context;
  qp->pd = pd;
  qp->send_cq = attr->send_cq;
  qp->recv_cq = attr->recv_cq;
  qp->srq = attr->srq;
  qp->qp_num = next_qpn_++;
  qp->qp_type = attr->qp_type;
  ++live_;
  return qp;
}
int FakeVerbs::modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  FakeQp& fake = own(qp);
  modifies_.push_back({fake.qp_num, *attr, mask});
  fake.attr = *attr;
  if ((mask & IBV_QP_STATE) == 0) return 0;
  fake.state = attr->qp_state;
  for (; fake.state == IBV_QPS_ERR && !fake.posted.empty(); fake.posted.pop_front()) {
    push(own(qp->recv_cq), completion(fake, fake.posted.front(), IBV_WC_WR_FLUSH_ERR));
  }
  return 0;
}
int FakeVerbs::query_qp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  *attr = own(qp).attr;
  attr->qp_state = qp->state;
  *init = own(qp).init;
  return 0;
}
int FakeVerbs::destroy_qp(ibv_qp* qp) {
  for (ibv_cq* cq : {qp->send_cq, qp->recv_cq}) {
    std::erase_if(own(cq).completions, [&](const ibv_wc& wc) { return wc.qp_num == qp->qp_num; });
  }
  delete &own(qp);
  --live_;
  return 0;
}
int FakeVerbs::modify_qp_udp_sport(ibv_qp* qp, std::uint16_t port) {
  if (options_.modify_sport_error != 0) return options_.modify_sport_error;
  own(qp).source_port = port;
  return 0;
}
int FakeVerbs::query_qp_udp_sport(ibv_qp* qp, std::uint16_t* port) {
  if (options_.modify_sport_error != 0) return EOPNOTSUPP;
  *port = own(qp).source_port;
  return 0;
}

}  // namespace braid::verbs
