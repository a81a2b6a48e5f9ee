#include <new>

#include "sim/fabric_core.h"

namespace braid::sim {

Result<Fabric> Fabric::create(const Topology& topology, const FabricOptions& options) noexcept {
  try {
    Result<std::shared_ptr<FabricCore>> core = FabricCore::create(topology, options);
    if (!core) return core.error();
    return Fabric(std::move(*core));
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory);
  }
}

Fabric::Fabric(std::shared_ptr<FabricCore> core) noexcept : core_(std::move(core)) {}

TimePoint Fabric::now() const noexcept { return core_->now(); }
bool Fabric::step() noexcept { return core_->step(); }
void Fabric::run_until(TimePoint until) noexcept { core_->run_until(until); }
void Fabric::set_poller(NodeId port, Poller* poller) noexcept {
  core_->set_poller(static_cast<std::uint32_t>(port), poller);
}
void Fabric::wake_at(NodeId port, TimePoint when) noexcept {
  core_->wake_at(static_cast<std::uint32_t>(port), when);
}
void Fabric::set_faults(LinkId link, bool from_first, const LinkFaults& faults) noexcept {
  core_->set_faults(direction(link, from_first), faults);
}
Status Fabric::schedule(const FaultEvent& event) noexcept { return core_->schedule(event); }
std::uint64_t Fabric::audit_hash() const noexcept { return core_->audit_hash(); }
FabricCounters Fabric::counters() const noexcept { return core_->counters(); }
LinkCounters Fabric::link_counters(LinkId link, bool from_first) const noexcept {
  return core_->link_counters(direction(link, from_first));
}
std::size_t Fabric::memory_bytes() const noexcept { return core_->memory_bytes(); }

}  // namespace braid::sim
