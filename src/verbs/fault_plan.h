#pragma once

#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/random.h"

namespace braid::verbs {

/// Calls that a fault can make fail. Those that cannot report an error are not here.
enum class VerbsCall : std::uint8_t {
  kGetDeviceList,
  kOpenDevice,
  kCloseDevice,
  kQueryDevice,
  kQueryPort,
  kQueryGid,
  kQueryGidEx,
  kQueryPkey,
  kGetAsyncEvent,
  kAllocPd,
  kDeallocPd,
  kRegMrIova,
  kRegDmabufMr,
  kReregMr,
  kDeregMr,
  kCreateCompChannel,
  kDestroyCompChannel,
  kCreateCq,
  kResizeCq,
  kDestroyCq,
  kGetCqEvent,
  kCreateSrq,
  kModifySrq,
  kQuerySrq,
  kDestroySrq,
  kCreateQp,
  kModifyQp,
  kQueryQp,
  kDestroyQp,
  kModifyQpUdpSport,
  kQueryQpUdpSport,
  kReqNotifyCq,
  kCount,
};

/// Where a fault strikes; also what its occurrences are counted in.
enum class FaultPoint : std::uint8_t {
  kCall,         // calls of Fault::call
  kPostSend,     // WRs handed to post_send; a chain of three counts three
  kPostReceive,  // WRs handed to post_recv or post_srq_recv
  kCompletion,   // completions taken from the device by poll_cq
};

enum class FaultAction : std::uint8_t {
  /// Call: it is not forwarded and reports `error`. Post: the WRs before it in its chain are
  /// posted, it and the rest are not, *bad_wr names it and the post returns `error`.
  kFail,
  /// Post: the QP is turned to ERR right after this WR was posted. Completion: right before this
  /// completion is handed on, unchanged.
  kQpToError,
  /// Completion: never handed on.
  kSwallow,
  /// Completion: handed on when the queue has been polled `delay_polls` more times.
  kDelay,
  /// Completion: handed on after the next `distance` completions of the same queue, or after
  /// `delay_polls` more polls, whichever is first.
  kReorder,
  /// Completion: its status becomes `status`. Unless that is IBV_WC_SUCCESS every field that a
  /// device leaves undefined on error (opcode, byte_len, imm_data, wc_flags, src_qp) is overwritten
  /// with garbage, so that who looks at them before the status is found out.
  kSetStatus,
};

/// One fault. The occurrences that match point, call and QP are counted from 1, separately for each
/// fault; it strikes at occurrences first .. first + count - 1.
struct Fault {
  static constexpr std::uint64_t kForEver = ~std::uint64_t{0};

  FaultPoint point = FaultPoint::kCall;
  FaultAction action = FaultAction::kFail;
  VerbsCall call = VerbsCall::kCreateQp;  // kCall only
  /// Only the n-th QP that the decorator has created, from 1; 0 = all. Not for kCall. Posts to a
  /// shared receive queue belong to no QP.
  std::uint32_t qp_ordinal = 0;
  std::uint64_t first = 1;
  std::uint64_t count = 1;
  /// Below 1'000'000 the fault strikes at each occurrence in its range with this chance only.
  std::uint32_t probability_ppm = 1'000'000;
  int error = ENOMEM;                         // kFail; positive
  ibv_wc_status status = IBV_WC_GENERAL_ERR;  // kSetStatus
  std::uint32_t delay_polls = 1;              // kDelay, kReorder
  std::uint32_t distance = 1;                 // kReorder
  /// kDelay, kReorder: hold back later completions of the same QP too, as a device would, which
  /// never reorders within a QP. False makes a device that is broken in this way.
  bool keep_qp_order = true;
};

/// What a FaultVerbs does. Deterministic: the same plan over the same calls does the same.
struct FaultPlan {
  std::vector<Fault> faults = {};
  std::uint64_t seed = 1;  // of probability_ppm
  /// Completions that one CQ holds back at most; a CQ that holds so many takes no more from the
  /// device until polls release one. Memory: 80 bytes each, per CQ.
  std::uint32_t held_completions = 256;
};

/// Combines the faults of a plan with the occurrences so far.
///
/// Thread: any; a mutex serialises. Cost: O(faults) per occurrence, no allocation but in add().
class FaultScript {
 public:
  explicit FaultScript(const FaultPlan& plan);

  /// Adds a fault; its occurrences count from now.
  void add(const Fault& fault);
  /// Forgets all faults.
  void clear();

  /// Counts a call. Returns the errno to fail with, or 0.
  [[nodiscard]] int on_call(VerbsCall call);
  /// Counts a post or completion of a QP. True when a fault strikes, which is then in `fault`; of
  /// several the first in the plan.
  [[nodiscard]] bool strike(FaultPoint point, std::uint32_t qp_ordinal, Fault& fault);

  /// Faults that have struck.
  [[nodiscard]] std::uint64_t struck_count() const;

 private:
  struct Armed {
    Fault fault;
    std::uint64_t seen = 0;
  };

  [[nodiscard]] bool hits(Armed& armed);

  mutable std::mutex mutex_;
  Random random_;
  std::vector<Armed> armed_;
  std::uint64_t struck_ = 0;
};

}  // namespace braid::verbs
