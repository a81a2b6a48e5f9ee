#pragma once

#include <braid/sim.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

namespace braid::sim {

/// A directed link: 2 * link for first-to-second, 2 * link + 1 back.
[[nodiscard]] constexpr std::uint32_t direction(LinkId link, bool from_first) noexcept {
  return static_cast<std::uint32_t>(link) * 2 + (from_first ? 0 : 1);
}

/// All shortest ways through a topology. Ports behind the same switch share their ways, and equal
/// sets of ways are stored once, so a table of thousands of switches stays small.
///
/// Cost: create() is O(edge switches x links); next_hops() O(1). Immutable.
class Routes {
 public:
  /// The topology is valid (FabricCore::create() checks it).
  explicit Routes(const Topology& topology);

  /// Directed links that lead from `node` on a shortest way to the port; empty without any. In the
  /// order in which the topology made them.
  [[nodiscard]] std::span<const std::uint32_t> next_hops(std::uint32_t node,
                                                         std::uint32_t port) const noexcept;
  /// The directed link by which a port sends.
  [[nodiscard]] std::uint32_t uplink(std::uint32_t port) const noexcept { return uplink_[port]; }
  /// The node at the other end of a directed link.
  [[nodiscard]] std::uint32_t end_of(std::uint32_t link) const noexcept { return ends_[link]; }
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

 private:
  using KnownSets = std::map<std::vector<std::uint32_t>, std::uint32_t>;
  void find_ways_to(std::uint32_t edge, std::uint32_t edge_index, KnownSets& known);
  [[nodiscard]] std::vector<std::uint32_t> distances_to(std::uint32_t edge) const;

  std::uint32_t node_count_ = 0;
  std::uint32_t edge_count_ = 0;
  std::vector<std::uint32_t> ends_;           // by directed link
  std::vector<std::uint32_t> first_out_;      // by node, into out_
  std::vector<std::uint32_t> out_;            // directed links by node
  std::vector<std::uint32_t> uplink_;         // by port node
  std::vector<std::uint32_t> downlink_;       // by port node: the same cable, towards the port
  std::vector<std::uint32_t> edge_of_;        // by port node: index of the node its cable leads to
  std::vector<std::uint32_t> edge_index_of_;  // by node
  std::vector<std::uint32_t> switches_;       // nodes that are no ports
  std::vector<std::uint32_t> switch_index_;   // by node, into switches_
  std::vector<std::uint32_t> set_of_;         // switch * edges + edge: index into sets_
  struct Set {
    std::uint32_t first = 0;
    std::uint32_t count = 0;
  };
  std::vector<Set> sets_;
  std::vector<std::uint32_t> members_;
};

}  // namespace braid::sim
