#pragma once

#include <braid/channel.h>
#include <braid/channel_options.h>
#include <braid/device.h>
#include <braid/sim.h>

#include <cstdint>
#include <memory>
#include <string>

/// Devices and channels on a simulated fabric (sim.h): the same code as on a real network, whole
/// channels in one process and in virtual time.
namespace braid::sim {

/// Opens the NIC at `port`, called "sim<number of the node>".
///
/// Owner: the device keeps the fabric's core alive. Errors: kInvalidArgument (not a port), kIo
/// (open already), kOutOfMemory. `why`, when given, gets one sentence.
Result<Device> open_device(const Fabric& fabric, NodeId port, std::string* why = nullptr) noexcept;

struct ChannelPair {
  std::unique_ptr<Channel> first;
  std::unique_ptr<Channel> second;
};

struct PairOptions {
  /// Decides the PSNs. Default 1.
  std::uint64_t seed = 1;
  /// Both directions number their segments from here, mod 2^24. Default 0; near 2^24 to test the
  /// wrap.
  std::uint32_t first_sequence = 0;
  /// Whether the connection of the exchange is kept for repairs. Default true. False: the loss of
  /// the control queue pair fails the channel.
  bool keep_stream = true;
  /// Time that what is said over that connection takes, one way. Default 50 us. It does not travel
  /// over the fabric, so faults there do not touch it.
  Duration stream_delay = std::chrono::microseconds(50);
};

/// Joins two devices of the same fabric by a channel. What peers say over TCP on a real network
/// passes through the same codec, in memory; the handshake itself takes no time.
///
/// Errors: as Connection::connect() and Connection::step(): options that a side cannot use or that
/// disagree, kOutOfMemory, kIo. `why`, when given, gets one sentence.
Result<ChannelPair> connect(const Fabric& fabric, const Device& first,
                            const ChannelOptions& first_options, const Device& second,
                            const ChannelOptions& second_options, const PairOptions& pair = {},
                            std::string* why = nullptr) noexcept;

}  // namespace braid::sim
