#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "roce/completion_queue.h"
#include "roce/engine.h"
#include "roce/receive_queue.h"
#include "softverbs/file_descriptor.h"

namespace braid::softverbs {

class SoftContext;

// The objects that applications hold as ibv_pd*, ibv_mr* and so on. Each derives from the public
// structure of verbs.h, so that the handle converts without a lookup. Fields without another word
// are guarded by the device's mutex.

struct SoftPd : ibv_pd {
  roce::PdId id{};
  std::uint32_t children = 0;  // MRs, QPs and SRQs that keep it alive
};

struct SoftMr : ibv_mr {
  std::uint64_t iova = 0;
  int access = 0;
};

struct SoftCq;

struct SoftChannel : ibv_comp_channel {
  FileDescriptor event;          // a semaphore eventfd: readable while an event is queued
  SoftCq* queue_head = nullptr;  // CQs with an undelivered event, oldest first
  SoftCq* queue_tail = nullptr;
};

/// ibv_cq_ex begins like ibv_cq, and both are handed out for the same object.
struct SoftCq : ibv_cq_ex {
  SoftContext* owner = nullptr;
  std::unique_ptr<roce::CompletionQueue> queue;
  std::uint32_t users = 0;  // QPs that complete into it
  std::uint32_t comp_events_delivered = 0;
  std::uint32_t async_events_delivered = 0;
  // One event is queued at a time: whoever takes it arms and polls again, which covers the others.
  bool event_queued = false;
  SoftCq* next_queued = nullptr;
  // Of the extended polling interface; used by one thread between start_poll and end_poll.
  ibv_wc current{};
};

struct SoftSrq : ibv_srq {
  SoftContext* owner = nullptr;
  std::unique_ptr<roce::ReceiveQueue> queue;
  std::uint32_t max_wr = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t users = 0;
  std::uint32_t events_delivered = 0;
};

/// WRs that ibv_wr_start() .. ibv_wr_complete() collect. Only for QPs created with send_ops_flags.
struct SoftQpStaging {
  std::uint32_t capacity = 0;
  std::uint32_t max_sge = 0;
  std::uint32_t max_inline_bytes = 0;
  std::uint32_t count = 0;
  int error = 0;
  std::unique_ptr<ibv_send_wr[]> wrs;
  std::unique_ptr<ibv_sge[]> sges;              // max_sge per WR
  std::unique_ptr<std::uint8_t[]> inline_data;  // max_inline_bytes per WR
};

/// ibv_qp_ex begins with an ibv_qp, and both are handed out for the same object.
struct SoftQp : ibv_qp_ex {
  // ibv_qp_to_qp_ex() of libibverbs, which applications call without the preload library, looks at
  // the word behind the ibv_qp_ex: bit 1 says that the QP was made for ibv_wr_*().
  static constexpr std::uint32_t kExtended = 1U << 1;
  std::uint32_t extension_mask = 0;
  SoftContext* owner = nullptr;
  roce::Qp* engine_qp = nullptr;
  ibv_qp_attr attr{};  // as modified so far, for ibv_query_qp
  ibv_qp_init_attr init{};
  std::uint16_t open_port = 0;  // source port held open at the driver; 0 = none
  std::uint32_t events_delivered = 0;
  std::unique_ptr<SoftQpStaging> staging;
};

[[nodiscard]] inline SoftPd* soft(ibv_pd* pd) noexcept { return static_cast<SoftPd*>(pd); }
[[nodiscard]] inline SoftMr* soft(ibv_mr* mr) noexcept { return static_cast<SoftMr*>(mr); }
[[nodiscard]] inline SoftSrq* soft(ibv_srq* srq) noexcept { return static_cast<SoftSrq*>(srq); }
[[nodiscard]] inline SoftChannel* soft(ibv_comp_channel* channel) noexcept {
  return static_cast<SoftChannel*>(channel);
}
[[nodiscard]] inline SoftCq* soft(ibv_cq_ex* cq) noexcept { return static_cast<SoftCq*>(cq); }
[[nodiscard]] inline SoftCq* soft(ibv_cq* cq) noexcept {
  return soft(reinterpret_cast<ibv_cq_ex*>(cq));
}
[[nodiscard]] inline SoftQp* soft(ibv_qp_ex* qp) noexcept { return static_cast<SoftQp*>(qp); }
[[nodiscard]] inline SoftQp* soft(ibv_qp* qp) noexcept {
  return soft(reinterpret_cast<ibv_qp_ex*>(qp));
}
[[nodiscard]] inline ibv_cq* public_cq(SoftCq& cq) noexcept {
  return ibv_cq_ex_to_cq(static_cast<ibv_cq_ex*>(&cq));
}

}  // namespace braid::softverbs
