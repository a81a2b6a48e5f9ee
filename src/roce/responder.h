#pragma once

#include <braid/time.h>
#include <infiniband/verbs.h>

#include <cstdint>

#include "roce/packet.h"
#include "roce/qp.h"

namespace braid::roce {

/// Responder of one QP: executes requests in PSN order, answers duplicates from what it
/// remembers, and builds responses.
///
/// A view that is made for one call; all state is in Qp::responder.
class Responder {
 public:
  Responder(Engine& engine, Qp& qp) noexcept : engine_(engine), qp_(qp), state_(qp.responder) {}

  // responder.cc

  void handle_request(const Packet& packet) noexcept;

  // responder_datapath.cc

  /// Appends up to `budget` response packets. Returns how many.
  std::uint32_t transmit(TxBatch& batch, std::uint32_t budget) noexcept;
  [[nodiscard]] bool wants_transmit() const noexcept {
    return !state_.jobs.empty() || state_.nak_pending || state_.ack_pending;
  }

  // responder_setup.cc

  /// Sizes what is remembered for duplicates; on the way to RTR. Throws std::bad_alloc, with
  /// max_dest_rd_atomic unchanged.
  void reserve(std::uint32_t max_dest_rd_atomic);
  /// Expects the peer's first request; on the way to RTR.
  void start(Psn expected_psn) noexcept;
  /// Completes every receive with IBV_WC_WR_FLUSH_ERR. A NAK that is due still leaves, and before
  /// it the responses to the requests that came before the one it is about.
  void flush() noexcept;
  /// Forgets everything without completing it.
  void reset() noexcept;

 private:
  void execute(const Packet& packet) noexcept;
  void execute_send(const Packet& packet) noexcept;
  void execute_write(const Packet& packet) noexcept;
  void execute_read(const Headers& headers) noexcept;
  void execute_atomic(const Headers& headers) noexcept;
  [[nodiscard]] bool is_in_order(const OpcodeTraits& traits) const noexcept;
  [[nodiscard]] bool begin_write(const Packet& packet) noexcept;
  [[nodiscard]] bool has_valid_size(const Packet& packet,
                                    const OpcodeTraits& traits) const noexcept;

  void handle_ahead() noexcept;
  void handle_duplicate(const Headers& headers) noexcept;
  void replay(const Headers& headers, const ReadAtomicResource& resource) noexcept;
  [[nodiscard]] const ReadAtomicResource* find_resource(Psn psn) const noexcept;
  void remember(const ReadAtomicResource& resource) noexcept;
  [[nodiscard]] bool enqueue(const ResponseJob& job) noexcept;
  void truncate_jobs(Psn psn) noexcept;

  void take_receive() noexcept;
  void complete_receive(const Headers& headers, ibv_wc_opcode opcode, std::uint32_t bytes,
                        ibv_wc_status status) noexcept;
  void finish_packet(const Packet& packet, bool last) noexcept;
  void receiver_not_ready() noexcept;
  void set_nak(std::uint8_t syndrome, Psn psn) noexcept;
  void fail(NakCode code, ibv_event_type event) noexcept;

  [[nodiscard]] bool transmit_job(TxBatch& batch) noexcept;
  void transmit_acknowledge(TxBatch& batch, std::uint8_t syndrome, Psn psn) noexcept;

  Engine& engine_;
  Qp& qp_;
  ResponderState& state_;
};

}  // namespace braid::roce
