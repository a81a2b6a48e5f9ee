#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/ring.h"

// Private to the fault decorator: the objects that it hands out. Each derives from the verbs
// struct, so that the pointer an application holds leads to the decorator without a lookup, and
// names the device's own object, which the application never sees.
namespace braid::verbs {

class FaultVerbs;
struct FaultQp;

struct FaultContext : ibv_context {
  FaultVerbs* api = nullptr;
  ibv_context* inner = nullptr;
};

struct FaultPd : ibv_pd {
  ibv_pd* inner = nullptr;
};

struct FaultMr : ibv_mr {
  ibv_mr* inner = nullptr;
};

struct FaultChannel : ibv_comp_channel {
  ibv_comp_channel* inner = nullptr;
};

struct FaultSrq : ibv_srq {
  ibv_srq* inner = nullptr;
};

/// A completion that is held back, or that waits behind one of the same QP.
struct HeldCompletion {
  ibv_wc wc;
  std::uint32_t polls_left = 0;
  std::uint32_t distance_left = 0;  // 0 = released by polls only
  bool keep_qp_order = true;
};

struct FaultCq : ibv_cq {
  ibv_cq* inner = nullptr;
  std::mutex hold_mutex;                   // guards what follows
  FaultQp* qps = nullptr;                  // whose completions come here
  Ring<ibv_wc> ready;                      // to be handed on, oldest first
  std::unique_ptr<HeldCompletion[]> held;  // oldest first
  std::size_t held_count = 0;
  std::size_t held_capacity = 0;
};

struct FaultQp : ibv_qp {
  ibv_qp* inner = nullptr;
  std::uint32_t ordinal = 0;
  FaultQp* next_of_send_cq = nullptr;
  FaultQp* next_of_recv_cq = nullptr;  // unused where both queues share a CQ
};

}  // namespace braid::verbs
