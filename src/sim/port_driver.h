#pragma once

#include <memory>
#include <mutex>

#include "sim/fabric_core.h"
#include "softverbs/device_driver.h"
#include "softverbs/soft_context.h"

namespace braid::sim {

/// Joins the engine of one simulated NIC port to its fabric.
///
/// The engine is asked for packets only as fast as the port's sender takes them, so what a NIC has
/// to do waits in the engine, as on hardware, and not in the network.
/// Owner: keeps the fabric alive. Thread: that of the fabric.
class PortDriver final : public softverbs::DeviceDriver {
 public:
  PortDriver(std::shared_ptr<FabricCore> fabric, std::uint32_t port,
             softverbs::SoftContext& context, std::unique_ptr<roce::Engine> engine) noexcept;
  ~PortDriver() override;
  PortDriver(const PortDriver&) = delete;
  PortDriver& operator=(const PortDriver&) = delete;

  [[nodiscard]] std::mutex& mutex() noexcept override { return mutex_; }
  [[nodiscard]] roce::Engine& engine() noexcept override { return *engine_; }
  [[nodiscard]] TimePoint now() noexcept override { return fabric_->now(); }
  void after_post() noexcept override { fabric_->pump(port_); }
  void drive() noexcept override {
    if (fabric_->options().poll_advances) (void)fabric_->step();
  }
  void flush() noexcept override { fabric_->pump(port_); }
  void on_armed() noexcept override {}
  [[nodiscard]] std::span<const roce::IpAddress> addresses() const noexcept override {
    return {&address_, 1};
  }
  [[nodiscard]] std::uint32_t max_mtu_bytes() const noexcept override {
    return fabric_->options().mtu_bytes;
  }
  [[nodiscard]] Status open_source_port(const roce::IpAddress&, std::uint16_t) noexcept override {
    return Status();
  }
  void close_source_port(const roce::IpAddress&, std::uint16_t) noexcept override {}

  void raise_port_event(ibv_event_type type) noexcept { context_.raise_port_event(type); }

 private:
  std::shared_ptr<FabricCore> fabric_;
  std::uint32_t port_;
  softverbs::SoftContext& context_;
  std::unique_ptr<roce::Engine> engine_;
  roce::IpAddress address_;
  std::mutex mutex_;
};

class PortDriverFactory final : public softverbs::DriverFactory {
 public:
  PortDriverFactory(std::shared_ptr<FabricCore> fabric, std::uint32_t port) noexcept
      : fabric_(std::move(fabric)), port_(port) {}
  Result<std::unique_ptr<softverbs::DeviceDriver>> make_driver(
      roce::EngineEvents& events, std::string* error) noexcept override;

 private:
  std::shared_ptr<FabricCore> fabric_;
  std::uint32_t port_;
};

}  // namespace braid::sim
