// With LD_PRELOAD, programs that are linked with libibverbs find the soft device, and only it.
//
// The functions here stand in for those of libibverbs that verbs.h does not inline. Their symbols
// carry no version, which satisfies references to any version of libibverbs's. What needs no
// device (ibv_wc_status_str, ibv_fork_init, rate conversions) stays with libibverbs.

#include <braid/soft_device.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "config/soft_device_env.h"
#include "softverbs/soft_verbs.h"

// verbs.h routes these names through inline functions; here the functions themselves are defined.
#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define BRAID_PRELOADED extern "C" __attribute__((visibility("default")))

namespace {

using braid::softverbs::SoftVerbs;

/// Null when the environment or the system does not allow a device; stderr has said why.
SoftVerbs* make_api() noexcept {
  braid::SoftDeviceOptions options;
  std::string error;
  if (!braid::config::load_soft_device_options(options, error).ok()) {
    std::fprintf(stderr, "braid: %s\n", error.c_str());
    return nullptr;
  }
  auto api = SoftVerbs::create(options);
  if (!api) {
    std::fprintf(stderr, "braid: no soft device: %s\n", api.error().to_string().c_str());
    return nullptr;
  }
  return std::move(api).value().release();
}

/// Never destroyed: programs exit with devices open, whose threads still run.
SoftVerbs* api() noexcept {
  static SoftVerbs* const instance = make_api();
  return instance;
}

}  // namespace

BRAID_PRELOADED ibv_device** ibv_get_device_list(int* count) {
  if (SoftVerbs* devices = api()) return devices->get_device_list(count);
  if (count != nullptr) *count = 0;
  return new (std::nothrow) ibv_device* [1] { nullptr };
}
BRAID_PRELOADED void ibv_free_device_list(ibv_device** list) { delete[] list; }
BRAID_PRELOADED const char* ibv_get_device_name(ibv_device* device) { return device->name; }
BRAID_PRELOADED __be64 ibv_get_device_guid(ibv_device* device) {
  return api()->get_device_guid(device);
}
BRAID_PRELOADED int ibv_get_device_index(ibv_device* /*device*/) { return -1; }
BRAID_PRELOADED ibv_context* ibv_open_device(ibv_device* device) {
  return api()->open_device(device);
}
BRAID_PRELOADED int ibv_close_device(ibv_context* context) { return api()->close_device(context); }

BRAID_PRELOADED int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  return api()->query_device(context, attr);
}
BRAID_PRELOADED int ibv_query_port(ibv_context* context, std::uint8_t port,
                                   _compat_ibv_port_attr* attr) {
  // Callers of this entry point know the structure up to link_layer and flags only.
  ibv_port_attr full{};
  const int error = api()->query_port(context, port, &full);
  if (error == 0) {
    std::memcpy(static_cast<void*>(attr), &full, offsetof(ibv_port_attr, port_cap_flags2));
  }
  return error;
}
BRAID_PRELOADED int ibv_query_gid(ibv_context* context, std::uint8_t port, int index,
                                  ibv_gid* gid) {
  return api()->query_gid(context, port, index, gid);
}
BRAID_PRELOADED int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                                      ibv_gid_entry* entry, std::uint32_t flags,
                                      std::size_t entry_bytes) {
  if (flags != 0 || entry_bytes < sizeof *entry) return EINVAL;
  return api()->query_gid_ex(context, port, index, entry);
}
BRAID_PRELOADED ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries,
                                             std::size_t capacity, std::uint32_t flags,
                                             std::size_t entry_bytes) {
  if (flags != 0 || entry_bytes < sizeof *entries) return -EINVAL;
  std::size_t count = 0;
  ibv_gid_entry entry{};
  while (api()->query_gid_ex(context, 1, static_cast<std::uint32_t>(count), &entry) == 0) {
    if (count == capacity) return -EINVAL;
    auto* bytes = reinterpret_cast<char*>(entries) + count++ * entry_bytes;
    std::memcpy(bytes, &entry, sizeof entry);
  }
  return static_cast<ssize_t>(count);
}
// Private to rdma-core's own tools: 0 = IB or RoCE v1, 1 = RoCE v2.
BRAID_PRELOADED int ibv_query_gid_type(ibv_context* /*context*/, std::uint8_t /*port*/,
                                       unsigned /*index*/, int* type) {
  *type = 1;
  return 0;
}
BRAID_PRELOADED int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index,
                                   __be16* pkey) {
  return api()->query_pkey(context, port, index, pkey);
}
BRAID_PRELOADED int ibv_get_pkey_index(ibv_context* /*context*/, std::uint8_t port, __be16 pkey) {
  return port == 1 && pkey == 0xFFFF ? 0 : -1;
}
BRAID_PRELOADED int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  return api()->get_async_event(context, event);
}
BRAID_PRELOADED void ibv_ack_async_event(ibv_async_event* event) { api()->ack_async_event(event); }

BRAID_PRELOADED ibv_pd* ibv_alloc_pd(ibv_context* context) { return api()->alloc_pd(context); }
BRAID_PRELOADED int ibv_dealloc_pd(ibv_pd* pd) { return api()->dealloc_pd(pd); }
BRAID_PRELOADED ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, std::size_t bytes, int access) {
  return api()->reg_mr_iova(pd, address, bytes, reinterpret_cast<std::uint64_t>(address), access);
}
BRAID_PRELOADED ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, std::size_t bytes,
                                        std::uint64_t iova, int access) {
  return api()->reg_mr_iova(pd, address, bytes, iova, access);
}
BRAID_PRELOADED ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, std::size_t bytes,
                                         std::uint64_t iova, unsigned access) {
  return api()->reg_mr_iova(pd, address, bytes, iova, static_cast<int>(access));
}
BRAID_PRELOADED ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t bytes,
                                          std::uint64_t iova, int fd, int access) {
  return api()->reg_dmabuf_mr(pd, offset, bytes, iova, fd, access);
}
BRAID_PRELOADED int ibv_rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address,
                                 std::size_t bytes, int access) {
  return api()->rereg_mr(mr, flags, pd, address, bytes, access);
}
BRAID_PRELOADED int ibv_dereg_mr(ibv_mr* mr) { return api()->dereg_mr(mr); }

BRAID_PRELOADED ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  return api()->create_comp_channel(context);
}
BRAID_PRELOADED int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  return api()->destroy_comp_channel(channel);
}
BRAID_PRELOADED ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context,
                                      ibv_comp_channel* channel, int comp_vector) {
  return api()->create_cq(context, cqe, cq_context, channel, comp_vector);
}
BRAID_PRELOADED int ibv_resize_cq(ibv_cq* cq, int cqe) { return api()->resize_cq(cq, cqe); }
BRAID_PRELOADED int ibv_destroy_cq(ibv_cq* cq) { return api()->destroy_cq(cq); }
BRAID_PRELOADED int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  return api()->get_cq_event(channel, cq, cq_context);
}
BRAID_PRELOADED void ibv_ack_cq_events(ibv_cq* cq, unsigned count) {
  api()->ack_cq_events(cq, count);
}

BRAID_PRELOADED ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  return api()->create_srq(pd, attr);
}
BRAID_PRELOADED int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  return api()->modify_srq(srq, attr, mask);
}
BRAID_PRELOADED int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  return api()->query_srq(srq, attr);
}
BRAID_PRELOADED int ibv_destroy_srq(ibv_srq* srq) { return api()->destroy_srq(srq); }

BRAID_PRELOADED ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  return api()->create_qp(pd, attr);
}
BRAID_PRELOADED int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  return api()->modify_qp(qp, attr, mask);
}
BRAID_PRELOADED int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
  return api()->query_qp(qp, attr, mask, init);
}
BRAID_PRELOADED int ibv_destroy_qp(ibv_qp* qp) { return api()->destroy_qp(qp); }
BRAID_PRELOADED ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  auto* own = braid::softverbs::soft(qp);
  return own->staging != nullptr ? own : nullptr;
}

// Unreliable datagrams: the device has none, so no address handle and no multicast group either.
BRAID_PRELOADED ibv_ah* ibv_create_ah(ibv_pd* /*pd*/, ibv_ah_attr* /*attr*/) {
  errno = EOPNOTSUPP;
  return nullptr;
}
BRAID_PRELOADED ibv_ah* ibv_create_ah_from_wc(ibv_pd* /*pd*/, ibv_wc* /*wc*/, ibv_grh* /*grh*/,
                                              std::uint8_t /*port*/) {
  errno = EOPNOTSUPP;
  return nullptr;
}
BRAID_PRELOADED int ibv_destroy_ah(ibv_ah* /*ah*/) { return EOPNOTSUPP; }
BRAID_PRELOADED int ibv_attach_mcast(ibv_qp* /*qp*/, const ibv_gid* /*gid*/,
                                     std::uint16_t /*lid*/) {
  return EOPNOTSUPP;
}
BRAID_PRELOADED int ibv_detach_mcast(ibv_qp* /*qp*/, const ibv_gid* /*gid*/,
                                     std::uint16_t /*lid*/) {
  return EOPNOTSUPP;
}

// What the device lacks and libibverbs would look for in a context of its own making.
BRAID_PRELOADED int ibv_query_ece(ibv_qp* /*qp*/, ibv_ece* /*ece*/) { return EOPNOTSUPP; }
BRAID_PRELOADED int ibv_set_ece(ibv_qp* /*qp*/, ibv_ece* /*ece*/) { return EOPNOTSUPP; }
BRAID_PRELOADED int ibv_query_qp_data_in_order(ibv_qp* /*qp*/, ibv_wr_opcode /*opcode*/,
                                               std::uint32_t /*flags*/) {
  return 0;  // not promised
}
BRAID_PRELOADED int ibv_resolve_eth_l2_from_gid(ibv_context* /*context*/, ibv_ah_attr* /*attr*/,
                                                std::uint8_t* /*mac*/, std::uint16_t* /*vlan*/) {
  return EOPNOTSUPP;
}
BRAID_PRELOADED ibv_context* ibv_import_device(int /*cmd_fd*/) {
  errno = EOPNOTSUPP;
  return nullptr;
}
BRAID_PRELOADED ibv_pd* ibv_import_pd(ibv_context* /*context*/, std::uint32_t /*handle*/) {
  errno = EOPNOTSUPP;
  return nullptr;
}
BRAID_PRELOADED ibv_mr* ibv_import_mr(ibv_pd* /*pd*/, std::uint32_t /*handle*/) {
  errno = EOPNOTSUPP;
  return nullptr;
}
BRAID_PRELOADED ibv_dm* ibv_import_dm(ibv_context* /*context*/, std::uint32_t /*handle*/) {
  errno = EOPNOTSUPP;
  return nullptr;
}
