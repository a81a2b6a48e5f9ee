#include <algorithm>

#include "roce/engine.h"
#include "roce/responder.h"

namespace braid::roce {

// Requests behind the expected PSN: the peer has not seen our answer (IBTA 9.7.5.1.2).
void Responder::handle_duplicate(const Headers& headers) noexcept {
  ++engine_.counters_.duplicate_requests;
  const OpcodeTraits& traits = traits_of(static_cast<std::uint8_t>(headers.opcode));
  if (traits.send || traits.write) {
    state_.ack_pending = true;  // acknowledges expected_psn - 1, hence this one too
    return;
  }
  const ReadAtomicResource* resource = find_resource(headers.psn);
  if (resource == nullptr || resource->atomic != traits.atomic || resource->rkey != headers.rkey) {
    engine_.count_drop(DropReason::kDuplicateDropped);
    return;
  }
  replay(headers, *resource);
}

void Responder::replay(const Headers& headers, const ReadAtomicResource& resource) noexcept {
  ResponseJob job;
  job.first_psn = headers.psn;
  job.msn = state_.msn;
  job.rkey = headers.rkey;
  if (resource.atomic) {
    if (headers.psn != resource.first_psn || headers.remote_address != resource.remote_address) {
      engine_.count_drop(DropReason::kDuplicateDropped);
      return;
    }
    job.atomic = true;
    job.packet_count = 1;
    job.original = resource.original;
  } else {
    const std::uint64_t offset =
        std::uint64_t{static_cast<std::uint32_t>(headers.psn - resource.first_psn)}
        << qp_.mtu_shift;
    const bool inside = headers.remote_address == resource.remote_address + offset &&
                        offset + headers.dma_length <= resource.length_bytes;
    // A copy that the network delivered late may name a region that is gone since. Its original was
    // answered, so that is nobody's fault.
    const bool readable =
        headers.dma_length == 0 ||
        engine_.memory_.resolve(headers.rkey, qp_.init.pd, IBV_ACCESS_REMOTE_READ,
                                headers.remote_address, headers.dma_length) != nullptr;
    if (!inside || !readable) {
      engine_.count_drop(DropReason::kDuplicateDropped);
      return;
    }
    job.remote_address = headers.remote_address;
    job.length_bytes = headers.dma_length;
    job.packet_count = std::max(1U, (headers.dma_length + (qp_.mtu_bytes - 1)) >> qp_.mtu_shift);
  }
  // The peer starts over from here, so what is still queued from here on would be sent twice.
  truncate_jobs(headers.psn);
  if (!enqueue(job)) engine_.count_drop(DropReason::kDuplicateDropped);
}

void Responder::truncate_jobs(Psn psn) noexcept {
  while (!state_.jobs.empty()) {
    ResponseJob& newest = state_.jobs.at(state_.jobs.size() - 1);
    if (newest.first_psn >= psn) {
      state_.jobs.pop_newest();
      continue;
    }
    const auto kept = static_cast<std::uint32_t>(psn - newest.first_psn);
    if (kept < newest.packet_count) {
      newest.packet_count = kept;
      newest.length_bytes = kept << qp_.mtu_shift;
      if (newest.sent_count >= kept) state_.jobs.pop_newest();
    }
    break;
  }
}

const ReadAtomicResource* Responder::find_resource(Psn psn) const noexcept {
  const std::uint32_t kept = std::min(state_.resource_count, state_.max_dest_rd_atomic);
  for (std::uint32_t back = 1; back <= kept; ++back) {
    const ReadAtomicResource& resource =
        state_.resources[(state_.resource_count - back) % state_.max_dest_rd_atomic];
    if (psn >= resource.first_psn && psn <= resource.last_psn) return &resource;
  }
  return nullptr;
}

void Responder::remember(const ReadAtomicResource& resource) noexcept {
  state_.resources[state_.resource_count++ % state_.max_dest_rd_atomic] = resource;
}

bool Responder::enqueue(const ResponseJob& job) noexcept { return state_.jobs.push(job); }

}  // namespace braid::roce
