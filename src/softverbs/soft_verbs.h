#pragma once

#include <braid/result.h>
#include <braid/soft_device.h>
#include <infiniband/verbs.h>

#include <memory>
#include <string>
#include <vector>

#include "softverbs/soft_context.h"
#include "verbs/verbs_api.h"

namespace braid::softverbs {

/// A device that SoftVerbs lists: a name, and what opens it.
struct SoftDeviceEntry {
  std::string name;
  std::unique_ptr<DriverFactory> factory;
};

/// The soft devices of one process as a VerbsApi.
///
/// Contexts that it opens are complete libibverbs contexts, extended entry points included
/// (ibv_create_qp_ex, ibv_create_cq_ex, ibv_query_device_ex, ibv_wr_*). What the device lacks
/// (UD, UC, memory windows, on-demand paging, dma-buf, timestamps) fails with EOPNOTSUPP.
/// Owner: outlives every context. Thread: any. A child after fork() has no device thread and must
/// not use its parent's contexts.
class SoftVerbs final : public verbs::VerbsApi {
 public:
  /// One device over UDP per entry of `options`. The sockets are opened by open_device().
  /// `sink` receives a sentence for failures that an errno alone does not explain (an address or
  /// a port that is taken); null writes them to stderr.
  static Result<std::unique_ptr<SoftVerbs>> create(std::vector<SoftDeviceOptions> options,
                                                   ErrorSink sink = nullptr) noexcept;
  static Result<std::unique_ptr<SoftVerbs>> create(const SoftDeviceOptions& options,
                                                   ErrorSink sink = nullptr) noexcept {
    return create(std::vector<SoftDeviceOptions>{options}, std::move(sink));
  }
  /// Devices over drivers of the caller's choice: simulated or in-memory wires.
  SoftVerbs(std::vector<SoftDeviceEntry> devices, ErrorSink sink);
  ~SoftVerbs() override;

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
  struct Device;

  std::vector<std::unique_ptr<Device>> devices_;
  ErrorSink sink_;
};

}  // namespace braid::softverbs
