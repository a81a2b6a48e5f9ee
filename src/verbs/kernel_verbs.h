#pragma once

#include <cstdint>

#include "verbs/verbs_api.h"

namespace braid::verbs {

/// The devices that libibverbs knows: kernel drivers, and whatever a preload library adds.
///
/// Every method is the libibverbs call of its name, one direct call away. Vendor entry points are
/// looked up by dlopen when they are first wanted, so a program built with this loads on machines
/// that have none of the vendor libraries.
class KernelVerbs final : public VerbsApi {
 public:
  ibv_device** get_device_list(int* count) override;
  void free_device_list(ibv_device** list) override;
  const char* get_device_name(ibv_device* device) override;
  std::uint64_t get_device_guid(ibv_device* device) override;
  ibv_context* open_device(ibv_device* device) override;
  int close_device(ibv_context* context) override;

  int query_device(ibv_context* context, ibv_device_attr* attr) override;
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) override;
  int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) override;
  int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                   ibv_gid_entry* entry) override;
  int query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) override;

  int get_async_event(ibv_context* context, ibv_async_event* event) override;
  void ack_async_event(ibv_async_event* event) override;

  ibv_pd* alloc_pd(ibv_context* context) override;
  int dealloc_pd(ibv_pd* pd) override;
  ibv_mr* reg_mr_iova(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova,
                      int access) override;
  ibv_mr* reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t bytes, std::uint64_t iova,
                        int fd, int access) override;
  int rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t bytes,
               int access) override;
  int dereg_mr(ibv_mr* mr) override;

  ibv_comp_channel* create_comp_channel(ibv_context* context) override;
  int destroy_comp_channel(ibv_comp_channel* channel) override;
  ibv_cq* create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                    int comp_vector) override;
  int resize_cq(ibv_cq* cq, int cqe) override;
  int destroy_cq(ibv_cq* cq) override;
  int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) override;
  void ack_cq_events(ibv_cq* cq, unsigned int count) override;

  ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) override;
  int modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) override;
  int query_srq(ibv_srq* srq, ibv_srq_attr* attr) override;
  int destroy_srq(ibv_srq* srq) override;

  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override;
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override;
  int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) override;
  int destroy_qp(ibv_qp* qp) override;

  /// By mlx5dv_modify_qp_udp_sport (rdma-core v33; RC and UC, in RTS). EOPNOTSUPP when the QP is
  /// not an mlx5 one or the library or its symbol is absent.
  int modify_qp_udp_sport(ibv_qp* qp, std::uint16_t port) override;
  /// Always EOPNOTSUPP: no kernel driver reports the port that it uses.
  int query_qp_udp_sport(ibv_qp* qp, std::uint16_t* port) override;
};

}  // namespace braid::verbs
