#include "softverbs/memory_fabric.h"

#include <algorithm>
#include <cerrno>
#include <string>

namespace braid::softverbs::testing {

/// Moves one device's packets to and from the fabric.
class MemoryFabric::Driver final : public DeviceDriver {
 public:
  Driver(MemoryFabric& fabric, roce::IpAddress address, std::unique_ptr<roce::Engine> engine)
      : fabric_(fabric), address_(address), engine_(std::move(engine)) {
    fabric_.drivers_.push_back(this);
  }
  ~Driver() override { std::erase(fabric_.drivers_, this); }

  std::mutex& mutex() noexcept override { return mutex_; }
  roce::Engine& engine() noexcept override { return *engine_; }
  TimePoint now() noexcept override { return fabric_.now_; }
  void after_post() noexcept override { transmit(); }
  void drive() noexcept override { fabric_.step(); }
  void flush() noexcept override { transmit(); }
  void on_armed() noexcept override {}
  std::span<const roce::IpAddress> addresses() const noexcept override { return {&address_, 1}; }
  std::uint32_t max_mtu_bytes() const noexcept override { return 4096; }
  Status open_source_port(const roce::IpAddress&, std::uint16_t port) noexcept override {
    if (!fabric_.refused_ports.contains(port)) return {};
    return Status::from_errno(StatusCode::kIo, EADDRINUSE);
  }
  void close_source_port(const roce::IpAddress&, std::uint16_t) noexcept override {}

  /// The caller holds mutex().
  void transmit() noexcept {
    do {
      batch_.clear();
      engine_->poll_transmit(batch_, fabric_.now_);
      for (const roce::TxPacket& packet : batch_.packets()) fabric_.send(packet, batch_.iovs());
    } while (!batch_.empty());
  }

 private:
  MemoryFabric& fabric_;
  roce::IpAddress address_;
  std::unique_ptr<roce::Engine> engine_;
  std::mutex mutex_;
  roce::TxBatch batch_{64};
};

class MemoryFabric::Factory final : public DriverFactory {
 public:
  Factory(MemoryFabric& fabric, std::size_t index) : fabric_(fabric), index_(index) {}
  Result<std::unique_ptr<DeviceDriver>> make_driver(roce::EngineEvents& events,
                                                    std::string* error) noexcept override {
    roce::EngineOptions options;
    options.seed = fabric_.random_.next();
    auto engine = roce::Engine::create(options, events);
    if (!engine) {
      *error = engine.error().to_string();
      return engine.error();
    }
    const auto address = roce::IpAddress::from_v4(static_cast<std::uint32_t>(0x0A000001 + index_));
    return std::unique_ptr<DeviceDriver>(
        std::make_unique<Driver>(fabric_, address, std::move(engine).value()));
  }

 private:
  MemoryFabric& fabric_;
  std::size_t index_;
};

MemoryFabric::MemoryFabric(std::size_t device_count, std::uint64_t seed) : random_(seed) {
  for (std::size_t i = 0; i < device_count; ++i) {
    std::vector<SoftDeviceEntry> devices;
    devices.push_back({"memory" + std::to_string(i), std::make_unique<Factory>(*this, i)});
    apis_.push_back(std::make_unique<SoftVerbs>(std::move(devices), nullptr));
  }
}

MemoryFabric::~MemoryFabric() = default;

ibv_context* MemoryFabric::open(std::size_t index) {
  SoftVerbs& soft = api(index);
  ibv_device** list = soft.get_device_list(nullptr);
  ibv_context* context = soft.open_device(list[0]);
  soft.free_device_list(list);
  return context;
}

void MemoryFabric::send(const roce::TxPacket& packet, std::span<const iovec> pieces) {
  used_source_ports.insert(packet.flow->source_port);
  if (cut || random_.chance_ppm(drop_ppm)) return;
  std::vector<std::uint8_t> bytes;
  for (const iovec& piece : pieces.subspan(packet.first_iov, packet.iov_count)) {
    const auto* data = static_cast<const std::uint8_t*>(piece.iov_base);
    bytes.insert(bytes.end(), data, data + piece.iov_len);
  }
  in_flight_.push_back({now_ + latency, order_++, *packet.flow, std::move(bytes)});
}

bool MemoryFabric::step() {
  const auto earliest = std::min_element(
      in_flight_.begin(), in_flight_.end(), [](const Datagram& x, const Datagram& y) {
        return std::pair(x.due, x.order) < std::pair(y.due, y.order);
      });
  TimePoint timer = kNever;
  for (Driver* driver : drivers_) timer = std::min(timer, driver->engine().next_deadline());
  if (earliest != in_flight_.end() && earliest->due <= timer) {
    now_ = std::max(now_, earliest->due);
    const Datagram datagram = std::move(*earliest);
    in_flight_.erase(earliest);
    for (Driver* driver : drivers_) {
      if (driver->addresses()[0] != datagram.flow.destination) continue;
      const std::lock_guard lock(driver->mutex());
      roce::RxDatagram rx;
      rx.payload = datagram.bytes;
      rx.source = datagram.flow.source;
      rx.destination = datagram.flow.destination;
      rx.source_port = datagram.flow.source_port;
      driver->engine().handle_packet(rx, now_);
      driver->transmit();
    }
    return true;
  }
  if (timer == kNever) return false;
  now_ = std::max(now_, timer);
  for (Driver* driver : drivers_) {
    const std::lock_guard lock(driver->mutex());
    driver->engine().handle_timeout(now_);
    driver->transmit();
  }
  return true;
}

}  // namespace braid::softverbs::testing
