#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "verbs/verbs_api.h"

namespace braid::verbs {

/// One entry of the fake device's GID table.
struct FakeGid {
  ibv_gid gid{};
  std::uint32_t type = IBV_GID_TYPE_ROCE_V2;
  int error = 0;  // what query_gid_ex returns instead of the entry
};

struct FakeOptions {
  std::vector<FakeGid> gids = {};
  int query_port_error = 0;
  int modify_sport_error = EOPNOTSUPP;  // 0: accepted, and query_qp_udp_sport reports it
  std::uint32_t first_qpn = 100;
};

/// One modify_qp call as it arrived.
struct FakeModify {
  std::uint32_t qpn = 0;
  ibv_qp_attr attr{};
  int mask = 0;
};

/// The least that looks like a device: sends complete at once and go nowhere, receives wait until
/// complete_receive(), ERR flushes. For tests of what stands above a device; single-threaded.
class FakeVerbs final : public VerbsApi {
 public:
  explicit FakeVerbs(FakeOptions options = {});

  /// Completes the oldest posted receive of a QP, or of its SRQ. False when none is posted.
  bool complete_receive(ibv_qp* qp, ibv_wc_opcode opcode, std::uint32_t byte_len,
                        std::uint32_t imm_data);
  /// Puts a completion into a CQ as it is.
  void push_completion(ibv_cq* cq, const ibv_wc& wc);
  void raise_async_event(ibv_context* context, const ibv_async_event& event);

  /// wr_id of every send WR that was accepted, in order.
  [[nodiscard]] const std::vector<std::uint64_t>& sent() const { return sent_; }
  [[nodiscard]] const std::vector<FakeModify>& modifies() const { return modifies_; }
  /// Objects made and not destroyed, contexts included.
  [[nodiscard]] std::size_t live_objects() const { return live_; }
  /// Events taken and not acknowledged, completion and async.
  [[nodiscard]] std::size_t unacknowledged() const { return unacknowledged_; }

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
  FakeOptions options_;
  ibv_device device_{};
  std::uint32_t next_qpn_;
  std::uint32_t next_key_ = 1;
  std::size_t live_ = 0;
  std::size_t unacknowledged_ = 0;
  std::vector<std::uint64_t> sent_;
  std::vector<FakeModify> modifies_;
};

}  // namespace braid::verbs
