#include "sim/flow_level.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "base/random.h"
#include "sim/path_choice.h"

namespace braid::sim {
namespace {

__extension__ using Wide = unsigned __int128;

constexpr std::uint64_t kNsPerS = 1'000'000'000;

/// Rounded up, so that nothing ends before its last bit.
std::int64_t ns_for(std::uint64_t bits, std::uint64_t rate_bits_per_s) noexcept {
  if (rate_bits_per_s == 0) return INT64_MAX;
  return static_cast<std::int64_t>((Wide{bits} * kNsPerS + rate_bits_per_s - 1) / rate_bits_per_s);
}
std::uint64_t bits_in(std::int64_t span_ns, std::uint64_t rate_bits_per_s) noexcept {
  return static_cast<std::uint64_t>(Wide{static_cast<std::uint64_t>(span_ns)} * rate_bits_per_s /
                                    kNsPerS);
}

}  // namespace

FlowLevel::FlowLevel(const Topology& topology, std::uint64_t seed) : routes_(topology) {
  Random random(seed);
  for (const Topology::Node& node : topology.nodes()) {
    hashes_.push_back(node.options.hash);
    seeds_.push_back(random.next());
  }
  for (const Topology::Link& link : topology.links()) {
    capacity_.insert(capacity_.end(), 2, link.options.rate_bits_per_s);
  }
  removed_.assign(capacity_.size(), false);
}

void FlowLevel::remove_link(LinkId link) noexcept {
  removed_[direction(link, true)] = removed_[direction(link, false)] = true;
}

bool FlowLevel::find_way(std::uint32_t from, std::uint32_t to, std::uint16_t source_port) {
  const std::uint64_t flow = flow_hash(from, to, source_port);
  std::uint32_t link = routes_.uplink(from);
  hops_.push_back(link);
  while (routes_.end_of(link) != to) {
    const std::uint32_t node = routes_.end_of(link);
    const auto ways = routes_.next_hops(node, to);
    std::uint32_t live = 0;
    for (const std::uint32_t way : ways) live += removed_[way] ? 0U : 1U;
    if (live == 0) return false;
    // The QPN is not known here: it stands for the port, which is as distinct.
    std::uint32_t pick =
        pick_way(hashes_[node], seeds_[node], flow, source_port, source_port, live);
    for (const std::uint32_t way : ways) {
      if (removed_[way]) continue;
      link = way;
      if (pick-- == 0) break;
    }
    hops_.push_back(link);
  }
  return true;
}

std::uint32_t FlowLevel::add(NodeId from, NodeId to, const std::vector<std::uint16_t>& source_ports,
                             std::uint64_t bytes, Split split) {
  Group group;
  group.first_flow = static_cast<std::uint32_t>(flows_.size());
  group.split = split;
  for (const std::uint16_t port : source_ports) {
    Flow flow;
    flow.group = static_cast<std::uint32_t>(groups_.size());
    flow.first_hop = static_cast<std::uint32_t>(hops_.size());
    if (!find_way(static_cast<std::uint32_t>(from), static_cast<std::uint32_t>(to), port)) {
      hops_.resize(flow.first_hop);
      continue;
    }
    flow.hop_count = static_cast<std::uint32_t>(hops_.size()) - flow.first_hop;
    flow.is_active = true;
    flows_.push_back(flow);
  }
  group.flow_count = static_cast<std::uint32_t>(flows_.size()) - group.first_flow;
  group.is_done = group.flow_count == 0;
  if (!group.is_done) {
    ++open_groups_;
    group.left_bits = bytes * 8;
    for (std::uint32_t i = 0; i < group.flow_count; ++i) {
      flows_[group.first_flow + i].left_bits =
          bytes * 8 / group.flow_count + (i < bytes * 8 % group.flow_count ? 1 : 0);
    }
  }
  groups_.push_back(group);
  return static_cast<std::uint32_t>(groups_.size() - 1);
}

void FlowLevel::index_flows() {
  first_user_.assign(capacity_.size() + 1, 0);
  for (const std::uint32_t hop : hops_) ++first_user_[hop + 1];
  for (std::size_t i = 1; i < first_user_.size(); ++i) first_user_[i] += first_user_[i - 1];
  users_.resize(hops_.size());
  std::vector<std::uint32_t> fill(first_user_.begin(), first_user_.end() - 1);
  for (std::uint32_t i = 0; i < flows_.size(); ++i) {
    for (std::uint32_t h = 0; h < flows_[i].hop_count; ++h) {
      users_[fill[hops_[flows_[i].first_hop + h]]++] = i;
    }
  }
}

// Progressive filling: the link that gives its flows least decides about them; what they take is
// gone from their other links, and so on.
void FlowLevel::compute_rates() {
  std::vector<std::uint64_t> left = capacity_;
  std::vector<std::uint32_t> waiting(capacity_.size(), 0);
  std::vector<bool> is_fixed(flows_.size(), false);
  for (const Flow& flow : flows_) {
    for (std::uint32_t h = 0; flow.is_active && h < flow.hop_count; ++h) {
      ++waiting[hops_[flow.first_hop + h]];
    }
  }
  // Shares only grow while flows are fixed elsewhere, so an entry may be too low, never too high.
  using Entry = std::pair<std::uint64_t, std::uint32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> links;
  for (std::uint32_t link = 0; link < capacity_.size(); ++link) {
    if (waiting[link] != 0) links.emplace(left[link] / waiting[link], link);
  }
  while (!links.empty()) {
    const auto [share, link] = links.top();
    links.pop();
    if (waiting[link] == 0) continue;
    const std::uint64_t actual = left[link] / waiting[link];
    if (actual > share) {
      links.emplace(actual, link);
      continue;
    }
    for (std::uint32_t u = first_user_[link]; u < first_user_[link + 1]; ++u) {
      Flow& flow = flows_[users_[u]];
      if (!flow.is_active || is_fixed[users_[u]]) continue;
      is_fixed[users_[u]] = true;
      flow.rate_bits_per_s = std::max<std::uint64_t>(share, 1);
      for (std::uint32_t h = 0; h < flow.hop_count; ++h) {
        const std::uint32_t hop = hops_[flow.first_hop + h];
        left[hop] -= std::min(left[hop], share);
        --waiting[hop];
      }
    }
  }
}

std::int64_t FlowLevel::next_end_ns() const noexcept {
  std::int64_t next = INT64_MAX;
  for (const Group& group : groups_) {
    if (group.is_done) continue;
    std::uint64_t sum = 0;
    for (std::uint32_t i = 0; i < group.flow_count; ++i) {
      const Flow& flow = flows_[group.first_flow + i];
      if (!flow.is_active) continue;
      sum += flow.rate_bits_per_s;
      if (group.split == Split::kEven) {
        next = std::min(next, ns_for(flow.left_bits, flow.rate_bits_per_s));
      }
    }
    if (group.split == Split::kPooled) next = std::min(next, ns_for(group.left_bits, sum));
  }
  return next;
}

void FlowLevel::end_flow(Flow& flow) noexcept {
  flow.is_active = false;
  flow.rate_bits_per_s = 0;
}

void FlowLevel::advance(std::int64_t span_ns) {
  now_ns_ += span_ns;
  for (Group& group : groups_) {
    if (group.is_done) continue;
    bool is_open = false;
    for (std::uint32_t i = 0; i < group.flow_count; ++i) {
      Flow& flow = flows_[group.first_flow + i];
      if (!flow.is_active) continue;
      const std::uint64_t bits = bits_in(span_ns, flow.rate_bits_per_s);
      std::uint64_t& left = group.split == Split::kEven ? flow.left_bits : group.left_bits;
      left -= std::min(left, bits);
      if (group.split == Split::kEven && left == 0) end_flow(flow);
      is_open = is_open || flow.is_active;
    }
    if (group.split == Split::kPooled) is_open = group.left_bits != 0;
    if (is_open) continue;
    for (std::uint32_t i = 0; i < group.flow_count; ++i) end_flow(flows_[group.first_flow + i]);
    group.is_done = true;
    group.end_ns = now_ns_;
    --open_groups_;
  }
}

void FlowLevel::run() {
  index_flows();
  while (open_groups_ != 0) {
    compute_rates();
    // Ends less than a ten-thousandth apart are taken together.
    const std::int64_t next = next_end_ns();
    advance(next + (now_ns_ + next) / 10000);
  }
}

}  // namespace braid::sim
