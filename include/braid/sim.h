#pragma once

#include <braid/result.h>
#include <braid/time.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

/// A simulated network in virtual time. Devices on it run the same RoCEv2 engine and the same verbs
/// objects as the soft device; only the wire and the clock are simulated. One seed decides
/// everything, and audit_hash() tells whether two runs were the same.
namespace braid::sim {

/// A NIC port or a switch, numbered in the order in which the topology made them.
enum class NodeId : std::uint32_t {};
/// A cable: two directions, each with its own sender and queue.
enum class LinkId : std::uint32_t {};

/// One cable; both directions are alike.
struct LinkOptions {
  /// Units: bits per second on the wire, framing included. Default 100 Gb/s; 1e6..1e12.
  std::uint64_t rate_bits_per_s = 100'000'000'000;
  /// Propagation, one way. Default 1 us; 0..10 s.
  Duration delay = std::chrono::microseconds(1);
  /// What waits for its turn at the sending end; a packet that does not fit is dropped.
  /// Default 1 MiB. Memory: taken only while packets wait.
  std::uint32_t queue_bytes = 1U << 20U;
  /// A packet that finds more than this waiting is marked (ECN congestion experienced).
  /// Default 0: never.
  std::uint32_t mark_bytes = 0;
  /// Lossless: when packets that came over this link hold more than this in the switch at its end,
  /// the link's sender is paused, and resumed at half of it (as priority flow control does).
  /// Default 0: never. To lose nothing, queue_bytes must exceed the sum over all links into a
  /// switch of this plus one round trip at their rate.
  std::uint32_t pause_bytes = 0;
};

/// What a switch hashes to choose among equally short ways.
enum class PathHash : std::uint8_t {
  kFiveTuple,          // addresses, protocol, ports: what every switch does
  kFiveTupleAndQpn,    // and the destination QPN ("E-ECMP")
  kSourcePortInOrder,  // source port mod number of ways: no collisions, to set up known paths
};

struct SwitchOptions {
  PathHash hash = PathHash::kFiveTuple;
};

/// Nodes and cables, as plain data. The builders below make the usual ones.
class Topology {
 public:
  struct Node {
    bool is_port = false;
    std::uint32_t host = 0;  // of a port
    SwitchOptions options;   // of a switch
  };
  struct Link {
    NodeId from{};
    NodeId to{};
    LinkOptions options;
  };

  /// A NIC port of a host; ports with equal `host` are rails of one machine. It takes one cable.
  NodeId add_port(std::uint32_t host);
  NodeId add_switch(const SwitchOptions& options = {});
  LinkId connect(NodeId from, NodeId to, const LinkOptions& options = {});

  [[nodiscard]] const std::vector<Node>& nodes() const noexcept { return nodes_; }
  [[nodiscard]] const std::vector<Link>& links() const noexcept { return links_; }
  [[nodiscard]] const std::vector<NodeId>& ports() const noexcept { return ports_; }

 private:
  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::vector<NodeId> ports_;
};

/// Two hosts, each behind a switch, and one cable per entry of `paths` between the switches. The
/// switches choose by source port in order: lanes with consecutive ports have a path each. Link i
/// of the topology is path i; the two NIC cables follow.
Topology make_direct(const std::vector<LinkOptions>& paths, const LinkOptions& nic);

/// A Clos of two or three levels. Hosts are numbered through; port p of host h is ports()[h *
/// rails + p].
struct ClosOptions {
  std::uint32_t hosts = 16;
  std::uint32_t rails = 1;           // NIC ports per host
  std::uint32_t hosts_per_leaf = 8;  // with rails, each leaf serves one rail of so many hosts
  std::uint32_t spines = 4;          // per pod
  std::uint32_t pods = 1;            // above 1 there are cores: three levels
  std::uint32_t cores = 0;           // every spine is joined to every core
  LinkOptions nic;
  LinkOptions fabric;  // leaf to spine; oversubscription = hosts_per_leaf * nic / (spines * this)
  LinkOptions core;    // spine to core
  SwitchOptions switches;
};
/// Links are made in the order: NIC cables by port, leaf to spine, spine to core.
Topology make_clos(const ClosOptions& options);

/// Several data centres, each a Clos of `dc`, whose border switches (joined to every spine, or to
/// every core where there are cores) are fully meshed by `long_links` cables per pair.
struct MultiDcOptions {
  std::uint32_t dcs = 2;
  ClosOptions dc;
  std::uint32_t long_links = 1;
  LinkOptions long_link;
};
Topology make_multi_dc(const MultiDcOptions& options);

/// What goes wrong on one direction of a link. Parts per million, independently per packet.
struct LinkFaults {
  std::uint32_t drop_ppm = 0;
  std::uint32_t duplicate_ppm = 0;
  std::uint32_t corrupt_ppm = 0;  // one bit is flipped
  std::uint32_t reorder_ppm = 0;  // held back by reorder_delay while others pass
  Duration reorder_delay = std::chrono::microseconds(20);
  std::uint32_t spike_ppm = 0;  // this packet and, in order, those behind it come spike_delay late
  Duration spike_delay = std::chrono::microseconds(100);
};

enum class FaultKind : std::uint8_t {
  kLinkDown,   // and the switches at its ends know: they choose among the other ways
  kLinkUp,     //
  kBlackHole,  // packets vanish and nobody knows
  kHeal,       // end of kBlackHole
  kRate,       // `rate_bits_per_s` from the next packet on
  kPortDown,   // the NIC dies: nothing in, nothing out, IBV_EVENT_PORT_ERR
  kPortUp,     //
  kHostPause,  // the poller of the port is not called for `duration`; its NIC goes on
};

/// Something that happens at a given time. `link` or `port` according to the kind.
struct FaultEvent {
  TimePoint at{};
  FaultKind kind = FaultKind::kLinkDown;
  LinkId link{};
  NodeId port{};
  std::uint64_t rate_bits_per_s = 0;
  Duration duration{0};
};

/// Options of a fabric.
struct FabricOptions {
  /// Decides hashes, faults, keys and QPNs. Default 1.
  std::uint64_t seed = 1;
  /// Path MTU of the devices. Default 4096; 256, 512, 1024, 2048, 4096.
  std::uint32_t mtu_bytes = 4096;
  /// Packets unacknowledged per QP. Default 128, as the soft device. More fills longer paths.
  std::uint32_t window_packets = 128;
  /// Shortest retransmission timeout. Default 200 us: a few round trips with full queues.
  Duration min_timeout = std::chrono::microseconds(200);
  /// QPs per port. Default 256; a power of two. Memory: 16 bytes each.
  std::uint32_t max_qp_per_port = 256;
  /// Memory regions per port. Default 64. Memory: 48 bytes each.
  std::uint32_t max_mr_per_port = 64;
  /// Time from a NIC's work to the call of its poller; what happens in between costs one call.
  /// Default 500 ns.
  Duration poll_delay = std::chrono::nanoseconds(500);
  /// Packets in the network at once; beyond, packets are dropped and counted. Default 4 Mi.
  /// Memory: about 4.3 KiB per data packet really in the network, kept for reuse.
  std::uint32_t max_packets = 4U << 20U;
  /// ICRC is computed and verified. Off is faster; corrupted packets then arrive.
  bool verify_icrc = true;
  /// What WRITEs and READ responses carry arrives. Off, a WRITE leaves memory as it was and a READ
  /// gives anything: timing and everything else is the same, at a fraction of the cost and 64 bytes
  /// per packet. Needs verify_icrc off.
  bool carry_payload = true;
  /// ibv_poll_cq on an empty queue runs the next event, so that programs which poll in a loop
  /// work unchanged. Off by default: then only run_*() moves time.
  bool poll_advances = false;
};

/// Of one direction of a link.
struct LinkCounters {
  std::uint64_t packets = 0;  // put on the wire
  std::uint64_t bytes = 0;    // on the wire, framing included
  std::uint64_t dropped_full = 0;
  std::uint64_t dropped_faults = 0;  // drop_ppm, black hole, link or port down
  std::uint64_t marked = 0;
  std::uint64_t paused_ns = 0;
  std::uint32_t queue_high_water_bytes = 0;
};

struct FabricCounters {
  std::uint64_t events = 0;
  std::uint64_t delivered_packets = 0;  // handed to an engine
  std::uint64_t hops = 0;               // packets put on a wire
  std::uint64_t dropped_packets = 0;    // for any reason
  std::uint64_t no_route = 0;
  std::uint64_t packets_in_network = 0;
  std::uint64_t packets_high_water = 0;
};

/// Called when a port has something for its host: completions, or the time asked for.
class Poller {
 public:
  virtual ~Poller() = default;
  /// `now` is the virtual time. May post work, open devices and ask for further wakes.
  virtual void on_wake(TimePoint now) = 0;
};

class FabricCore;

/// The network, its clock and its devices.
///
/// Owner: devices keep the core alive, so the order of destruction is free; pollers must stay until
/// they are taken out or the fabric is not run any more.
/// Thread: none; one thread runs a fabric and everything on it. Different fabrics are independent.
/// Cost: an event is O(log links); no allocation once pools have grown to what the run needs.
class Fabric {
 public:
  /// Errors: kInvalidArgument for options out of range, ports without exactly one cable, or more
  /// than 2^24 nodes.
  static Result<Fabric> create(const Topology& topology, const FabricOptions& options) noexcept;

  explicit Fabric(std::shared_ptr<FabricCore> core) noexcept;

  [[nodiscard]] TimePoint now() const noexcept;
  /// Runs the next event. False when nothing is left to happen.
  bool step() noexcept;
  /// Runs every event up to and including `until`, then sets the clock to it.
  void run_until(TimePoint until) noexcept;

  /// Null takes the poller out.
  void set_poller(NodeId port, Poller* poller) noexcept;
  /// Asks for on_wake() at `when`. Only the earliest wake of a port is remembered; ask again from
  /// on_wake().
  void wake_at(NodeId port, TimePoint when) noexcept;

  /// Sets the random faults of one direction: from `link`'s first node, or from its second.
  void set_faults(LinkId link, bool from_first, const LinkFaults& faults) noexcept;
  /// Errors: kInvalidArgument when it is in the past or names no link or port.
  Status schedule(const FaultEvent& event) noexcept;

  /// Digest of every event so far. Equal seeds and equal calls give equal digests on every machine
  /// and compiler.
  [[nodiscard]] std::uint64_t audit_hash() const noexcept;
  [[nodiscard]] FabricCounters counters() const noexcept;
  [[nodiscard]] LinkCounters link_counters(LinkId link, bool from_first) const noexcept;
  /// Bytes that the core holds: nodes, links, routes, queues and pools; engines are their devices'.
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

  [[nodiscard]] const std::shared_ptr<FabricCore>& core() const noexcept { return core_; }

 private:
  std::shared_ptr<FabricCore> core_;
};

}  // namespace braid::sim
