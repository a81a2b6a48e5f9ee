#include "verbs/kernel_verbs.h"

#include <dlfcn.h>

#include <cerrno>

namespace braid::verbs {
namespace {

/// Entry points of libmlx5. Both or none: without mlx5dv_is_supported a foreign QP cannot be told
/// from an mlx5 one, and old libraries do not look.
struct Mlx5Entries {
  using IsSupported = bool (*)(ibv_device*);
  using ModifySport = int (*)(ibv_qp*, std::uint16_t);

  IsSupported is_supported = nullptr;
  ModifySport modify_sport = nullptr;

  static Mlx5Entries load() {
    Mlx5Entries entries;
    // Never closed: libibverbs keeps its providers loaded for the life of the process as well.
    void* library = dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return entries;
    auto is_supported = reinterpret_cast<IsSupported>(dlsym(library, "mlx5dv_is_supported"));
    auto modify_sport = reinterpret_cast<ModifySport>(dlsym(library, "mlx5dv_modify_qp_udp_sport"));
    if (is_supported == nullptr || modify_sport == nullptr) return entries;
    entries.is_supported = is_supported;
    entries.modify_sport = modify_sport;
    return entries;
  }
};

/// Loaded once, when the first port is asked for; libraries cannot appear later.
const Mlx5Entries& mlx5_entries() {
  static const Mlx5Entries entries = Mlx5Entries::load();
  return entries;
}

}  // namespace

ibv_device** KernelVerbs::get_device_list(int* count) { return ibv_get_device_list(count); }
void KernelVerbs::free_device_list(ibv_device** list) { ibv_free_device_list(list); }
const char* KernelVerbs::get_device_name(ibv_device* device) { return ibv_get_device_name(device); }
std::uint64_t KernelVerbs::get_device_guid(ibv_device* device) {
  return ibv_get_device_guid(device);
}
ibv_context* KernelVerbs::open_device(ibv_device* device) { return ibv_open_device(device); }
int KernelVerbs::close_device(ibv_context* context) { return ibv_close_device(context); }

int KernelVerbs::query_device(ibv_context* context, ibv_device_attr* attr) {
  return ibv_query_device(context, attr);
}
int KernelVerbs::query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) {
  return ibv_query_port(context, port, attr);
}
int KernelVerbs::query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  return ibv_query_gid(context, port, index, gid);
}
int KernelVerbs::query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                              ibv_gid_entry* entry) {
  return ibv_query_gid_ex(context, port, index, entry, 0);
}
int KernelVerbs::query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) {
  return ibv_query_pkey(context, port, index, pkey);
}

int KernelVerbs::get_async_event(ibv_context* context, ibv_async_event* event) {
  return ibv_get_async_event(context, event);
}
void KernelVerbs::ack_async_event(ibv_async_event* event) { ibv_ack_async_event(event); }

ibv_pd* KernelVerbs::alloc_pd(ibv_context* context) { return ibv_alloc_pd(context); }
int KernelVerbs::dealloc_pd(ibv_pd* pd) { return ibv_dealloc_pd(pd); }

ibv_mr* KernelVerbs::reg_mr_iova(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova,
                                 int access) {
  // ibv_reg_mr where it says the same: kernels that lack the other call still have it.
  if (iova == reinterpret_cast<std::uintptr_t>(address)) {
    return ibv_reg_mr(pd, address, bytes, static_cast<unsigned>(access));
  }
  return ibv_reg_mr_iova(pd, address, bytes, iova, static_cast<unsigned>(access));
}
ibv_mr* KernelVerbs::reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t bytes,
                                   std::uint64_t iova, int fd, int access) {
  return ibv_reg_dmabuf_mr(pd, offset, bytes, iova, fd, access);
}
int KernelVerbs::rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t bytes,
                          int access) {
  return ibv_rereg_mr(mr, flags, pd, address, bytes, access);
}
int KernelVerbs::dereg_mr(ibv_mr* mr) { return ibv_dereg_mr(mr); }

ibv_comp_channel* KernelVerbs::create_comp_channel(ibv_context* context) {
  return ibv_create_comp_channel(context);
}
int KernelVerbs::destroy_comp_channel(ibv_comp_channel* channel) {
  return ibv_destroy_comp_channel(channel);
}
ibv_cq* KernelVerbs::create_cq(ibv_context* context, int cqe, void* cq_context,
                               ibv_comp_channel* channel, int comp_vector) {
  return ibv_create_cq(context, cqe, cq_context, channel, comp_vector);
}
int KernelVerbs::resize_cq(ibv_cq* cq, int cqe) { return ibv_resize_cq(cq, cqe); }
int KernelVerbs::destroy_cq(ibv_cq* cq) { return ibv_destroy_cq(cq); }
int KernelVerbs::get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  return ibv_get_cq_event(channel, cq, cq_context);
}
void KernelVerbs::ack_cq_events(ibv_cq* cq, unsigned int count) { ibv_ack_cq_events(cq, count); }

ibv_srq* KernelVerbs::create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  return ibv_create_srq(pd, attr);
}
int KernelVerbs::modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  return ibv_modify_srq(srq, attr, mask);
}
int KernelVerbs::query_srq(ibv_srq* srq, ibv_srq_attr* attr) { return ibv_query_srq(srq, attr); }
int KernelVerbs::destroy_srq(ibv_srq* srq) { return ibv_destroy_srq(srq); }

ibv_qp* KernelVerbs::create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  return ibv_create_qp(pd, attr);
}
int KernelVerbs::modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  return ibv_modify_qp(qp, attr, mask);
}
int KernelVerbs::query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
  return ibv_query_qp(qp, attr, mask, init);
}
int KernelVerbs::destroy_qp(ibv_qp* qp) { return ibv_destroy_qp(qp); }

int KernelVerbs::modify_qp_udp_sport(ibv_qp* qp, std::uint16_t port) {
  const Mlx5Entries& mlx5 = mlx5_entries();
  if (mlx5.modify_sport == nullptr || !mlx5.is_supported(qp->context->device)) return EOPNOTSUPP;
  return mlx5.modify_sport(qp, port);
}
int KernelVerbs::query_qp_udp_sport(ibv_qp*, std::uint16_t*) { return EOPNOTSUPP; }

}  // namespace braid::verbs
