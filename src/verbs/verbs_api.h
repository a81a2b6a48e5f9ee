#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

namespace braid::verbs {

/// The calls of libibverbs that verbs.h does not inline, as an interface that is handed in.
///
/// Kernel devices, the soft device, the simulated device and the fault decorator implement it.
/// Names, arguments, results and errno are those of libibverbs (the method `x` is `ibv_x`). The
/// inlined calls (post_send, post_recv, post_srq_recv, poll_cq, req_notify_cq) go through
/// ibv_context::ops as on real hardware and are not here.
/// Owner: the caller keeps the api alive for as long as any object that it made.
/// Thread: as libibverbs, every method may be called from any thread.
class VerbsApi {
 public:
  virtual ~VerbsApi() = default;

  virtual ibv_device** get_device_list(int* count) = 0;
  virtual void free_device_list(ibv_device** list) = 0;
  virtual const char* get_device_name(ibv_device* device) = 0;
  virtual std::uint64_t get_device_guid(ibv_device* device) = 0;  // network byte order
  virtual ibv_context* open_device(ibv_device* device) = 0;
  virtual int close_device(ibv_context* context) = 0;

  virtual int query_device(ibv_context* context, ibv_device_attr* attr) = 0;
  virtual int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) = 0;
  virtual int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) = 0;
  /// ibv_query_gid_ex with flags 0: type and ifindex as well.
  virtual int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                           ibv_gid_entry* entry) = 0;
  virtual int query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) = 0;

  virtual int get_async_event(ibv_context* context, ibv_async_event* event) = 0;
  virtual void ack_async_event(ibv_async_event* event) = 0;

  virtual ibv_pd* alloc_pd(ibv_context* context) = 0;
  virtual int dealloc_pd(ibv_pd* pd) = 0;
  virtual ibv_mr* reg_mr_iova(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova,
                              int access) = 0;
  virtual ibv_mr* reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t bytes,
                                std::uint64_t iova, int fd, int access) = 0;
  virtual int rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t bytes,
                       int access) = 0;
  virtual int dereg_mr(ibv_mr* mr) = 0;

  virtual ibv_comp_channel* create_comp_channel(ibv_context* context) = 0;
  virtual int destroy_comp_channel(ibv_comp_channel* channel) = 0;
  virtual ibv_cq* create_cq(ibv_context* context, int cqe, void* cq_context,
                            ibv_comp_channel* channel, int comp_vector) = 0;
  virtual int resize_cq(ibv_cq* cq, int cqe) = 0;
  virtual int destroy_cq(ibv_cq* cq) = 0;
  virtual int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) = 0;
  virtual void ack_cq_events(ibv_cq* cq, unsigned int count) = 0;

  virtual ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) = 0;
  virtual int modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) = 0;
  virtual int query_srq(ibv_srq* srq, ibv_srq_attr* attr) = 0;
  virtual int destroy_srq(ibv_srq* srq) = 0;

  virtual ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) = 0;
  virtual int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) = 0;
  virtual int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) = 0;
  virtual int destroy_qp(ibv_qp* qp) = 0;

  /// Requests a UDP source port for a QP in RTS, by whatever the device offers
  /// (mlx5dv_modify_qp_udp_sport, the soft device natively). EOPNOTSUPP where it offers nothing.
  virtual int modify_qp_udp_sport(ibv_qp* qp, std::uint16_t port) = 0;
  /// The UDP source port that the QP really uses. EOPNOTSUPP where it cannot be known.
  virtual int query_qp_udp_sport(ibv_qp* qp, std::uint16_t* port) = 0;
};

}  // namespace braid::verbs
