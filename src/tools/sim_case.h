#pragma once

#include <braid/channel_options.h>
#include <braid/sim.h>

#include <cstdint>
#include <vector>

#include "base/random.h"

namespace braid::tools {

/// One channel of a case: between two ports, with options of its own on each side.
struct CaseChannel {
  std::uint32_t first_port = 0;  // index into topology.ports()
  std::uint32_t second_port = 0;
  ChannelOptions first;
  ChannelOptions second;
  std::uint32_t first_sequence = 0;
  std::uint32_t operations = 0;  // per direction
  std::uint32_t bytes = 0;       // put per direction
  bool keep_stream = true;
};

/// What the swarm runs for one seed: a network, channels on it, and what goes wrong.
struct SwarmCase {
  std::uint64_t seed = 0;
  sim::Topology topology;
  sim::FabricOptions fabric;
  std::vector<CaseChannel> channels;
  struct RandomFaults {
    sim::LinkId link{};
    bool from_first = false;
    sim::LinkFaults faults;
  };
  std::vector<RandomFaults> faults;
  std::vector<sim::FaultEvent> events;
  /// Something above may cost a lane its queue pair. Where it is false every operation succeeds and
  /// no segment meets a receiver that is not ready.
  bool may_lose_lanes = false;
  /// A channel may fail: something is broken for good, or what heals a channel is missing.
  bool may_fail = false;
};

/// The case of a seed; a pure function.
[[nodiscard]] SwarmCase make_case(std::uint64_t seed);

}  // namespace braid::tools
