#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "verbs/fault_objects.h"
#include "verbs/fault_plan.h"
#include "verbs/verbs_api.h"

namespace braid::verbs {

/// A device that misbehaves as scripted, over any device that behaves.
///
/// It hands out objects of its own (context, PD, MR, CQ, SRQ, QP, completion channel), whose
/// ibv_context::ops lead to the decorator, and keeps the device's objects to itself. It therefore
/// works over every VerbsApi, kernel devices included. The limits of that:
///  - what it handed out goes back to it only: never to libibverbs or to the inner api directly;
///  - calls that VerbsApi does not have (ibv_create_qp_ex, ibv_create_cq_ex, memory windows,
///    address handles) report EOPNOTSUPP or ENOSYS on its context;
///  - fields of ibv_qp and ibv_cq that the device changes on its own later are not mirrored
///    (ibv_qp::state follows modify_qp, as on hardware);
///  - held completions are released by polling. A program that sleeps on a completion channel is
///    not woken for them: delay and reorder are for programs that poll.
/// Owner: `inner` outlives this; this outlives every object made through it.
/// Thread: as VerbsApi. Cost: per completion O(faults + QPs of the CQ) under a mutex; no
/// allocation when posting or polling.
class FaultVerbs final : public VerbsApi {
 public:
  FaultVerbs(VerbsApi& inner, const FaultPlan& plan);
  ~FaultVerbs() override = default;
  FaultVerbs(const FaultVerbs&) = delete;
  FaultVerbs& operator=(const FaultVerbs&) = delete;

  /// Adds faults while running, e.g. after a connection is up; occurrences count from the call.
  [[nodiscard]] FaultScript& script() noexcept { return script_; }

  /// Completions that a CQ of this decorator holds back at the moment.
  [[nodiscard]] std::size_t held_count(ibv_cq* cq) const;
  /// Makes the next polls of a CQ hand on everything that it holds back.
  void release_held(ibv_cq* cq);
  /// QPs that kQpToError should have turned to ERR and the device refused to turn.
  [[nodiscard]] std::uint64_t refused_count() const noexcept { return refused_.load(); }
  /// The device's own object, to look behind the decorator.
  [[nodiscard]] static ibv_qp* inner_of(ibv_qp* qp) noexcept;

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

  int modify_qp_udp_sport(ibv_qp* qp, std::uint16_t port) override;
  int query_qp_udp_sport(ibv_qp* qp, std::uint16_t* port) override;

 private:
  // Entries of ibv_context::ops.
  static int op_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
  static int op_post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
  static int op_post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad);
  static int op_poll_cq(ibv_cq* cq, int count, ibv_wc* out);
  static int op_req_notify_cq(ibv_cq* cq, int solicited_only);

  /// True when a fault makes this call fail; errno is then set, and is what to return.
  [[nodiscard]] bool fails(VerbsCall call);
  void turn_to_error(FaultQp& qp);
  // The caller holds cq.hold_mutex.
  void accept_completion(FaultCq& cq, ibv_wc wc);

  VerbsApi& inner_;
  FaultScript script_;
  std::uint32_t held_capacity_;
  std::atomic<std::uint32_t> qp_count_{0};
  std::atomic<std::uint64_t> refused_{0};
};

}  // namespace braid::verbs
