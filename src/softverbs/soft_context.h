#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

#include "base/ring.h"
#include "roce/engine.h"
#include "roce/wire_format.h"
#include "softverbs/device_driver.h"
#include "softverbs/file_descriptor.h"
#include "softverbs/soft_objects.h"

namespace braid::softverbs {

/// Makes the driver of a device when it is opened: UDP sockets, or a simulated fabric.
class DriverFactory {
 public:
  virtual ~DriverFactory() = default;
  /// Errors: any Status; `error` then holds a sentence for the user.
  virtual Result<std::unique_ptr<DeviceDriver>> make_driver(roce::EngineEvents& events,
                                                            std::string* error) noexcept = 0;
};

/// Takes sentences about failures that an errno alone does not explain.
using ErrorSink = std::function<void(const std::string&)>;

/// Limits that ibv_query_device reports and creation enforces.
struct SoftLimits {
  static constexpr int kMaxQp = 16384;
  static constexpr int kMaxQpWr = 16384;
  static constexpr int kMaxSge = 32;
  static constexpr int kMaxInlineBytes = 1024;
  static constexpr int kMaxCq = 65536;
  static constexpr int kMaxCqe = 1 << 22;
  static constexpr int kMaxMr = 65536;
  static constexpr int kMaxPd = 65536;
  static constexpr int kMaxSrq = 16384;
  static constexpr int kMaxRdAtomic = 128;
  static constexpr std::uint32_t kMaxMessageBytes = roce::kMaxMessageBytes;
  static constexpr std::uint8_t kPorts = 1;
};

/// An open soft device: the ibv_context and everything that is created from it.
///
/// The methods are the verbs of the same names; results and errno are those of libibverbs.
/// Thread: any; each method takes the device's mutex itself unless it says otherwise.
class SoftContext final : public roce::EngineEvents {
 public:
  /// Opens `device`. Null with errno when the driver cannot be made; the sink says why.
  static SoftContext* open(ibv_device* device, DriverFactory& factory, ErrorSink sink) noexcept;
  ~SoftContext() override;
  /// Always 0. As with libibverbs, objects that still exist stop working and must not be used.
  static int close(SoftContext* context) noexcept;
  [[nodiscard]] static SoftContext& of(ibv_context* context) noexcept;

  [[nodiscard]] ibv_context* handle() noexcept { return &handle_.verbs.context; }
  [[nodiscard]] DeviceDriver& driver() noexcept { return *driver_; }

  // soft_context.cc
  int query_device(ibv_device_attr* attr) noexcept;
  int query_port(std::uint8_t port, ibv_port_attr* attr) noexcept;
  int query_gid(std::uint8_t port, int index, ibv_gid* gid) noexcept;
  int query_gid_ex(std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry) noexcept;
  int query_pkey(std::uint8_t port, int index, __be16* pkey) noexcept;

  // soft_events.cc
  int get_async_event(ibv_async_event* event) noexcept;
  static void ack_async_event(ibv_async_event* event) noexcept;
  /// Raises IBV_EVENT_PORT_ERR, _PORT_ACTIVE or _GID_CHANGE; query_port() follows the first two.
  void raise_port_event(ibv_event_type type) noexcept;
  ibv_comp_channel* create_comp_channel() noexcept;
  static int destroy_comp_channel(ibv_comp_channel* channel) noexcept;
  static int get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) noexcept;
  static void ack_cq_events(ibv_cq* cq, unsigned count) noexcept;

  // soft_memory.cc
  ibv_pd* alloc_pd() noexcept;
  int dealloc_pd(ibv_pd* pd) noexcept;
  ibv_mr* reg_mr(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova,
                 int access) noexcept;
  int rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t bytes,
               int access) noexcept;
  int dereg_mr(ibv_mr* mr) noexcept;

  // soft_cq.cc
  ibv_cq_ex* create_cq(int cqe, void* cq_context, ibv_comp_channel* channel, int comp_vector,
                       std::uint64_t wc_flags) noexcept;
  int resize_cq(ibv_cq* cq, int cqe) noexcept;
  int destroy_cq(ibv_cq* cq) noexcept;

  // soft_srq.cc
  ibv_srq* create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) noexcept;
  int modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) noexcept;
  int query_srq(ibv_srq* srq, ibv_srq_attr* attr) noexcept;
  int destroy_srq(ibv_srq* srq) noexcept;

  // soft_qp.cc, soft_qp_modify.cc
  ibv_qp* create_qp(ibv_qp_init_attr_ex* attr) noexcept;
  int modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) noexcept;
  int query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) noexcept;
  int destroy_qp(ibv_qp* qp) noexcept;
  /// EINVAL unless the QP is in RTR or RTS; the errno of the port when it cannot be bound.
  int modify_source_port(ibv_qp* qp, std::uint16_t port) noexcept;
  int query_source_port(ibv_qp* qp, std::uint16_t* port) noexcept;

  // EngineEvents; called with the mutex held.
  void on_completion_event(roce::CompletionQueue& queue) noexcept override;
  void on_qp_event(roce::Qp& qp, ibv_event_type type) noexcept override;
  void on_cq_event(roce::CompletionQueue& queue, ibv_event_type type) noexcept override;
  void on_srq_event(roce::ReceiveQueue& queue, ibv_event_type type) noexcept override;

 private:
  // verbs.h finds the verbs_context by offset from the ibv_context; so do we for `self`.
  struct Handle {
    SoftContext* self;
    verbs_context verbs;
  };

  explicit SoftContext(ErrorSink sink) : sink_(std::move(sink)) {}
  void fill_handle(ibv_device* device) noexcept;

  void queue_async_event(const ibv_async_event& event) noexcept;
  void remove_async_events(const void* object) noexcept;
  void drop_completion_event(SoftCq& cq) noexcept;

  [[nodiscard]] bool has_valid_caps(const ibv_qp_init_attr_ex& attr) const noexcept;
  [[nodiscard]] int check_modify(const ibv_qp_attr& attr, int mask, ibv_qp_state from,
                                 ibv_qp_state to) const noexcept;
  [[nodiscard]] int resolve_flow(const SoftQp& qp, const ibv_qp_attr& attr, int mask,
                                 roce::FlowAddress& flow) const noexcept;
  [[nodiscard]] int open_flow_port(SoftQp& qp, roce::FlowAddress& flow, bool requested) noexcept;
  void close_flow_port(SoftQp& qp) noexcept;

  Handle handle_{};
  ErrorSink sink_;
  std::unique_ptr<DeviceDriver> driver_;
  FileDescriptor async_event_;  // a semaphore eventfd, as SoftChannel::event
  Ring<ibv_async_event> async_events_{256};
  std::uint64_t async_events_lost_ = 0;
  bool port_active_ = true;
  std::uint32_t next_pd_ = 1;
  std::uint32_t next_handle_ = 1;
  std::uint32_t object_count_ = 0;
  std::uint32_t pd_count_ = 0;
  std::uint32_t cq_count_ = 0;
  std::uint32_t srq_count_ = 0;
};

// Hot calls of ibv_context::ops (soft_datapath.cc).
int soft_post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad) noexcept;
int soft_post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept;
int soft_post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) noexcept;
int soft_poll_cq(ibv_cq* cq, int count, ibv_wc* out) noexcept;
int soft_req_notify_cq(ibv_cq* cq, int solicited_only) noexcept;

/// Fills the ibv_wr_* functions of a QP (soft_qp_ex.cc). `send_ops` are the operations asked for.
void install_wr_functions(SoftQp& qp, std::uint64_t send_ops) noexcept;
/// Fills the polling functions of a CQ (soft_cq_ex.cc).
void install_poll_functions(SoftCq& cq) noexcept;

}  // namespace braid::softverbs
