#pragma once

#include <braid/time.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "base/random.h"
#include "softverbs/soft_verbs.h"

namespace braid::softverbs::testing {

/// Soft devices whose packets travel through memory in virtual time.
///
/// Time passes in two ways only: a poller that finds its queue empty moves the fabric on by one
/// event (ops.poll_cq drives the device), and step() does the same by hand. Nothing runs by
/// itself, so everything is deterministic. Thread: one.
class MemoryFabric {
 public:
  /// `device_count` devices, with the addresses 10.0.0.1, 10.0.0.2 and so on.
  explicit MemoryFabric(std::size_t device_count, std::uint64_t seed = 1);
  ~MemoryFabric();

  [[nodiscard]] SoftVerbs& api(std::size_t index) { return *apis_[index]; }
  /// Opens the device; close it through api(index).
  [[nodiscard]] ibv_context* open(std::size_t index);

  /// Delivers the next packet or fires the next timer. False when nothing is left to happen.
  bool step();
  [[nodiscard]] TimePoint now() const { return now_; }

  Duration latency = std::chrono::microseconds(2);
  std::uint32_t drop_ppm = 0;
  bool cut = false;                           // every packet is lost
  std::set<std::uint16_t> refused_ports;      // open_source_port() fails with EADDRINUSE
  std::set<std::uint16_t> used_source_ports;  // seen on the wire

 private:
  class Driver;
  class Factory;
  struct Datagram {
    TimePoint due;
    std::uint64_t order;
    roce::FlowAddress flow;
    std::vector<std::uint8_t> bytes;
  };

  void send(const roce::TxPacket& packet, std::span<const iovec> pieces);

  TimePoint now_{};
  std::uint64_t order_ = 0;
  Random random_;
  std::vector<Datagram> in_flight_;
  std::vector<Driver*> drivers_;  // of open devices
  std::vector<std::unique_ptr<SoftVerbs>> apis_;
};

}  // namespace braid::softverbs::testing
