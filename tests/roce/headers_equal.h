#pragma once

#include "roce/wire_format.h"

namespace braid::roce::testing {

/// All fields equal.
[[nodiscard]] inline bool headers_equal(const Headers& a, const Headers& b) {
  return a.opcode == b.opcode && a.solicited == b.solicited && a.ack_request == b.ack_request &&
         a.pad_bytes == b.pad_bytes && a.pkey == b.pkey && a.destination_qpn == b.destination_qpn &&
         a.psn == b.psn && a.remote_address == b.remote_address && a.rkey == b.rkey &&
         a.dma_length == b.dma_length && a.imm_network == b.imm_network &&
         a.swap_or_add == b.swap_or_add && a.compare == b.compare && a.syndrome == b.syndrome &&
         a.msn == b.msn && a.original == b.original;
}

}  // namespace braid::roce::testing
