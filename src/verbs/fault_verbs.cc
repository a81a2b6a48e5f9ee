#include "verbs/fault_verbs.h"

#include <cerrno>
#include <new>

namespace braid::verbs {
namespace {

FaultContext* outer(ibv_context* context) { return static_cast<FaultContext*>(context); }
FaultPd* outer(ibv_pd* pd) { return static_cast<FaultPd*>(pd); }
FaultMr* outer(ibv_mr* mr) { return static_cast<FaultMr*>(mr); }
FaultCq* outer(ibv_cq* cq) { return static_cast<FaultCq*>(cq); }
FaultSrq* outer(ibv_srq* srq) { return static_cast<FaultSrq*>(srq); }
FaultQp* outer(ibv_qp* qp) { return static_cast<FaultQp*>(qp); }

/// The device's object behind one of ours; null stays null.
template <typename T>
T* inner(T* object) {
  return object != nullptr ? outer(object)->inner : nullptr;
}

// The device's CQs, QPs and SRQs carry ours as their user context.
FaultCq* outer_of_device(ibv_cq* cq) { return static_cast<FaultCq*>(cq->cq_context); }
FaultQp* outer_of_device(ibv_qp* qp) { return static_cast<FaultQp*>(qp->qp_context); }
FaultSrq* outer_of_device(ibv_srq* srq) { return static_cast<FaultSrq*>(srq->srq_context); }

enum class EventElement : std::uint8_t { kNone, kCq, kQp, kSrq };

EventElement element_of(ibv_event_type type) {
  switch (type) {
    case IBV_EVENT_CQ_ERR: return EventElement::kCq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED: return EventElement::kQp;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED: return EventElement::kSrq;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
    case IBV_EVENT_WQ_FATAL: return EventElement::kNone;
  }
  return EventElement::kNone;
}

void copy_region(FaultMr& mr, const ibv_mr& from, ibv_pd* pd) {
  mr.context = pd->context;
  mr.pd = pd;
  mr.addr = from.addr;
  mr.length = from.length;
  mr.handle = from.handle;
  mr.lkey = from.lkey;
  mr.rkey = from.rkey;
}

/// Wraps a region that the device made; gives it back when memory is short.
ibv_mr* wrap_region(VerbsApi& api, ibv_mr* region, ibv_pd* pd) {
  if (region == nullptr) return nullptr;
  auto* mr = new (std::nothrow) FaultMr{};
  if (mr == nullptr) {
    api.dereg_mr(region);
    errno = ENOMEM;
    return nullptr;
  }
  mr->inner = region;
  copy_region(*mr, *region, pd);
  return mr;
}

}  // namespace

FaultVerbs::FaultVerbs(VerbsApi& inner, const FaultPlan& plan)
    : inner_(inner), script_(plan), held_capacity_(plan.held_completions) {}

bool FaultVerbs::fails(VerbsCall call) {
  const int error = script_.on_call(call);
  if (error == 0) return false;
  errno = error;
  return true;
}

ibv_qp* FaultVerbs::inner_of(ibv_qp* qp) noexcept { return inner(qp); }

ibv_device** FaultVerbs::get_device_list(int* count) {
  if (fails(VerbsCall::kGetDeviceList)) {
    if (count != nullptr) *count = 0;
    return nullptr;
  }
  return inner_.get_device_list(count);
}
void FaultVerbs::free_device_list(ibv_device** list) { inner_.free_device_list(list); }
const char* FaultVerbs::get_device_name(ibv_device* device) {
  return inner_.get_device_name(device);
}
std::uint64_t FaultVerbs::get_device_guid(ibv_device* device) {
  return inner_.get_device_guid(device);
}

ibv_context* FaultVerbs::open_device(ibv_device* device) {
  if (fails(VerbsCall::kOpenDevice)) return nullptr;
  ibv_context* opened = inner_.open_device(device);
  if (opened == nullptr) return nullptr;
  auto* context = new (std::nothrow) FaultContext{};
  if (context == nullptr) {
    inner_.close_device(opened);
    errno = ENOMEM;
    return nullptr;
  }
  // abi_compat stays null: verbs.h then finds no extended calls, which would bypass the decorator.
  context->device = opened->device;
  context->cmd_fd = opened->cmd_fd;
  context->async_fd = opened->async_fd;
  context->num_comp_vectors = opened->num_comp_vectors;
  context->api = this;
  context->inner = opened;
  context->ops.post_send = op_post_send;
  context->ops.post_recv = op_post_recv;
  context->ops.post_srq_recv = op_post_srq_recv;
  context->ops.poll_cq = op_poll_cq;
  context->ops.req_notify_cq = op_req_notify_cq;
  return context;
}
int FaultVerbs::close_device(ibv_context* context) {
  if (fails(VerbsCall::kCloseDevice)) return errno;
  const int error = inner_.close_device(inner(context));
  if (error == 0) delete outer(context);
  return error;
}

int FaultVerbs::query_device(ibv_context* context, ibv_device_attr* attr) {
  if (fails(VerbsCall::kQueryDevice)) return errno;
  return inner_.query_device(inner(context), attr);
}
int FaultVerbs::query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) {
  if (fails(VerbsCall::kQueryPort)) return errno;
  return inner_.query_port(inner(context), port, attr);
}
int FaultVerbs::query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  if (fails(VerbsCall::kQueryGid)) return -1;
  return inner_.query_gid(inner(context), port, index, gid);
}
int FaultVerbs::query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                             ibv_gid_entry* entry) {
  if (fails(VerbsCall::kQueryGidEx)) return errno;
  return inner_.query_gid_ex(inner(context), port, index, entry);
}
int FaultVerbs::query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) {
  if (fails(VerbsCall::kQueryPkey)) return -1;
  return inner_.query_pkey(inner(context), port, index, pkey);
}

int FaultVerbs::get_async_event(ibv_context* context, ibv_async_event* event) {
  if (fails(VerbsCall::kGetAsyncEvent)) return -1;
  const int error = inner_.get_async_event(inner(context), event);
  if (error != 0) return error;
  switch (element_of(event->event_type)) {
    case EventElement::kCq: event->element.cq = outer_of_device(event->element.cq); break;
    case EventElement::kQp: event->element.qp = outer_of_device(event->element.qp); break;
    case EventElement::kSrq: event->element.srq = outer_of_device(event->element.srq); break;
    case EventElement::kNone: break;
  }
  return 0;
}
void FaultVerbs::ack_async_event(ibv_async_event* event) {
  ibv_async_event device_event = *event;
  switch (element_of(event->event_type)) {
    case EventElement::kCq: device_event.element.cq = inner(event->element.cq); break;
    case EventElement::kQp: device_event.element.qp = inner(event->element.qp); break;
    case EventElement::kSrq: device_event.element.srq = inner(event->element.srq); break;
    case EventElement::kNone: break;
  }
  inner_.ack_async_event(&device_event);
}

ibv_pd* FaultVerbs::alloc_pd(ibv_context* context) {
  if (fails(VerbsCall::kAllocPd)) return nullptr;
  ibv_pd* made = inner_.alloc_pd(inner(context));
  if (made == nullptr) return nullptr;
  auto* pd = new (std::nothrow) FaultPd{};
  if (pd == nullptr) {
    inner_.dealloc_pd(made);
    errno = ENOMEM;
    return nullptr;
  }
  pd->context = context;
  pd->handle = made->handle;
  pd->inner = made;
  return pd;
}
int FaultVerbs::dealloc_pd(ibv_pd* pd) {
  if (fails(VerbsCall::kDeallocPd)) return errno;
  const int error = inner_.dealloc_pd(inner(pd));
  if (error == 0) delete outer(pd);
  return error;
}

ibv_mr* FaultVerbs::reg_mr_iova(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova,
                                int access) {
  if (fails(VerbsCall::kRegMrIova)) return nullptr;
  return wrap_region(inner_, inner_.reg_mr_iova(inner(pd), address, bytes, iova, access), pd);
}
ibv_mr* FaultVerbs::reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t bytes,
                                  std::uint64_t iova, int fd, int access) {
  if (fails(VerbsCall::kRegDmabufMr)) return nullptr;
  return wrap_region(inner_, inner_.reg_dmabuf_mr(inner(pd), offset, bytes, iova, fd, access), pd);
}
int FaultVerbs::rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t bytes,
                         int access) {
  if (mr == nullptr || fails(VerbsCall::kReregMr)) return IBV_REREG_MR_ERR_INPUT;
  const int error = inner_.rereg_mr(inner(mr), flags, inner(pd), address, bytes, access);
  if (error == 0) {
    const bool moved = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
    copy_region(*outer(mr), *inner(mr), moved ? pd : mr->pd);
  }
  return error;
}
int FaultVerbs::dereg_mr(ibv_mr* mr) {
  if (fails(VerbsCall::kDeregMr)) return errno;
  const int error = inner_.dereg_mr(inner(mr));
  if (error == 0) delete outer(mr);
  return error;
}

}  // namespace braid::verbs
