#pragma once

#include <infiniband/verbs.h>

namespace braid::softverbs {

/// Attributes that a transition of an RC QP must and may carry, beside IBV_QP_STATE.
/// Source: IBTA table 96 and man ibv_modify_qp.
struct QpTransition {
  ibv_qp_state from;
  ibv_qp_state to;
  int required;
  int optional;
};

/// The transition, or null when the states are not connected. RESET and ERR, which every state
/// leads to without attributes, are included.
[[nodiscard]] const QpTransition* find_transition(ibv_qp_state from, ibv_qp_state to) noexcept;

/// True when `mask` (with or without IBV_QP_STATE) has all that the transition requires and
/// nothing that it does not know.
[[nodiscard]] bool allows(const QpTransition& transition, int mask) noexcept;

}  // namespace braid::softverbs
