#include "softverbs/soft_context.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>

namespace braid::softverbs {
namespace {

constexpr std::uint32_t kVendorId = 0;  // no IEEE OUI: not a vendor's device

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input,
                    ibv_device_attr_ex* attr, std::size_t attr_bytes) noexcept {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (attr_bytes < sizeof attr->orig_attr) return EINVAL;
  std::memset(attr, 0, attr_bytes);
  return SoftContext::of(context).query_device(&attr->orig_attr);
}

int query_port_sized(ibv_context* context, std::uint8_t port, ibv_port_attr* attr,
                     std::size_t attr_bytes) noexcept {
  ibv_port_attr full{};
  const int error = SoftContext::of(context).query_port(port, &full);
  if (error == 0) std::memcpy(attr, &full, std::min(attr_bytes, sizeof full));
  return error;
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) noexcept {
  if (attr->comp_mask & ~std::uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS}) {
    errno = EOPNOTSUPP;
    return nullptr;
  }
  return SoftContext::of(context).create_cq(static_cast<int>(attr->cqe), attr->cq_context,
                                            attr->channel, static_cast<int>(attr->comp_vector),
                                            attr->wc_flags);
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) noexcept {
  return SoftContext::of(context).create_qp(attr);
}

}  // namespace

SoftContext& SoftContext::of(ibv_context* context) noexcept {
  auto* bytes = reinterpret_cast<std::uint8_t*>(context);
  void* handle = bytes - offsetof(verbs_context, context) - offsetof(Handle, verbs);
  return *static_cast<Handle*>(handle)->self;
}

SoftContext* SoftContext::open(ibv_device* device, DriverFactory& factory,
                               ErrorSink sink) noexcept {
  std::unique_ptr<SoftContext> context;
  try {
    context.reset(new SoftContext(std::move(sink)));
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
    return nullptr;
  }
  context->async_event_ = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE));
  if (!context->async_event_.valid()) return nullptr;
  std::string error;
  auto driver = factory.make_driver(*context, &error);
  if (!driver) {
    if (context->sink_) context->sink_(error);
    const Status status = driver.error();
    errno = status.origin() == StatusOrigin::kSystem ? status.detail() : EINVAL;
    return nullptr;
  }
  context->driver_ = std::move(driver).value();
  context->fill_handle(device);
  return context.release();
}

int SoftContext::close(SoftContext* context) noexcept {
  {
    const std::lock_guard lock(context->driver_->mutex());
    context->driver_->flush();
  }
  delete context;
  return 0;
}

SoftContext::~SoftContext() {
  driver_.reset();  // its thread calls back into this object until it has been joined
  if (handle_.self != nullptr) pthread_mutex_destroy(&handle()->mutex);
}

void SoftContext::fill_handle(ibv_device* device) noexcept {
  handle_.self = this;
  verbs_context& verbs = handle_.verbs;
  verbs.sz = sizeof(verbs_context);
  verbs.query_port = query_port_sized;
  verbs.query_device_ex = query_device_ex;
  verbs.create_cq_ex = create_cq_ex;
  verbs.create_qp_ex = create_qp_ex;
  ibv_context& context = verbs.context;
  context.device = device;
  context.cmd_fd = -1;
  context.async_fd = async_event_.get();
  context.num_comp_vectors = 1;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&context.mutex, nullptr);
  context.ops.poll_cq = soft_poll_cq;
  context.ops.req_notify_cq = soft_req_notify_cq;
  context.ops.post_send = soft_post_send;
  context.ops.post_recv = soft_post_recv;
  context.ops.post_srq_recv = soft_post_srq_recv;
}

int SoftContext::query_device(ibv_device_attr* attr) noexcept {
  *attr = ibv_device_attr{};
  std::strncpy(attr->fw_ver, "braid-soft", sizeof attr->fw_ver - 1);
  std::memcpy(&attr->node_guid, driver_->addresses()[0].bytes.data() + 8, sizeof attr->node_guid);
  attr->sys_image_guid = attr->node_guid;
  attr->max_mr_size = ~std::uint64_t{0};
  attr->page_size_cap = 4096;
  attr->vendor_id = kVendorId;
  attr->max_qp = SoftLimits::kMaxQp;
  attr->max_qp_wr = SoftLimits::kMaxQpWr;
  attr->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT;
  attr->max_sge = SoftLimits::kMaxSge;
  attr->max_sge_rd = SoftLimits::kMaxSge;
  attr->max_cq = SoftLimits::kMaxCq;
  attr->max_cqe = SoftLimits::kMaxCqe;
  attr->max_mr = SoftLimits::kMaxMr;
  attr->max_pd = SoftLimits::kMaxPd;
  attr->max_qp_rd_atom = SoftLimits::kMaxRdAtomic;
  attr->max_res_rd_atom = SoftLimits::kMaxRdAtomic * SoftLimits::kMaxQp;
  attr->max_qp_init_rd_atom = SoftLimits::kMaxRdAtomic;
  // Atomic with respect to the host's processors too: the engine uses their instructions.
  attr->atomic_cap = IBV_ATOMIC_GLOB;
  attr->max_srq = SoftLimits::kMaxSrq;
  attr->max_srq_wr = SoftLimits::kMaxQpWr;
  attr->max_srq_sge = SoftLimits::kMaxSge;
  attr->max_pkeys = 1;
  attr->phys_port_cnt = SoftLimits::kPorts;
  return 0;
}

int SoftContext::query_port(std::uint8_t port, ibv_port_attr* attr) noexcept {
  if (port != SoftLimits::kPorts) return EINVAL;
  *attr = ibv_port_attr{};
  {
    const std::lock_guard lock(driver_->mutex());
    attr->state = port_active_ ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  }
  int code = 0;
  for (std::uint32_t mtu = 256; mtu <= driver_->max_mtu_bytes(); mtu *= 2) ++code;
  attr->max_mtu = IBV_MTU_4096;
  attr->active_mtu = static_cast<ibv_mtu>(code);
  attr->gid_tbl_len = static_cast<int>(driver_->addresses().size());
  attr->port_cap_flags = IBV_PORT_CM_SUP;
  attr->max_msg_sz = SoftLimits::kMaxMessageBytes;
  attr->pkey_tbl_len = 1;
  attr->max_vl_num = 1;
  attr->active_width = 1;                   // 1x
  attr->active_speed = 32;                  // EDR: tools want a number; the wire has no rate
  attr->phys_state = port_active_ ? 5 : 3;  // LinkUp, Disabled (IBTA PortPhysicalState)
  attr->link_layer = IBV_LINK_LAYER_ETHERNET;
  return 0;
}

int SoftContext::query_gid(std::uint8_t port, int index, ibv_gid* gid) noexcept {
  const auto addresses = driver_->addresses();
  if (port != SoftLimits::kPorts || index < 0 ||
      static_cast<std::size_t>(index) >= addresses.size()) {
    errno = EINVAL;
    return -1;
  }
  std::memcpy(gid->raw, addresses[static_cast<std::size_t>(index)].bytes.data(), sizeof gid->raw);
  return 0;
}

int SoftContext::query_gid_ex(std::uint32_t port, std::uint32_t index,
                              ibv_gid_entry* entry) noexcept {
  const auto addresses = driver_->addresses();
  if (port != SoftLimits::kPorts) return EINVAL;
  if (index >= addresses.size()) return ENODATA;
  *entry = ibv_gid_entry{};
  std::memcpy(entry->gid.raw, addresses[index].bytes.data(), sizeof entry->gid.raw);
  entry->gid_index = index;
  entry->port_num = port;
  entry->gid_type = IBV_GID_TYPE_ROCE_V2;
  return 0;
}

int SoftContext::query_pkey(std::uint8_t port, int index, __be16* pkey) noexcept {
  if (port != SoftLimits::kPorts || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = 0xFFFF;
  return 0;
}

}  // namespace braid::softverbs
