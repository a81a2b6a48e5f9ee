#include "sim/port_driver.h"

#include <cerrno>

namespace braid::sim {

PortDriver::PortDriver(std::shared_ptr<FabricCore> fabric, std::uint32_t port,
                       softverbs::SoftContext& context,
                       std::unique_ptr<roce::Engine> engine) noexcept
    : fabric_(std::move(fabric)),
      port_(port),
      context_(context),
      engine_(std::move(engine)),
      address_(FabricCore::address_of(port)) {
  fabric_->attach(port_, this);
}

PortDriver::~PortDriver() { fabric_->detach(port_); }

Result<std::unique_ptr<softverbs::DeviceDriver>> PortDriverFactory::make_driver(
    roce::EngineEvents& events, std::string* error) noexcept {
  if (fabric_->attached(port_)) {
    if (error != nullptr) *error = "sim" + std::to_string(port_) + " is open already";
    return Status::from_errno(StatusCode::kIo, EBUSY);
  }
  const FabricOptions& from = fabric_->options();
  roce::EngineOptions options;
  options.max_qp = from.max_qp_per_port;
  options.max_mr = from.max_mr_per_port;
  options.window_packets = from.window_packets;
  options.min_timeout = from.min_timeout;
  options.seed = fabric_->random();
  options.verify_icrc = from.verify_icrc;
  options.store_writes = from.carry_payload;
  auto engine = roce::Engine::create(options, events);
  if (!engine) {
    if (error != nullptr)
      *error = "sim" + std::to_string(port_) + ": " + engine.error().to_string();
    return engine.error();
  }
  // Drivers are made by contexts only, which are the events of their engines.
  auto& context = static_cast<softverbs::SoftContext&>(events);
  return std::unique_ptr<softverbs::DeviceDriver>(
      std::make_unique<PortDriver>(fabric_, port_, context, std::move(engine).value()));
}

}  // namespace braid::sim
