#include <algorithm>
#include <cstring>
#include <mutex>

#include "sim/fabric_core.h"
#include "sim/path_choice.h"
#include "sim/port_driver.h"

namespace braid::sim {
namespace {

/// Of the base transport header: IBTA C9-1, bytes 5..7 are the destination QPN.
std::uint32_t destination_qpn_of(const Packet& packet) noexcept {
  const std::uint8_t* b = packet.payload;
  return packet.payload_bytes < 12
             ? 0U
             : (std::uint32_t{b[5]} << 16U) | (std::uint32_t{b[6]} << 8U) | b[7];
}

/// Opcode, flags, QPN and PSN: what a packet is, without addresses and keys, which differ from
/// process to process.
std::uint64_t digest_of(const Packet& packet) noexcept {
  if (packet.payload_bytes < 12) return packet.payload_bytes;
  const std::uint8_t* b = packet.payload;
  std::uint64_t word = b[0];
  for (const int i : {1, 5, 6, 7, 9, 10, 11}) word = (word << 8U) | b[i];
  return word;
}

/// RDMA WRITE and READ response: IBTA table 38, opcodes 6..11 and 13..16. All others carry headers
/// only, or messages to a program.
bool is_contents(const iovec& headers) noexcept {
  const std::uint8_t opcode = *static_cast<const std::uint8_t*>(headers.iov_base);
  return (opcode >= 6 && opcode <= 11) || (opcode >= 13 && opcode <= 16);
}

}  // namespace

bool FabricCore::step() noexcept {
  if (events_.empty()) return false;
  const Event event = events_.top();
  events_.pop();
  now_ns_ = event.at_ns;
  ++counters_.events;
  handle(event);
  return true;
}

void FabricCore::run_until(TimePoint until) noexcept {
  const std::int64_t until_ns = until.time_since_epoch().count();
  while (!events_.empty() && events_.top().at_ns <= until_ns) (void)step();
  now_ns_ = std::max(now_ns_, until_ns);
}

void FabricCore::handle(const Event& event) noexcept {
  audit_.add(static_cast<std::uint64_t>(event.at_ns));
  audit_.add((static_cast<std::uint64_t>(event.kind) << 32U) | event.subject);
  switch (event.kind) {
    case EventKind::kSent: on_sent(event.subject); break;
    case EventKind::kArrival: on_arrival(event.subject); break;
    case EventKind::kStray: arrive(event.subject); break;
    case EventKind::kPause: set_paused(event.subject, true); break;
    case EventKind::kResume: set_paused(event.subject, false); break;
    case EventKind::kTimer: on_timer(event.subject); break;
    case EventKind::kWake: on_wake(event.subject); break;
    case EventKind::kPoll: on_poll(event.subject); break;
    case EventKind::kFault: apply(scheduled_[event.subject]); break;
  }
}

// --- ports ---------------------------------------------------------------------------------

void FabricCore::pump(std::uint32_t port) noexcept {
  PortDriver& driver = *ports_[port].driver;
  Link& link = links_[routes_.uplink(port)];
  while (link.queued_packets < kNicPackets && driver.engine().wants_transmit()) {
    batch_.clear();
    driver.engine().poll_transmit(batch_, now());
    if (batch_.empty()) break;
    for (const roce::TxPacket& packet : batch_.packets()) {
      take_packet(port, packet, batch_.iovs());
    }
  }
  arm_timer(port);
}

void FabricCore::take_packet(std::uint32_t port, const roce::TxPacket& from,
                             std::span<const iovec> pieces) noexcept {
  const std::span<const iovec> own = pieces.subspan(from.first_iov, from.iov_count);
  const bool is_whole = options_.carry_payload || !is_contents(own[0]);
  const std::uint32_t index =
      pool_.allocate(is_whole ? from.bytes : std::min<std::size_t>(from.bytes, kSmallPacketBytes));
  const std::uint8_t* v4 = from.flow->destination.v4();
  const std::uint32_t address = (std::uint32_t{v4[0]} << 24U) | (std::uint32_t{v4[1]} << 16U) |
                                (std::uint32_t{v4[2]} << 8U) | v4[3];
  const std::uint32_t destination = address - kFirstAddress;
  if (index == kNone || !from.flow->destination.is_v4() || !is_port(destination)) {
    if (index != kNone) pool_.release(index);
    ++counters_.dropped_packets;
    return;
  }
  Packet& packet = pool_[index];
  std::uint8_t* to = packet.payload;
  for (const iovec& piece : own.first(is_whole ? own.size() : 1)) {
    std::memcpy(to, piece.iov_base, piece.iov_len);
    to += piece.iov_len;
  }
  packet.payload_bytes = from.bytes;
  packet.link = kNone;
  packet.source = port;
  packet.destination = destination;
  packet.source_port = from.flow->source_port;
  packet.traffic_class = from.flow->traffic_class;
  packet.destination_qpn = destination_qpn_of(packet);
  packet.serial = next_serial_++;
  packet.flow_hash = flow_hash(port, destination, packet.source_port);
  enqueue(routes_.uplink(port), index);
}

void FabricCore::arm_timer(std::uint32_t port) noexcept {
  Port& own = ports_[port];
  const TimePoint due = own.driver->engine().next_deadline();
  if (due == kNever) return;
  const std::int64_t due_ns = std::max(due.time_since_epoch().count(), now_ns_);
  if (due_ns >= own.timer_ns) return;  // the event that comes first looks again
  own.timer_ns = due_ns;
  events_.push(due_ns, EventKind::kTimer, port);
}

void FabricCore::on_timer(std::uint32_t port) noexcept {
  Port& own = ports_[port];
  if (now_ns_ != own.timer_ns) return;  // an earlier one took its place
  own.timer_ns = INT64_MAX;
  if (own.driver == nullptr) return;
  {
    const std::lock_guard lock(own.driver->mutex());
    own.driver->engine().handle_timeout(now());
    pump(port);
  }
  wake_soon(port);
}

void FabricCore::deliver(std::uint32_t node, std::uint32_t index) noexcept {
  Port& port = ports_[node];
  const Packet& packet = pool_[index];
  if (port.driver == nullptr || port.is_down || packet.destination != node) return drop(index);
  audit_.add(digest_of(packet));
  ++counters_.delivered_packets;
  roce::RxDatagram datagram;
  const std::uint8_t* payload = packet.payload;
  if (packet.stored_bytes() < packet.payload_bytes) {
    std::memcpy(unseen_.data(), packet.payload, kSmallPacketBytes);
    payload = unseen_.data();
  }
  datagram.payload = {payload, packet.payload_bytes};
  datagram.source = address_of(packet.source);
  datagram.destination = address_of(node);
  datagram.source_port = packet.source_port;
  {
    const std::lock_guard lock(port.driver->mutex());
    port.driver->engine().handle_packet(datagram, now());
    pump(node);
  }
  pool_.release(index);
  wake_soon(node);
}

void FabricCore::wake_soon(std::uint32_t port) noexcept {
  Port& own = ports_[port];
  if (own.poller == nullptr || own.poll_pending) return;
  own.poll_pending = true;
  events_.push(now_ns_ + options_.poll_delay.count(), EventKind::kPoll, port);
}

void FabricCore::on_poll(std::uint32_t port) noexcept {
  Port& own = ports_[port];
  if (now_ns_ < own.paused_until_ns) {
    events_.push(own.paused_until_ns, EventKind::kPoll, port);
    return;
  }
  own.poll_pending = false;
  call_poller(port);
}

void FabricCore::wake_at(std::uint32_t port, TimePoint when) noexcept {
  Port& own = ports_[port];
  own.wake_ns = std::min(own.wake_ns, std::max(when.time_since_epoch().count(), now_ns_));
  if (own.wake_ns >= own.wake_event_ns) return;
  own.wake_event_ns = own.wake_ns;
  events_.push(own.wake_ns, EventKind::kWake, port);
}

void FabricCore::on_wake(std::uint32_t port) noexcept {
  Port& own = ports_[port];
  if (now_ns_ != own.wake_event_ns) return;  // an earlier one took its place
  own.wake_event_ns = INT64_MAX;
  if (own.wake_ns == INT64_MAX) return;
  own.wake_ns = std::max(own.wake_ns, own.paused_until_ns);
  if (own.wake_ns > now_ns_) return wake_at(port, TimePoint(Duration(own.wake_ns)));
  call_poller(port);
}

void FabricCore::call_poller(std::uint32_t port) noexcept {
  Port& own = ports_[port];
  own.wake_ns = INT64_MAX;
  if (own.poller != nullptr) own.poller->on_wake(now());
}

// --- links ---------------------------------------------------------------------------------

void FabricCore::drop(std::uint32_t packet) noexcept {
  ++counters_.dropped_packets;
  pool_.release(packet);
}

void FabricCore::enqueue(std::uint32_t index, std::uint32_t packet) noexcept {
  Link& link = links_[index];
  const std::uint32_t bytes = pool_[packet].wire_bytes();
  // A NIC asks its engine for no more than it can send, so it drops nothing.
  if (switches_[link.begin].is_switch && link.queued_packets != 0 &&
      link.queued_bytes + bytes > link.queue_limit_bytes) {
    ++link.counters.dropped_full;
    return drop(packet);
  }
  if (link.mark_bytes != 0 && link.queued_bytes > link.mark_bytes) {
    pool_[packet].is_marked = true;
    ++link.counters.marked;
  }
  link.queued_bytes += bytes;
  ++link.queued_packets;
  link.counters.queue_high_water_bytes =
      std::max(link.counters.queue_high_water_bytes, link.queued_bytes);
  account_waiting(pool_[packet]);
  link.queue.push(pool_, packet);
  if (link.sending == kNone) start_sending(index);
}

void FabricCore::start_sending(std::uint32_t index) noexcept {
  Link& link = links_[index];
  if (link.queue.empty() || link.is_paused) {
    link.carry = 0;
    return;
  }
  link.sending = link.queue.pop(pool_);
  const std::uint64_t scaled =
      std::uint64_t{pool_[link.sending].wire_bytes()} * 8U * 1'000'000'000U + link.carry;
  link.carry = scaled % link.rate_bits_per_s;
  events_.push(now_ns_ + static_cast<std::int64_t>(scaled / link.rate_bits_per_s), EventKind::kSent,
               index);
}

void FabricCore::on_sent(std::uint32_t index) noexcept {
  Link& link = links_[index];
  const std::uint32_t packet = link.sending;
  link.sending = kNone;
  const std::uint32_t bytes = pool_[packet].wire_bytes();
  link.queued_bytes -= bytes;
  --link.queued_packets;
  account_left(pool_[packet]);
  pool_[packet].link = index;
  ++link.counters.packets;
  link.counters.bytes += bytes;
  ++counters_.hops;
  std::int64_t due_ns = now_ns_ + link.delay_ns;
  const bool is_dead = link.is_down || link.is_black_hole || ports_[link.begin].is_down;
  if (is_dead) {
    ++link.counters.dropped_faults;
    drop(packet);
  } else if (!link.has_faults || survive_faults(index, packet, due_ns)) {
    put_on_wire(index, packet, due_ns);
  }
  start_sending(index);
  const std::uint32_t begin = link.begin;
  if (PortDriver* driver = ports_[begin].driver; driver != nullptr) {
    const std::lock_guard lock(driver->mutex());
    pump(begin);
  }
}

void FabricCore::put_on_wire(std::uint32_t index, std::uint32_t packet,
                             std::int64_t due_ns) noexcept {
  Link& link = links_[index];
  const bool was_empty = link.wire.empty();
  link.last_due_ns = std::max(link.last_due_ns, due_ns);  // first in, first out
  pool_[packet].due_ns = link.last_due_ns;
  link.wire.push(pool_, packet);
  if (was_empty) events_.push(link.last_due_ns, EventKind::kArrival, index);
}

void FabricCore::on_arrival(std::uint32_t index) noexcept {
  Link& link = links_[index];
  const std::uint32_t packet = link.wire.pop(pool_);
  if (!link.wire.empty()) {
    events_.push(pool_[link.wire.front()].due_ns, EventKind::kArrival, index);
  }
  arrive(packet);
}

void FabricCore::arrive(std::uint32_t packet) noexcept {
  const std::uint32_t node = links_[pool_[packet].link].end;
  if (switches_[node].is_switch) {
    forward(node, packet);
  } else {
    deliver(node, packet);
  }
}

// --- switches ------------------------------------------------------------------------------

void FabricCore::forward(std::uint32_t node, std::uint32_t packet) noexcept {
  const std::uint32_t link = choose(node, pool_[packet]);
  if (link == kNone) {
    ++counters_.no_route;
    return drop(packet);
  }
  enqueue(link, packet);
}

std::uint32_t FabricCore::choose(std::uint32_t node, const Packet& packet) const noexcept {
  const auto ways = routes_.next_hops(node, packet.destination);
  std::uint32_t live = 0;
  for (const std::uint32_t link : ways) live += links_[link].is_down ? 0U : 1U;
  if (live == 0) return kNone;
  const Switch& own = switches_[node];
  std::uint32_t pick = pick_way(own.hash, own.seed, packet.flow_hash, packet.source_port,
                                packet.destination_qpn, live);
  for (const std::uint32_t link : ways) {
    if (!links_[link].is_down && pick-- == 0) return link;
  }
  return kNone;
}

void FabricCore::account_waiting(const Packet& packet) noexcept {
  if (packet.link == kNone) return;
  Link& ingress = links_[packet.link];
  if (ingress.pause_bytes == 0) return;
  ingress.held_bytes += packet.wire_bytes();
  if (ingress.pause_asked || ingress.held_bytes <= ingress.pause_bytes) return;
  ingress.pause_asked = true;
  events_.push(now_ns_ + ingress.delay_ns, EventKind::kPause, packet.link);
}

void FabricCore::account_left(const Packet& packet) noexcept {
  if (packet.link == kNone) return;
  Link& ingress = links_[packet.link];
  if (ingress.pause_bytes == 0) return;
  ingress.held_bytes -= packet.wire_bytes();
  if (!ingress.pause_asked || ingress.held_bytes > ingress.pause_bytes / 2) return;
  ingress.pause_asked = false;
  events_.push(now_ns_ + ingress.delay_ns, EventKind::kResume, packet.link);
}

void FabricCore::set_paused(std::uint32_t index, bool paused) noexcept {
  Link& link = links_[index];
  if (link.is_paused == paused) return;
  link.is_paused = paused;
  if (paused) {
    link.paused_since_ns = now_ns_;
    return;
  }
  link.counters.paused_ns += static_cast<std::uint64_t>(now_ns_ - link.paused_since_ns);
  if (link.sending == kNone) start_sending(index);
}

}  // namespace braid::sim
