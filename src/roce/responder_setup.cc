#include <cstddef>
#include <memory>
#include <utility>

#include "roce/engine.h"
#include "roce/responder.h"

namespace braid::roce {

void Responder::reserve(std::uint32_t max_dest_rd_atomic) {
  auto resources = std::make_unique<ReadAtomicResource[]>(max_dest_rd_atomic);
  state_.jobs = Ring<ResponseJob>(std::size_t{2} * max_dest_rd_atomic);
  state_.resources = std::move(resources);
  state_.max_dest_rd_atomic = max_dest_rd_atomic;
  state_.resource_count = 0;
}

void Responder::start(Psn expected_psn) noexcept {
  state_.expected_psn = expected_psn;
  state_.msn = Msn(0);
}

void Responder::reset() noexcept {
  state_.message = ResponderState::Message::kNone;
  state_.nak_sent = state_.rnr_sent = state_.ack_pending = state_.nak_pending = false;
  state_.comm_established = false;
  state_.has_receive = false;
  state_.resource_count = 0;
  state_.jobs.clear();
  if (qp_.receives != nullptr) qp_.receives->clear();
}

void Responder::flush() noexcept {
  // READs and atomics that came before the request that failed are still answered, ahead of its
  // NAK: their requester would otherwise ask a dead QP for them until its retries are used up.
  if (!state_.nak_pending) state_.jobs.clear();
  state_.ack_pending = false;
  state_.message = ResponderState::Message::kNone;
  const Headers none;
  if (state_.has_receive) complete_receive(none, IBV_WC_RECV, 0, IBV_WC_WR_FLUSH_ERR);
  if (qp_.receives == nullptr) {
    engine_.events_.on_qp_event(qp_, IBV_EVENT_QP_LAST_WQE_REACHED);
    return;
  }
  while (!qp_.receives->empty()) {
    take_receive();
    complete_receive(none, IBV_WC_RECV, 0, IBV_WC_WR_FLUSH_ERR);
  }
}

}  // namespace braid::roce
