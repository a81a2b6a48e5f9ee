#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "verbs/verbs_api.h"

namespace braid::bench {

struct NullQp;

/// A device that moves nothing and takes no time: what is posted completes within the call, at both
/// ends, and no byte of the data is looked at. What remains of a measurement is the cost of the
/// software above.
///
/// It knows what a channel's puts and control messages need (WRITE_WITH_IMM, WRITE, SEND, receives,
/// two-sided within one process) and answers ENOSYS to the rest. A receive that is missing is
/// counted; credits must make that impossible.
/// Thread: none. Cost: no allocation after the objects are made.
class NullVerbs final : public verbs::VerbsApi {
 public:
  NullVerbs();
  ~NullVerbs() override;

  [[nodiscard]] std::uint64_t doorbells() const noexcept { return doorbells_; }
  [[nodiscard]] std::uint64_t posted_sends() const noexcept { return posted_; }
  /// Sends that met no receive, and completions that met a full queue.
  [[nodiscard]] std::uint64_t faults() const noexcept { return faults_; }

  ibv_device** get_device_list(int* count) override;
  void free_device_list(ibv_device** list) override;
  const char* get_device_name(ibv_device* device) override;
  std::uint64_t get_device_guid(ibv_device*) override { return 0; }
  ibv_context* open_device(ibv_device* device) override;
  int close_device(ibv_context* context) override;
  int query_device(ibv_context* context, ibv_device_attr* attr) override;
  int query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) override;
  int query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) override;
  int query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                   ibv_gid_entry* entry) override;
  int query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) override;
  int get_async_event(ibv_context*, ibv_async_event*) override;
  void ack_async_event(ibv_async_event*) override {}
  ibv_pd* alloc_pd(ibv_context* context) override;
  int dealloc_pd(ibv_pd* pd) override;
  ibv_mr* reg_mr_iova(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova,
                      int access) override;
  ibv_mr* reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) override;
  int rereg_mr(ibv_mr*, int, ibv_pd*, void*, std::size_t, int) override;
  int dereg_mr(ibv_mr* mr) override;
  ibv_comp_channel* create_comp_channel(ibv_context*) override;
  int destroy_comp_channel(ibv_comp_channel*) override;
  ibv_cq* create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                    int comp_vector) override;
  int resize_cq(ibv_cq*, int) override;
  int destroy_cq(ibv_cq* cq) override;
  int get_cq_event(ibv_comp_channel*, ibv_cq**, void**) override;
  void ack_cq_events(ibv_cq*, unsigned int) override {}
  ibv_srq* create_srq(ibv_pd*, ibv_srq_init_attr*) override;
  int modify_srq(ibv_srq*, ibv_srq_attr*, int) override;
  int query_srq(ibv_srq*, ibv_srq_attr*) override;
  int destroy_srq(ibv_srq*) override;
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override;
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override;
  int query_qp(ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*) override;
  int destroy_qp(ibv_qp* qp) override;
  int modify_qp_udp_sport(ibv_qp*, std::uint16_t) override;
  int query_qp_udp_sport(ibv_qp*, std::uint16_t*) override;

 private:
  friend struct NullContext;
  int post_send(NullQp& qp, ibv_send_wr* wr, ibv_send_wr** bad);
  bool deliver(const NullQp& from, NullQp& to, const ibv_send_wr& wr);

  ibv_device device_{};
  std::vector<NullQp*> qps_;  // by number; null once destroyed
  std::uint64_t doorbells_ = 0;
  std::uint64_t posted_ = 0;
  std::uint64_t faults_ = 0;
};

}  // namespace braid::bench
