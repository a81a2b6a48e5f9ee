#include "sim/fabric_core.h"

#include <algorithm>
#include <bit>
#include <string>

#include "sim/port_driver.h"

namespace braid::sim {

FabricCore::FabricCore(const Topology& topology, const FabricOptions& options)
    : options_(options),
      routes_(topology),
      random_(options.seed),
      fault_random_(mix(options.seed + 1)),
      pool_(options.max_packets),
      links_(topology.links().size() * 2),
      switches_(topology.nodes().size()),
      ports_(topology.nodes().size()),
      batch_(kNicPackets, options.verify_icrc),
      unseen_(PacketPool::kLargeBytes) {
  for (std::uint32_t node = 0; node < switches_.size(); ++node) {
    const Topology::Node& from = topology.nodes()[node];
    switches_[node].is_switch = !from.is_port;
    switches_[node].hash = from.options.hash;
    switches_[node].seed = random_.next();
  }
  for (std::uint32_t i = 0; i < links_.size(); ++i) {
    const LinkOptions& from = topology.links()[i / 2].options;
    Link& link = links_[i];
    link.rate_bits_per_s = from.rate_bits_per_s;
    link.delay_ns = from.delay.count();
    link.queue_limit_bytes = from.queue_bytes;
    link.mark_bytes = from.mark_bytes;
    link.pause_bytes = from.pause_bytes;
    link.end = routes_.end_of(i);
    link.begin = routes_.end_of(i ^ 1U);
  }
}

FabricCore::~FabricCore() = default;

Status FabricCore::check(const Topology& topology, const FabricOptions& options) {
  const Status wrong(StatusCode::kInvalidArgument);
  const std::size_t nodes = topology.nodes().size();
  if (nodes > (1U << 24U) - 2 || topology.links().size() > (1U << 30U)) return wrong;
  if (!std::has_single_bit(options.mtu_bytes) || options.mtu_bytes < 256 ||
      options.mtu_bytes > 4096 || options.window_packets == 0 || options.max_packets == 0 ||
      options.max_mr_per_port == 0 || !std::has_single_bit(options.max_qp_per_port) ||
      (!options.carry_payload && options.verify_icrc) || options.poll_delay.count() < 0 ||
      options.min_timeout.count() <= 0) {
    return wrong;
  }
  std::vector<std::uint32_t> degree(nodes, 0);
  for (const Topology::Link& link : topology.links()) {
    const auto from = static_cast<std::size_t>(link.from);
    const auto to = static_cast<std::size_t>(link.to);
    if (from >= nodes || to >= nodes || from == to) return wrong;
    const LinkOptions& o = link.options;
    if (o.rate_bits_per_s < 1'000'000 || o.rate_bits_per_s > 1'000'000'000'000 ||
        o.delay.count() < 0 || o.delay > std::chrono::seconds(10)) {
      return wrong;
    }
    ++degree[from];
    ++degree[to];
  }
  const auto has_one_cable = [&](NodeId port) {
    return degree[static_cast<std::size_t>(port)] == 1;
  };
  return std::all_of(topology.ports().begin(), topology.ports().end(), has_one_cable) ? Status()
                                                                                      : wrong;
}

Result<std::shared_ptr<FabricCore>> FabricCore::create(const Topology& topology,
                                                       const FabricOptions& options) {
  const Status checked = check(topology, options);
  if (!checked.ok()) return checked;
  return std::shared_ptr<FabricCore>(new FabricCore(topology, options));
}

bool FabricCore::is_port(std::uint32_t node) const noexcept {
  return node < switches_.size() && !switches_[node].is_switch;
}

std::unique_ptr<softverbs::SoftVerbs> FabricCore::make_verbs(std::uint32_t port,
                                                             softverbs::ErrorSink sink) {
  std::vector<softverbs::SoftDeviceEntry> devices;
  devices.push_back({"sim" + std::to_string(port),
                     std::make_unique<PortDriverFactory>(shared_from_this(), port)});
  return std::make_unique<softverbs::SoftVerbs>(std::move(devices), std::move(sink));
}

void FabricCore::attach(std::uint32_t port, PortDriver* driver) noexcept {
  ports_[port].driver = driver;
}

FabricCounters FabricCore::counters() const noexcept {
  FabricCounters out = counters_;
  out.packets_in_network = pool_.used();
  out.packets_high_water = pool_.high_water();
  return out;
}

LinkCounters FabricCore::link_counters(std::uint32_t link) const noexcept {
  LinkCounters out = links_[link].counters;
  if (links_[link].is_paused) {
    out.paused_ns += static_cast<std::uint64_t>(now_ns_ - links_[link].paused_since_ns);
  }
  return out;
}

std::size_t FabricCore::memory_bytes() const noexcept {
  return routes_.memory_bytes() + events_.memory_bytes() + pool_.memory_bytes() +
         links_.capacity() * sizeof(Link) + switches_.capacity() * sizeof(Switch) +
         ports_.capacity() * sizeof(Port);
}

}  // namespace braid::sim
