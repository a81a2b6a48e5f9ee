#include <mutex>

#include "sim/fabric_core.h"
#include "sim/port_driver.h"

namespace braid::sim {

void FabricCore::set_faults(std::uint32_t index, const LinkFaults& faults) noexcept {
  Link& link = links_[index];
  if (!link.has_faults) {
    link.has_faults = true;
    link.faults = static_cast<std::uint32_t>(faults_.size());
    faults_.push_back(faults);
  } else {
    faults_[link.faults] = faults;
  }
}

bool FabricCore::survive_faults(std::uint32_t index, std::uint32_t packet,
                                std::int64_t& due_ns) noexcept {
  Link& link = links_[index];
  const LinkFaults& faults = faults_[link.faults];
  if (fault_random_.chance_ppm(faults.drop_ppm)) {
    ++link.counters.dropped_faults;
    drop(packet);
    return false;
  }
  if (fault_random_.chance_ppm(faults.spike_ppm)) due_ns += faults.spike_delay.count();
  if (fault_random_.chance_ppm(faults.duplicate_ppm)) {
    const std::uint32_t copy = pool_.clone(packet);
    if (copy != kNone) hold_back(copy, due_ns + faults.reorder_delay.count());
  }
  if (fault_random_.chance_ppm(faults.corrupt_ppm)) {
    const std::uint64_t bit = fault_random_.below(std::uint64_t{pool_[packet].stored_bytes()} * 8U);
    pool_[packet].payload[bit / 8U] ^= static_cast<std::uint8_t>(1U << (bit % 8U));
  }
  if (fault_random_.chance_ppm(faults.reorder_ppm)) {
    hold_back(packet, due_ns + faults.reorder_delay.count());
    return false;
  }
  return true;
}

void FabricCore::hold_back(std::uint32_t packet, std::int64_t until_ns) noexcept {
  events_.push(until_ns, EventKind::kStray, packet);
}

Status FabricCore::schedule(const FaultEvent& event) {
  const bool names_port = event.kind == FaultKind::kPortDown || event.kind == FaultKind::kPortUp ||
                          event.kind == FaultKind::kHostPause;
  const bool is_known = names_port ? is_port(static_cast<std::uint32_t>(event.port))
                                   : static_cast<std::uint32_t>(event.link) < links_.size() / 2;
  const bool has_rate = event.kind != FaultKind::kRate || event.rate_bits_per_s >= 1'000'000;
  if (!is_known || !has_rate || event.at < now()) return Status(StatusCode::kInvalidArgument);
  scheduled_.push_back(event);
  events_.push(event.at.time_since_epoch().count(), EventKind::kFault,
               static_cast<std::uint32_t>(scheduled_.size() - 1));
  return Status();
}

void FabricCore::apply(const FaultEvent& event) noexcept {
  switch (event.kind) {
    case FaultKind::kLinkDown:
    case FaultKind::kLinkUp:
    case FaultKind::kBlackHole:
    case FaultKind::kHeal:
    case FaultKind::kRate: return apply_to_link(event);
    case FaultKind::kPortDown:
    case FaultKind::kPortUp:
    case FaultKind::kHostPause: return apply_to_port(event);
  }
}

void FabricCore::apply_to_link(const FaultEvent& event) noexcept {
  for (const bool from_first : {true, false}) {
    Link& link = links_[direction(event.link, from_first)];
    switch (event.kind) {
      case FaultKind::kLinkDown: link.is_down = true; break;
      case FaultKind::kLinkUp: link.is_down = false; break;
      case FaultKind::kBlackHole: link.is_black_hole = true; break;
      case FaultKind::kHeal: link.is_black_hole = false; break;
      default: link.rate_bits_per_s = event.rate_bits_per_s; link.carry = 0;
    }
  }
}

void FabricCore::apply_to_port(const FaultEvent& event) noexcept {
  const auto node = static_cast<std::uint32_t>(event.port);
  Port& port = ports_[node];
  if (event.kind == FaultKind::kHostPause) {
    port.paused_until_ns = now_ns_ + event.duration.count();
    return;
  }
  port.is_down = event.kind == FaultKind::kPortDown;
  if (port.driver == nullptr) return;
  port.driver->raise_port_event(port.is_down ? IBV_EVENT_PORT_ERR : IBV_EVENT_PORT_ACTIVE);
  const std::lock_guard lock(port.driver->mutex());
  pump(node);
}

}  // namespace braid::sim
