#pragma once

#include <braid/channel.h>
#include <braid/device.h>
#include <braid/sim_channel.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace braid::tools {

/// A large range of addresses over few bytes of memory, for transfers whose contents nobody looks
/// at: every window of kWindowBytes is the same memory.
class AliasedMemory {
 public:
  static constexpr std::size_t kWindowBytes = std::size_t{2} << 20U;

  /// Null data() when the system has no memory or addresses left.
  explicit AliasedMemory(std::uint64_t bytes);
  ~AliasedMemory();
  AliasedMemory(const AliasedMemory&) = delete;
  AliasedMemory& operator=(const AliasedMemory&) = delete;
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  void* data_ = nullptr;
  std::uint64_t bytes_ = 0;
};

/// One direction of a channel that carries measured traffic.
class SimFlow {
 public:
  /// Puts so many bytes from the beginning of the region, with a notification. Errors of the
  /// channel go to failure().
  void send(std::uint64_t bytes, TimePoint now);
  [[nodiscard]] bool is_idle() const noexcept { return completed_ == sent_ && received_ == sent_; }
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }
  [[nodiscard]] const Channel& sender() const noexcept { return *from_; }
  [[nodiscard]] const Channel& receiver() const noexcept { return *to_; }

  std::uint32_t number = 0;  // of the caller's
  TimePoint started{};       // the first send()
  TimePoint received{};      // the last notification
  /// Called when a put has arrived whole; may send.
  std::function<void(SimFlow&, TimePoint)> on_received;

 private:
  friend class SimWorld;
  friend class SimHost;

  std::unique_ptr<Channel> from_, to_;
  sim::NodeId from_port_{}, to_port_{};
  const Memory* source_ = nullptr;
  sim::Fabric* fabric_ = nullptr;
  std::uint64_t sent_ = 0;
  std::uint64_t completed_ = 0;
  std::uint64_t received_ = 0;
  std::string failure_;
};

class SimHost;

/// A fabric with a device at every port and flows between them: what the scenarios are made of.
class SimWorld {
 public:
  /// `region_bytes` is the largest put. Errors end in failure().
  SimWorld(const sim::Topology& topology, const sim::FabricOptions& options,
           std::uint64_t region_bytes);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  /// Null when no channel can be made; failure() says why. Owner: the world.
  SimFlow* connect(std::size_t from_port, std::size_t to_port, ChannelOptions options);
  /// Runs until every flow is idle. False on a failure, or at the limit.
  bool run(Duration limit = std::chrono::seconds(100));
  /// Runs until then, whatever the flows do.
  void run_until(TimePoint until) { fabric_->run_until(until); }

  [[nodiscard]] sim::Fabric& fabric() noexcept { return *fabric_; }
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }
  /// Packets that the engines sent again.
  [[nodiscard]] std::uint64_t retransmitted_packets() const;

 private:
  bool fail(const std::string& why);

  sim::Topology topology_;
  AliasedMemory bytes_;
  std::unique_ptr<sim::Fabric> fabric_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Memory>> memories_;
  std::vector<std::unique_ptr<SimHost>> hosts_;
  std::vector<std::unique_ptr<SimFlow>> flows_;
  std::uint64_t next_seed_ = 1;
  std::string failure_;
};

}  // namespace braid::tools
