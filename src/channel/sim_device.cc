#include <braid/sim_channel.h>

#include <algorithm>
#include <utility>

#include "bootstrap/messages.h"
#include "channel/channel_core.h"
#include "channel/device_core.h"
#include "channel/sim_stream.h"
#include "sim/fabric_core.h"

namespace braid::sim {
namespace {

/// One side of a channel on its way up.
struct Half {
  std::shared_ptr<DeviceCore> device;
  ChannelOptions options;
  bootstrap::Capabilities theirs;
  std::unique_ptr<ChannelCore> core;

  [[nodiscard]] bootstrap::Capabilities capabilities() const {
    return {options.lanes, static_cast<std::uint32_t>(options.notify_ids.size()),
            options.window_segments, options.receive_depth};
  }
};

Status agree(Half& half, const Half& peer, std::string& why) {
  if (half.options.lanes == 0) half.options.lanes = peer.options.lanes;
  return resolve_options(*half.device, half.options, why);
}

Status exchange_capabilities(Half& half, const Half& peer, std::string& why) {
  const Status decoded = bootstrap::decode(bootstrap::encode(peer.capabilities()), half.theirs);
  if (!decoded.ok()) return decoded;
  return bootstrap::compare(half.capabilities(), half.theirs, why);
}

Status create_queues(Half& half, const PairOptions& pair, std::uint64_t seed, std::string& why) {
  ChannelCore::Agreed agreed;
  agreed.window_segments = std::min(half.options.window_segments, half.theirs.window_segments);
  agreed.peer_receive_depth = half.theirs.receive_depth;
  agreed.first_sequence = channel::Sequence(pair.first_sequence);
  Result<std::unique_ptr<ChannelCore>> core =
      ChannelCore::create(half.device, half.options, agreed, seed, why);
  if (!core) return core.error();
  half.core = std::move(*core);
  return Status();
}

Status exchange_endpoints(Half& half, const Half& peer, std::string& why) {
  bootstrap::Endpoints theirs;
  const Status decoded = bootstrap::decode(bootstrap::encode(peer.core->endpoints()), theirs);
  return decoded.ok() ? half.core->connect(theirs, why) : decoded;
}

Status join(Half& first, Half& second, const PairOptions& pair, std::string& why) {
  const std::pair<Half&, Half&> ways[2] = {{first, second}, {second, first}};
  for (const auto& [half, peer] : ways) {
    if (const Status status = agree(half, peer, why); !status.ok()) return status;
  }
  for (const auto& [half, peer] : ways) {
    if (const Status status = exchange_capabilities(half, peer, why); !status.ok()) return status;
  }
  Random random(pair.seed);
  for (const auto& [half, peer] : ways) {
    const Status status = create_queues(half, pair, random.next(), why);
    if (!status.ok()) return status;
  }
  for (const auto& [half, peer] : ways) {
    if (const Status status = exchange_endpoints(half, peer, why); !status.ok()) return status;
  }
  return Status();
}

}  // namespace

Result<Device> open_device(const Fabric& fabric, NodeId port, std::string* why) noexcept {
  const auto node = static_cast<std::uint32_t>(port);
  if (!fabric.core()->is_port(node)) {
    if (why != nullptr)
      *why = "node " + std::to_string(node) + " of the topology is not a NIC port";
    return Status(StatusCode::kInvalidArgument);
  }
  auto words = std::make_shared<std::string>();  // what the device says about a failure
  DeviceCore::Source source;
  source.owned =
      fabric.core()->make_verbs(node, [words](const std::string& text) { *words = text; });
  source.api = source.owned.get();
  std::string reason;
  Result<std::shared_ptr<DeviceCore>> core =
      DeviceCore::open(std::move(source), "sim" + std::to_string(node), 1, 0, reason);
  if (core) return Device(std::move(*core));
  if (why != nullptr) *why = words->empty() ? reason : *words;
  return core.error();
}

Result<ChannelPair> connect(const Fabric& fabric, const Device& first,
                            const ChannelOptions& first_options, const Device& second,
                            const ChannelOptions& second_options, const PairOptions& pair,
                            std::string* why) noexcept {
  Half one{first.core(), first_options, {}, nullptr};
  Half two{second.core(), second_options, {}, nullptr};
  std::string reason;
  const Status status = join(one, two, pair, reason);
  if (!status.ok()) {
    if (why != nullptr) *why = reason.empty() ? status.to_string() : reason;
    return status;
  }
  if (pair.keep_stream) {
    const auto there = std::make_shared<SimStream::Way>();
    const auto back = std::make_shared<SimStream::Way>();
    const auto stream = [&](const auto& out, const auto& in) {
      return std::make_unique<SimStream>(fabric.core(), pair.stream_delay, out, in);
    };
    one.core->keep_stream(stream(there, back));
    two.core->keep_stream(stream(back, there));
  }
  ChannelPair out;
  out.first = std::make_unique<Channel>(std::move(one.core));
  out.second = std::make_unique<Channel>(std::move(two.core));
  return out;
}

}  // namespace braid::sim
