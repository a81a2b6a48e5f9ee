#pragma once

#include <braid/sim.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/random.h"
#include "roce/datagram.h"
#include "sim/audit_hash.h"
#include "sim/event_queue.h"
#include "sim/packet_pool.h"
#include "sim/routes.h"
#include "softverbs/soft_verbs.h"

namespace braid::sim {

class PortDriver;

/// What stands behind a Fabric: the event loop over links, switches and ports.
///
/// A packet's way: PortDriver takes it from its engine when the NIC's sender has room, a directed
/// link queues it, sends it (kSent) and holds it while it travels (kArrival); a switch chooses the
/// next link by hash; the last link hands it to the engine of its destination.
/// Setup is in fabric_core.cc, packets in fabric_datapath.cc, faults in fabric_faults.cc.
/// Invariant: a directed link has at most one kSent and one kArrival event scheduled, so the event
/// queue stays as small as the topology, however many packets are under way.
/// Thread: none.
class FabricCore : public std::enable_shared_from_this<FabricCore> {
 public:
  static Result<std::shared_ptr<FabricCore>> create(const Topology& topology,
                                                    const FabricOptions& options);
  ~FabricCore();
  FabricCore(const FabricCore&) = delete;
  FabricCore& operator=(const FabricCore&) = delete;

  [[nodiscard]] TimePoint now() const noexcept { return TimePoint(Duration(now_ns_)); }
  bool step() noexcept;
  void run_until(TimePoint until) noexcept;
  void set_poller(std::uint32_t port, Poller* poller) noexcept { ports_[port].poller = poller; }
  void wake_at(std::uint32_t port, TimePoint when) noexcept;
  void set_faults(std::uint32_t index, const LinkFaults& faults) noexcept;
  Status schedule(const FaultEvent& event);
  [[nodiscard]] std::uint64_t audit_hash() const noexcept { return audit_.value(); }
  [[nodiscard]] FabricCounters counters() const noexcept;
  [[nodiscard]] LinkCounters link_counters(std::uint32_t link) const noexcept;
  [[nodiscard]] std::size_t memory_bytes() const noexcept;

  /// A verbs table with one device, the port's, called "sim<node>". Opening it twice fails; `sink`
  /// hears why (null: stderr does).
  [[nodiscard]] std::unique_ptr<softverbs::SoftVerbs> make_verbs(
      std::uint32_t port, softverbs::ErrorSink sink = nullptr);
  [[nodiscard]] bool is_port(std::uint32_t node) const noexcept;
  [[nodiscard]] const FabricOptions& options() const noexcept { return options_; }
  [[nodiscard]] static roce::IpAddress address_of(std::uint32_t node) noexcept {
    return roce::IpAddress::from_v4(kFirstAddress + node);
  }

  // --- for PortDriver ----------------------------------------------------------------------

  void attach(std::uint32_t port, PortDriver* driver) noexcept;
  void detach(std::uint32_t port) noexcept { ports_[port].driver = nullptr; }
  [[nodiscard]] bool attached(std::uint32_t port) const noexcept {
    return ports_[port].driver != nullptr;
  }
  /// Moves packets of a port from its engine to its sender. The caller holds the device's mutex.
  void pump(std::uint32_t port) noexcept;
  [[nodiscard]] std::uint64_t random() noexcept { return random_.next(); }

 private:
  static constexpr std::uint32_t kFirstAddress = 0x0A000001;  // 10.0.0.1
  /// Packets that wait at a NIC's sender before the engine is asked for no more: one on the wire,
  /// the rest to cover the time until it is asked again.
  static constexpr std::uint32_t kNicPackets = 4;

  /// One direction of a cable, with the queue and the sender at its beginning.
  struct Link {
    std::uint64_t rate_bits_per_s = 0;
    std::int64_t delay_ns = 0;
    std::uint64_t carry = 0;  // of the division that yields nanoseconds, so that nothing is lost
    std::uint32_t queue_limit_bytes = 0;
    std::uint32_t mark_bytes = 0;
    std::uint32_t pause_bytes = 0;
    std::uint32_t end = 0;           // node
    std::uint32_t begin = 0;         // node
    std::uint32_t queued_bytes = 0;  // the packet being sent included
    std::uint32_t queued_packets = 0;
    std::uint32_t held_bytes = 0;  // of packets that came over it and wait at `end`
    std::uint32_t sending = kNone;
    bool is_paused = false;
    bool pause_asked = false;
    bool is_down = false;
    bool is_black_hole = false;
    bool has_faults = false;
    std::uint32_t faults = 0;  // index into faults_, when has_faults
    std::int64_t last_due_ns = 0;
    std::int64_t paused_since_ns = 0;
    PacketList queue;
    PacketList wire;
    LinkCounters counters;
  };
  struct Port {
    PortDriver* driver = nullptr;
    Poller* poller = nullptr;
    std::int64_t timer_ns = INT64_MAX;  // of the kTimer event that counts
    // What the poller asked for moves later all the time; one event stays scheduled and looks again
    // when it comes, so that the event queue does not fill with what is out of date.
    std::int64_t wake_ns = INT64_MAX;        // asked for
    std::int64_t wake_event_ns = INT64_MAX;  // of the kWake event that counts; not after wake_ns
    bool poll_pending = false;               // a kPoll event is scheduled
    std::int64_t paused_until_ns = 0;
    bool is_down = false;
  };
  struct Switch {
    PathHash hash = PathHash::kFiveTuple;
    std::uint64_t seed = 0;
    bool is_switch = false;
  };

  FabricCore(const Topology& topology, const FabricOptions& options);
  static Status check(const Topology& topology, const FabricOptions& options);

  // fabric_datapath.cc
  void handle(const Event& event) noexcept;
  void take_packet(std::uint32_t port, const roce::TxPacket& from,
                   std::span<const iovec> pieces) noexcept;
  void enqueue(std::uint32_t index, std::uint32_t packet) noexcept;
  void start_sending(std::uint32_t index) noexcept;
  void on_sent(std::uint32_t index) noexcept;
  void put_on_wire(std::uint32_t index, std::uint32_t packet, std::int64_t due_ns) noexcept;
  void on_arrival(std::uint32_t index) noexcept;
  void arrive(std::uint32_t packet) noexcept;
  void forward(std::uint32_t node, std::uint32_t packet) noexcept;
  [[nodiscard]] std::uint32_t choose(std::uint32_t node, const Packet& packet) const noexcept;
  void deliver(std::uint32_t node, std::uint32_t index) noexcept;
  void on_timer(std::uint32_t port) noexcept;
  void on_wake(std::uint32_t port) noexcept;
  void on_poll(std::uint32_t port) noexcept;
  void call_poller(std::uint32_t port) noexcept;
  void arm_timer(std::uint32_t port) noexcept;
  void wake_soon(std::uint32_t port) noexcept;
  void drop(std::uint32_t packet) noexcept;
  void account_waiting(const Packet& packet) noexcept;
  void account_left(const Packet& packet) noexcept;
  void set_paused(std::uint32_t index, bool paused) noexcept;

  // fabric_faults.cc
  /// Applies the random faults of a link. False when the packet is gone; `due_ns` may grow.
  [[nodiscard]] bool survive_faults(std::uint32_t index, std::uint32_t packet,
                                    std::int64_t& due_ns) noexcept;
  void hold_back(std::uint32_t packet, std::int64_t until_ns) noexcept;
  void apply(const FaultEvent& event) noexcept;
  void apply_to_link(const FaultEvent& event) noexcept;
  void apply_to_port(const FaultEvent& event) noexcept;

  FabricOptions options_;
  Routes routes_;
  Random random_;        // keys and the like
  Random fault_random_;  // of its own, so that faults do not change keys
  AuditHash audit_;
  EventQueue events_;
  PacketPool pool_;
  std::vector<Link> links_;       // directed
  std::vector<Switch> switches_;  // by node
  std::vector<Port> ports_;       // by node
  std::vector<LinkFaults> faults_;
  std::vector<FaultEvent> scheduled_;
  roce::TxBatch batch_;
  std::vector<std::uint8_t> unseen_;  // a packet's place while its contents are not carried
  std::int64_t now_ns_ = 0;
  std::uint32_t next_serial_ = 0;
  FabricCounters counters_;
};

}  // namespace braid::sim
