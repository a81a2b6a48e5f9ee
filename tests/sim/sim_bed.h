#pragma once

#include <braid/sim_channel.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"

namespace braid::sim::testing {

inline constexpr std::uint64_t kGbit = 1'000'000'000;

/// Fills a region with bytes that depend on the seed.
inline void fill(Memory& memory, std::uint64_t seed) {
  Random random(seed);
  for (std::uint64_t i = 0; i < memory.bytes(); ++i) {
    memory.data()[i] = static_cast<std::byte>(random.next() & 0xFFU);
  }
}

/// Drives one channel from the wakes of its port and keeps what it says.
class Endpoint final : public Poller {
 public:
  Endpoint(Fabric fabric, NodeId port) : fabric_(std::move(fabric)), port_(port) {
    fabric_.set_poller(port_, this);
  }
  ~Endpoint() override { fabric_.set_poller(port_, nullptr); }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  void on_wake(TimePoint now) override {
    if (channel == nullptr) return;
    while (channel->progress(now)) {
    }
    Completion completion;
    while (channel->poll_completions({&completion, 1}) == 1) completions.push_back(completion);
    Notification notification;
    while (channel->poll_notifications({&notification, 1}) == 1) {
      notifications.push_back(notification.id);
      notified_at = now;
    }
    fabric_.wake_at(port_, now + std::chrono::milliseconds(1));
  }

  std::unique_ptr<Channel> channel;
  std::vector<Completion> completions;
  std::vector<std::uint32_t> notifications;
  TimePoint notified_at{};

 private:
  Fabric fabric_;
  NodeId port_;
};

/// A fabric with a channel between its first two ports.
class SimBed : public ::testing::Test {
 protected:
  void build(const Topology& topology, const FabricOptions& options = {}) {
    auto made = Fabric::create(topology, options);
    ASSERT_TRUE(made);
    fabric = std::make_unique<Fabric>(std::move(*made));
    for (std::size_t i = 0; i < 2; ++i) {
      std::string why;
      auto device = open_device(*fabric, topology.ports()[i], &why);
      ASSERT_TRUE(device) << why;
      devices[i] = std::make_unique<Device>(std::move(*device));
      ends[i] = std::make_unique<Endpoint>(*fabric, topology.ports()[i]);
    }
  }
  void allocate(std::uint64_t bytes) {
    for (std::size_t i = 0; i < 2; ++i) {
      auto memory = devices[i]->allocate(bytes, MemoryAccess::kRemoteWrite);
      ASSERT_TRUE(memory);
      memories[i] = std::make_unique<Memory>(std::move(*memory));
    }
    fill(*memories[0], 42);
  }
  void join(ChannelOptions options, const PairOptions& pair = {}) {
    std::array<ChannelOptions, 2> both{options, options};
    for (std::size_t i = 0; i < 2; ++i) both[i].exports = {memories[i]->remote()};
    std::string why;
    auto made = connect(*fabric, *devices[0], both[0], *devices[1], both[1], pair, &why);
    ASSERT_TRUE(made) << why;
    ends[0]->channel = std::move(made->first);
    ends[1]->channel = std::move(made->second);
    for (auto& end : ends) end->on_wake(fabric->now());
  }
  /// Runs until `done` or until `limit` of virtual time has passed.
  template <typename Done>
  bool run(Done done, Duration limit = std::chrono::seconds(5)) {
    const TimePoint until = fabric->now() + limit;
    while (!done() && fabric->now() < until && fabric->step()) {
    }
    return done();
  }
  void TearDown() override {
    for (auto& end : ends) end.reset();
    for (auto& memory : memories) memory.reset();
    for (auto& device : devices) device.reset();
  }

  std::unique_ptr<Fabric> fabric;
  std::array<std::unique_ptr<Device>, 2> devices;
  std::array<std::unique_ptr<Endpoint>, 2> ends;
  std::array<std::unique_ptr<Memory>, 2> memories;
};

/// Options with one lane per path of make_direct().
inline ChannelOptions lanes_on_paths(std::uint32_t paths) {
  ChannelOptions options;
  options.lanes = paths;
  for (std::uint32_t i = 0; i < paths; ++i) {
    // The first port is a multiple of every small number of paths, so lane i takes path i.
    options.source_ports.push_back(static_cast<std::uint16_t>(50'400 + i));
  }
  return options;
}

}  // namespace braid::sim::testing
