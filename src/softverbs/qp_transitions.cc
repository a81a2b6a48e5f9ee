#include "softverbs/qp_transitions.h"

#include <array>

namespace braid::softverbs {
namespace {

// Path migration is not in the table: the device has no alternate path. Neither are the rd_atomic
// depths in SQD: their queues are sized once, on the way up.
constexpr int kBase = IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
constexpr int kRunning = IBV_QP_CUR_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_MIN_RNR_TIMER;

constexpr std::array kTransitions{
    QpTransition{IBV_QPS_RESET, IBV_QPS_INIT, kBase, 0},
    QpTransition{IBV_QPS_INIT, IBV_QPS_INIT, 0, kBase},
    QpTransition{IBV_QPS_INIT, IBV_QPS_RTR,
                 IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                 IBV_QP_PKEY_INDEX | IBV_QP_ACCESS_FLAGS},
    QpTransition{IBV_QPS_RTR, IBV_QPS_RTS,
                 IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                     IBV_QP_MAX_QP_RD_ATOMIC,
                 kRunning},
    QpTransition{IBV_QPS_RTS, IBV_QPS_RTS, 0, kRunning},
    QpTransition{IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY},
    QpTransition{IBV_QPS_SQD, IBV_QPS_RTS, 0, kRunning},
    QpTransition{IBV_QPS_SQD, IBV_QPS_SQD, 0,
                 kRunning | IBV_QP_PKEY_INDEX | IBV_QP_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                     IBV_QP_RNR_RETRY},
};

constexpr std::array kEnds{
    QpTransition{IBV_QPS_UNKNOWN, IBV_QPS_RESET, 0, 0},
    QpTransition{IBV_QPS_UNKNOWN, IBV_QPS_ERR, 0, 0},
};

}  // namespace

const QpTransition* find_transition(ibv_qp_state from, ibv_qp_state to) noexcept {
  for (const QpTransition& transition : kEnds) {
    if (transition.to == to) return &transition;
  }
  for (const QpTransition& transition : kTransitions) {
    if (transition.from == from && transition.to == to) return &transition;
  }
  return nullptr;
}

bool allows(const QpTransition& transition, int mask) noexcept {
  const int attributes = mask & ~IBV_QP_STATE;
  const int known = transition.required | transition.optional | IBV_QP_CUR_STATE;
  return (attributes & transition.required) == transition.required && (attributes & ~known) == 0;
}

}  // namespace braid::softverbs
