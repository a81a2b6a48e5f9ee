#include <braid/sim.h>

#include <algorithm>

namespace braid::sim {

NodeId Topology::add_port(std::uint32_t host) {
  const NodeId id{static_cast<std::uint32_t>(nodes_.size())};
  nodes_.push_back({true, host, {}});
  ports_.push_back(id);
  return id;
}

NodeId Topology::add_switch(const SwitchOptions& options) {
  const NodeId id{static_cast<std::uint32_t>(nodes_.size())};
  nodes_.push_back({false, 0, options});
  return id;
}

LinkId Topology::connect(NodeId from, NodeId to, const LinkOptions& options) {
  const LinkId id{static_cast<std::uint32_t>(links_.size())};
  links_.push_back({from, to, options});
  return id;
}

Topology make_direct(const std::vector<LinkOptions>& paths, const LinkOptions& nic) {
  Topology topology;
  const NodeId left = topology.add_port(0);
  const NodeId right = topology.add_port(1);
  const NodeId left_switch = topology.add_switch({PathHash::kSourcePortInOrder});
  const NodeId right_switch = topology.add_switch({PathHash::kSourcePortInOrder});
  for (const LinkOptions& path : paths) topology.connect(left_switch, right_switch, path);
  topology.connect(left, left_switch, nic);
  topology.connect(right, right_switch, nic);
  return topology;
}

namespace {

/// Adds a Clos to `topology`; returns its highest switches, where other data centres attach.
std::vector<NodeId> add_clos(Topology& topology, const ClosOptions& options,
                             std::uint32_t first_host) {
  const std::uint32_t pods = options.pods == 0 ? 1 : options.pods;
  const std::uint32_t hosts_per_pod = std::max(1U, (options.hosts + pods - 1) / pods);
  const std::uint32_t per_leaf = options.hosts_per_leaf == 0 ? 1 : options.hosts_per_leaf;
  const std::uint32_t groups = (hosts_per_pod + per_leaf - 1) / per_leaf;
  std::vector<NodeId> ports;
  for (std::uint32_t host = 0; host < options.hosts; ++host) {
    for (std::uint32_t rail = 0; rail < options.rails; ++rail) {
      ports.push_back(topology.add_port(first_host + host));
    }
  }
  std::vector<NodeId> leafs;  // by pod, group, rail
  for (std::uint32_t i = 0; i < pods * groups * options.rails; ++i) {
    leafs.push_back(topology.add_switch(options.switches));
  }
  std::vector<NodeId> spines;
  for (std::uint32_t i = 0; i < pods * options.spines; ++i) {
    spines.push_back(topology.add_switch(options.switches));
  }
  std::vector<NodeId> cores;
  for (std::uint32_t i = 0; i < options.cores; ++i) {
    cores.push_back(topology.add_switch(options.switches));
  }
  for (std::uint32_t host = 0; host < options.hosts; ++host) {
    const std::uint32_t pod = host / hosts_per_pod;
    const std::uint32_t group = host % hosts_per_pod / per_leaf;
    for (std::uint32_t rail = 0; rail < options.rails; ++rail) {
      const std::uint32_t leaf = (pod * groups + group) * options.rails + rail;
      topology.connect(ports[host * options.rails + rail], leafs[leaf], options.nic);
    }
  }
  const std::uint32_t leafs_per_pod = groups * options.rails;
  for (std::uint32_t leaf = 0, in_pod = 0, pod = 0; leaf < leafs.size(); ++leaf) {
    for (std::uint32_t spine = 0; spine < options.spines; ++spine) {
      topology.connect(leafs[leaf], spines[pod * options.spines + spine], options.fabric);
    }
    if (++in_pod == leafs_per_pod) {
      in_pod = 0;
      ++pod;
    }
  }
  for (const NodeId spine : spines) {
    for (const NodeId core : cores) topology.connect(spine, core, options.core);
  }
  return cores.empty() ? spines : cores;
}

}  // namespace

Topology make_clos(const ClosOptions& options) {
  Topology topology;
  (void)add_clos(topology, options, 0);
  return topology;
}

Topology make_multi_dc(const MultiDcOptions& options) {
  Topology topology;
  std::vector<NodeId> borders;
  for (std::uint32_t dc = 0; dc < options.dcs; ++dc) {
    const std::vector<NodeId> top = add_clos(topology, options.dc, dc * options.dc.hosts);
    borders.push_back(topology.add_switch(options.dc.switches));
    for (const NodeId node : top) {
      topology.connect(node, borders.back(),
                       options.dc.cores == 0 ? options.dc.fabric : options.dc.core);
    }
  }
  for (std::uint32_t i = 0; i < options.dcs; ++i) {
    for (std::uint32_t j = i + 1; j < options.dcs; ++j) {
      for (std::uint32_t k = 0; k < options.long_links; ++k) {
        topology.connect(borders[i], borders[j], options.long_link);
      }
    }
  }
  return topology;
}

}  // namespace braid::sim
