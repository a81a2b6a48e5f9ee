#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "base/random.h"
#include "base/ring.h"
#include "verbs/verbs_api.h"

namespace braid::test {

struct LoopQp;
struct LoopSend;
struct LoopContext;

/// With what a QP was brought up.
struct QpBringUp {
  std::uint32_t qpn = 0;
  std::size_t receives = 0;  // that it had when it began to take packets
  ibv_ah_attr address{};
  std::uint8_t timeout = 0;
  std::uint8_t retry_count = 0;
  std::uint8_t rnr_retry = 0;
};

/// Two or more channels' device within one test: RDMA_WRITE_WITH_IMM, RDMA_WRITE, RDMA_READ, the
/// atomics and SEND between QPs of the same LoopVerbs, with bounds, keys, receives and flushing as
/// verbs demand. Work waits in its QP until deliver() executes it, so the test decides the order
/// across QPs.
///
/// A receive that is missing is an RNR error at once: credits must make that impossible.
/// Single-threaded. Data path without allocation.
class LoopVerbs final : public verbs::VerbsApi {
 public:
  LoopVerbs();
  ~LoopVerbs() override;

  /// Executes the oldest work of one QP that has some, chosen at random; false when none has any.
  bool deliver_one(Random& random);
  /// Executes everything, QP by QP. Returns how many.
  std::size_t deliver_all();
  /// Work of this QP stays where it is.
  void hold(std::uint32_t qpn, bool held);
  /// The QP goes to error: its oldest work ends with `status`, the rest is flushed.
  void break_qp(std::uint32_t qpn, ibv_wc_status status);
  /// Completions of what this QP sends successfully are swallowed from now on.
  void lose_completions(std::uint32_t qpn);
  /// Nothing reaches any peer: every QP that sends ends with RETRY_EXC.
  void unplug(bool unplugged) { unplugged_ = unplugged; }
  /// A QP chosen at random among those that are connected, or 0 when there is none.
  std::uint32_t random_qpn(Random& random) const;
  /// The next `count` QPs cannot be made.
  void refuse_qps(int count) { refuse_qps_ = count; }
  /// The next `count` posts of sends take only the first WR and say ENOMEM for the rest.
  void refuse_posts(int count) { refuse_posts_ = count; }

  /// The next `count` posts of sends say EIO and name no request.
  void refuse_posts_silently(int count) { refuse_silently_ = count; }

  /// Most READs and atomics that were under way on one QP.
  [[nodiscard]] std::uint32_t reads_high_water() const { return reads_high_water_; }
  [[nodiscard]] std::uint64_t rnr_count() const { return rnr_count_; }
  [[nodiscard]] std::uint64_t doorbells() const { return doorbells_; }
  [[nodiscard]] std::uint64_t cq_overruns() const { return cq_overruns_; }
  [[nodiscard]] std::size_t live_objects() const { return live_; }
  /// Every bring-up so far, in the order of INIT to RTR.
  [[nodiscard]] const std::vector<QpBringUp>& bring_ups() const { return bring_ups_; }
  int max_cqe = 1 << 20;
  int max_rd_atomic = 16;
  ibv_atomic_cap atomic_cap = IBV_ATOMIC_HCA;
  std::uint32_t max_msg_bytes = 1U << 30U;
  bool offer_source_ports = true;  // for queue pairs in RTS

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
  int get_async_event(ibv_context*, ibv_async_event*) override { return -1; }
  void ack_async_event(ibv_async_event*) override {}
  ibv_pd* alloc_pd(ibv_context* context) override;
  int dealloc_pd(ibv_pd* pd) override;
  ibv_mr* reg_mr_iova(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova,
                      int access) override;
  ibv_mr* reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) override;
  int rereg_mr(ibv_mr*, int, ibv_pd*, void*, std::size_t, int) override { return -1; }
  int dereg_mr(ibv_mr* mr) override;
  ibv_comp_channel* create_comp_channel(ibv_context*) override { return nullptr; }
  int destroy_comp_channel(ibv_comp_channel*) override { return -1; }
  ibv_cq* create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel,
                    int comp_vector) override;
  int resize_cq(ibv_cq*, int) override { return -1; }
  int destroy_cq(ibv_cq* cq) override;
  int get_cq_event(ibv_comp_channel*, ibv_cq**, void**) override { return -1; }
  void ack_cq_events(ibv_cq*, unsigned int) override {}
  ibv_srq* create_srq(ibv_pd*, ibv_srq_init_attr*) override { return nullptr; }
  int modify_srq(ibv_srq*, ibv_srq_attr*, int) override { return -1; }
  int query_srq(ibv_srq*, ibv_srq_attr*) override { return -1; }
  int destroy_srq(ibv_srq*) override { return -1; }
  ibv_qp* create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) override;
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) override;
  int query_qp(ibv_qp*, ibv_qp_attr*, int, ibv_qp_init_attr*) override { return -1; }
  int destroy_qp(ibv_qp* qp) override;
  int modify_qp_udp_sport(ibv_qp* qp, std::uint16_t port) override;
  int query_qp_udp_sport(ibv_qp* qp, std::uint16_t* port) override;

 private:
  friend struct LoopContext;
  void note_bring_up(const LoopQp& qp, const ibv_qp_attr& attr);
  int post_send(LoopQp& qp, ibv_send_wr* wr, ibv_send_wr** bad);
  int post_recv(LoopQp& qp, ibv_recv_wr* wr, ibv_recv_wr** bad);
  void execute(LoopQp& qp);
  /// Address of `bytes` bytes that the key allows this access to, or null.
  std::byte* remote(std::uint32_t rkey, std::uint64_t address, std::uint64_t bytes, int access);
  ibv_wc_status execute_one_sided(const LoopSend& send, std::uint32_t bytes);
  void flush(LoopQp& qp, ibv_wc_status first);
  void push(ibv_cq* cq, const ibv_wc& completion);

  ibv_device device_{};
  std::vector<LoopQp*> qps_;  // by creation; null once destroyed
  std::map<std::uint32_t, ibv_mr*> regions_;
  std::map<std::uint32_t, int> region_access_;
  std::uint32_t next_key_ = 1;
  std::size_t live_ = 0;
  int refuse_posts_ = 0;
  int refuse_silently_ = 0;
  int refuse_qps_ = 0;
  std::vector<QpBringUp> bring_ups_;
  bool unplugged_ = false;
  std::uint32_t reads_high_water_ = 0;
  std::uint64_t rnr_count_ = 0;
  std::uint64_t doorbells_ = 0;
  std::uint64_t cq_overruns_ = 0;
};

}  // namespace braid::test
