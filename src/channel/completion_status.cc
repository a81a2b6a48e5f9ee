#include "channel/completion_status.h"

namespace braid::channel {
namespace {

const char* explain(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_RETRY_EXC_ERR:
      return "the peer's device does not answer: it is gone, unreachable, or this path loses "
             "everything";
    case IBV_WC_RNR_RETRY_EXC_ERR: return "the peer posted no receives in time";
    case IBV_WC_REM_ACCESS_ERR:
      return "the peer's region does not allow this range or access, or its registration is gone";
    case IBV_WC_REM_OP_ERR: return "the peer's device failed the operation";
    case IBV_WC_REM_INV_REQ_ERR: return "the peer's device takes the request for invalid";
    case IBV_WC_LOC_PROT_ERR:
      return "the local region does not cover the range or belongs to another device";
    case IBV_WC_WR_FLUSH_ERR:
      return "the queue pair went into error: the peer broke a rule, or its device was closed";
    default: return "the device failed the work request";
  }
}

}  // namespace

std::string describe(ibv_wc_status status) {
  return std::string(explain(status)) + " (work completion status " + std::to_string(status) +
         ", " + ibv_wc_status_str(status) + ")";
}

bool is_fault_of_request(ibv_wc_status status) noexcept {
  switch (status) {
    case IBV_WC_LOC_LEN_ERR:
    case IBV_WC_LOC_QP_OP_ERR:
    case IBV_WC_LOC_PROT_ERR:
    case IBV_WC_LOC_ACCESS_ERR:
    case IBV_WC_MW_BIND_ERR:
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR: return true;
    default: return false;
  }
}

}  // namespace braid::channel
