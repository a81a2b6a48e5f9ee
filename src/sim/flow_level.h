#pragma once

#include <braid/sim.h>

#include <cstdint>
#include <vector>

#include "sim/routes.h"

namespace braid::sim {

/// The same topologies without packets: flows are fluids that share links max-min fairly, for sizes
/// at which packets are too many.
///
/// A *group* is the traffic of one channel: one flow per lane, whose ways follow from the source
/// ports by the hashes of the packet level. Its bytes are either pooled, so that whichever lane has
/// rate takes them (what a scheduler that follows the paths' rates comes to), or split evenly
/// beforehand. All groups start together; propagation and queueing take no time.
/// Cost: one computation of rates is O(flow hops x log links); run() needs one per moment at which
/// some flow ends.
class FlowLevel {
 public:
  /// `seed` as FabricOptions::seed, so that the same flows take the same ways.
  FlowLevel(const Topology& topology, std::uint64_t seed);

  enum class Split : std::uint8_t { kPooled, kEven };

  /// Adds a group. `bytes` are those on the wire. Returns its number, from 0.
  std::uint32_t add(NodeId from, NodeId to, const std::vector<std::uint16_t>& source_ports,
                    std::uint64_t bytes, Split split);
  /// Takes a link out of use, both ways; before add().
  void remove_link(LinkId link) noexcept;

  /// Runs until every group has ended.
  void run();
  /// When a group's last byte has left, in nanoseconds; after run(). INT64_MAX when it has no way.
  [[nodiscard]] std::int64_t end_ns(std::uint32_t group) const noexcept {
    return groups_[group].end_ns;
  }
  [[nodiscard]] std::size_t flow_count() const noexcept { return flows_.size(); }

 private:
  struct Flow {
    std::uint32_t group = 0;
    std::uint32_t first_hop = 0;  // into hops_
    std::uint32_t hop_count = 0;
    std::uint64_t rate_bits_per_s = 0;
    std::uint64_t left_bits = 0;  // of an even split
    bool is_active = false;
  };
  struct Group {
    std::uint32_t first_flow = 0;
    std::uint32_t flow_count = 0;
    Split split = Split::kPooled;
    std::uint64_t left_bits = 0;  // pooled
    std::int64_t end_ns = INT64_MAX;
    bool is_done = false;
  };

  bool find_way(std::uint32_t from, std::uint32_t to, std::uint16_t source_port);
  void compute_rates();
  void index_flows();
  [[nodiscard]] std::int64_t next_end_ns() const noexcept;
  void advance(std::int64_t span_ns);
  void end_flow(Flow& flow) noexcept;

  Routes routes_;
  std::vector<PathHash> hashes_;         // by node
  std::vector<std::uint64_t> seeds_;     // by node
  std::vector<std::uint64_t> capacity_;  // by directed link, bits per second
  std::vector<bool> removed_;            // by directed link
  std::vector<Flow> flows_;
  std::vector<Group> groups_;
  std::vector<std::uint32_t> hops_;
  std::vector<std::uint32_t> first_user_;  // by directed link, into users_
  std::vector<std::uint32_t> users_;       // flows by link
  std::int64_t now_ns_ = 0;
  std::size_t open_groups_ = 0;
};

}  // namespace braid::sim
