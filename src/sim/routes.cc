#include "sim/routes.h"

#include "sim/packet_pool.h"

namespace braid::sim {

Routes::Routes(const Topology& topology)
    : node_count_(static_cast<std::uint32_t>(topology.nodes().size())) {
  std::vector<std::uint32_t> degree(node_count_ + 1, 0);
  for (const Topology::Link& link : topology.links()) {
    ends_.push_back(static_cast<std::uint32_t>(link.to));
    ends_.push_back(static_cast<std::uint32_t>(link.from));
    ++degree[static_cast<std::uint32_t>(link.from)];
    ++degree[static_cast<std::uint32_t>(link.to)];
  }
  first_out_.resize(node_count_ + 1, 0);
  for (std::uint32_t n = 0; n < node_count_; ++n) first_out_[n + 1] = first_out_[n] + degree[n];
  out_.resize(ends_.size());
  std::vector<std::uint32_t> fill(first_out_.begin(), first_out_.end() - 1);
  for (std::uint32_t link = 0; link < ends_.size(); ++link) {
    out_[fill[ends_[link ^ 1U]]++] = link;  // the start of a direction is the end of the other
  }
  uplink_.assign(node_count_, kNone);
  downlink_.assign(node_count_, kNone);
  edge_of_.assign(node_count_, kNone);
  edge_index_of_.assign(node_count_, kNone);
  std::vector<std::uint32_t> edges;
  for (const NodeId id : topology.ports()) {
    const auto port = static_cast<std::uint32_t>(id);
    uplink_[port] = out_[first_out_[port]];
    downlink_[port] = uplink_[port] ^ 1U;
    const std::uint32_t edge = ends_[uplink_[port]];
    if (edge_index_of_[edge] == kNone) {
      edge_index_of_[edge] = static_cast<std::uint32_t>(edges.size());
      edges.push_back(edge);
    }
    edge_of_[port] = edge;
  }
  edge_count_ = static_cast<std::uint32_t>(edges.size());
  switch_index_.assign(node_count_, kNone);
  for (std::uint32_t node = 0; node < node_count_; ++node) {
    if (uplink_[node] != kNone) continue;
    switch_index_[node] = static_cast<std::uint32_t>(switches_.size());
    switches_.push_back(node);
  }
  set_of_.assign(switches_.size() * edge_count_, 0);
  sets_.push_back({});  // set 0 is empty
  KnownSets known;
  for (std::uint32_t i = 0; i < edge_count_; ++i) find_ways_to(edges[i], i, known);
}

std::vector<std::uint32_t> Routes::distances_to(std::uint32_t edge) const {
  std::vector<std::uint32_t> distance(node_count_, kNone);
  std::vector<std::uint32_t> queue{edge};
  distance[edge] = 0;
  for (std::size_t at = 0; at < queue.size(); ++at) {
    const std::uint32_t node = queue[at];
    for (std::uint32_t i = first_out_[node]; i < first_out_[node + 1]; ++i) {
      const std::uint32_t neighbour = ends_[out_[i]];
      // A port forwards nothing.
      if (distance[neighbour] != kNone || uplink_[neighbour] != kNone) continue;
      distance[neighbour] = distance[node] + 1;
      queue.push_back(neighbour);
    }
  }
  return distance;
}

void Routes::find_ways_to(std::uint32_t edge, std::uint32_t edge_index, KnownSets& known) {
  const std::vector<std::uint32_t> distance = distances_to(edge);
  std::vector<std::uint32_t> ways;
  for (const std::uint32_t node : switches_) {
    if (distance[node] == kNone || node == edge) continue;
    ways.clear();
    for (std::uint32_t i = first_out_[node]; i < first_out_[node + 1]; ++i) {
      const std::uint32_t next = ends_[out_[i]];
      if (distance[next] + 1 == distance[node] && (uplink_[next] == kNone || next == edge)) {
        ways.push_back(out_[i]);
      }
    }
    const auto [found, is_new] = known.try_emplace(ways, static_cast<std::uint32_t>(sets_.size()));
    if (is_new) {
      sets_.push_back(
          {static_cast<std::uint32_t>(members_.size()), static_cast<std::uint32_t>(ways.size())});
      members_.insert(members_.end(), ways.begin(), ways.end());
    }
    set_of_[std::size_t{switch_index_[node]} * edge_count_ + edge_index] = found->second;
  }
}

std::span<const std::uint32_t> Routes::next_hops(std::uint32_t node,
                                                 std::uint32_t port) const noexcept {
  const std::uint32_t edge = edge_of_[port];
  if (node == edge) return {&downlink_[port], 1};
  if (switch_index_[node] == kNone) return {};
  const Set& set =
      sets_[set_of_[std::size_t{switch_index_[node]} * edge_count_ + edge_index_of_[edge]]];
  return {members_.data() + set.first, set.count};
}

std::size_t Routes::memory_bytes() const noexcept {
  const std::size_t words = ends_.capacity() + first_out_.capacity() + out_.capacity() +
                            uplink_.capacity() + downlink_.capacity() + edge_of_.capacity() +
                            edge_index_of_.capacity() + switches_.capacity() +
                            switch_index_.capacity() + set_of_.capacity() + members_.capacity();
  return words * sizeof(std::uint32_t) + sets_.capacity() * sizeof(Set);
}

}  // namespace braid::sim
