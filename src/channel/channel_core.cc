#include "channel/channel_core.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/random.h"
#include "verbs/gid_choice.h"

namespace braid {
namespace {

// Every unconfirmed control message, what was confirmed before its completion came, and a keepalive
// or probe.
constexpr std::uint32_t kControlSendDepth = 2 * channel::ControlBudget::kReceives;
// READs and atomics of the peer that a QP answers at once. Devices keep a resource for each.
constexpr int kMaxIncomingReads = 16;

channel::Sender::Config sender_config(const DeviceCore& device, const ChannelOptions& options,
                                      const ChannelCore::Agreed& agreed) noexcept {
  channel::Sender::Config config;
  config.lanes = options.lanes;
  config.lane_depth = options.lane_depth;
  config.window = agreed.window_segments;
  config.segment_bytes = options.segment_bytes;
  const std::uint32_t port_max = device.port_attributes().max_msg_sz;
  config.max_message_bytes = channel::effective_segment_bytes(
      channel::kMaxSegmentBytes, port_max == 0 ? channel::kMaxSegmentBytes : port_max);
  config.small_bytes = options.small_put_bytes;
  config.static_threshold_bytes = options.static_threshold_bytes;
  config.static_floor = options.static_floor;
  config.operation_capacity = options.operation_capacity;
  config.peer_receive_depth = agreed.peer_receive_depth;
  config.first_sequence = agreed.first_sequence;
  return config;
}

channel::Fetcher::Config fetcher_config(const ChannelOptions& options) noexcept {
  channel::Fetcher::Config config;
  config.lanes = options.lanes;
  config.read_depth = std::max(options.read_depth, 1U);
  config.segment_bytes = options.segment_bytes;
  return config;
}

channel::Receiver::Config receiver_config(const ChannelOptions& options,
                                          const ChannelCore::Agreed& agreed) noexcept {
  channel::Receiver::Config config;
  config.lanes = options.lanes;
  config.receive_depth = options.receive_depth;
  config.window = agreed.window_segments;
  config.notification_capacity = options.notification_capacity;
  config.first_sequence = agreed.first_sequence;
  config.notify_count = options.notify_ids.empty()
                            ? static_cast<std::uint8_t>(kMaxNotifyIndex)
                            : static_cast<std::uint8_t>(options.notify_ids.size());
  return config;
}

}  // namespace

ChannelCore::ChannelCore(std::shared_ptr<DeviceCore> device, const ChannelOptions& options,
                         const Agreed& agreed, std::uint64_t psn_seed)
    : device_(std::move(device)),
      options_(options),
      sender_(sender_config(*device_, options, agreed)),
      fetcher_(fetcher_config(options), sender_.operations()),
      receiver_(receiver_config(options, agreed)),
      lanes_(std::make_unique<channel::Lane[]>(options.lanes + 1)),
      links_(std::make_unique<Link[]>(options.lanes + 1)),
      repather_(options.lanes, options.repath_after, options.repath_ratio),
      random_(psn_seed),
      events_(kEventCapacity) {
  options_.window_segments = agreed.window_segments;
}

Result<std::unique_ptr<ChannelCore>> ChannelCore::create(std::shared_ptr<DeviceCore> device,
                                                         const ChannelOptions& options,
                                                         const Agreed& agreed,
                                                         std::uint64_t psn_seed, std::string& why) {
  std::unique_ptr<ChannelCore> core(new ChannelCore(std::move(device), options, agreed, psn_seed));
  Status status = core->create_control_buffer(why);
  if (status.ok()) status = core->create_queues(why);
  if (!status.ok()) return status;
  return core;
}

ChannelCore::~ChannelCore() {
  verbs::VerbsApi& api = device_->api();
  for (std::uint32_t i = 0; i < link_count(); ++i) {
    if (lanes_[i].qp() != nullptr) api.destroy_qp(lanes_[i].qp());
  }
  if (send_cq_ != nullptr) api.destroy_cq(send_cq_);
  if (receive_cq_ != nullptr) api.destroy_cq(receive_cq_);
  if (control_mr_ != nullptr) api.dereg_mr(control_mr_);
}

Status ChannelCore::create_control_buffer(std::string& why) {
  // Slots of our messages, then those of the peer's.
  const std::size_t bytes = 2 * channel::ControlBudget::kReceives * channel::kControlSlotBytes;
  control_buffer_ = std::make_unique<std::byte[]>(bytes);
  control_mr_ = device_->api().reg_mr_iova(device_->pd(), control_buffer_.get(), bytes,
                                           reinterpret_cast<std::uintptr_t>(control_buffer_.get()),
                                           IBV_ACCESS_LOCAL_WRITE);
  if (control_mr_ != nullptr) return Status();
  const int error = errno;
  why = "the control buffer cannot be registered on " + device_->name() +
        ": check the memlock limit (ulimit -l)";
  return Status::from_verbs(StatusCode::kOutOfMemory, error);
}

ibv_qp* ChannelCore::create_qp(std::uint32_t send_depth, std::uint32_t receive_depth) noexcept {
  ibv_qp_init_attr init{};
  init.send_cq = send_cq_;
  init.recv_cq = receive_cq_;
  init.cap.max_send_wr = send_depth;
  init.cap.max_recv_wr = receive_depth;
  init.cap.max_send_sge = 1;
  init.cap.max_recv_sge = 1;
  init.qp_type = IBV_QPT_RC;
  return device_->api().create_qp(device_->pd(), &init);
}

Status ChannelCore::create_queues(std::string& why) {
  verbs::VerbsApi& api = device_->api();
  const std::uint32_t sends =
      options_.lanes * (options_.lane_depth + options_.read_depth) + kControlSendDepth;
  const std::uint32_t receives =
      options_.lanes * options_.receive_depth + channel::ControlBudget::kReceives;
  send_cq_ = api.create_cq(device_->context(), static_cast<int>(sends), this, nullptr, 0);
  if (send_cq_ != nullptr) {
    receive_cq_ = api.create_cq(device_->context(), static_cast<int>(receives), this, nullptr, 0);
  }
  if (receive_cq_ == nullptr) {
    const int error = errno;
    why = "completion queues for " + std::to_string(sends) + " sends and " +
          std::to_string(receives) + " receives cannot be made on " + device_->name() +
          ": lower lanes, lane_depth or receive_depth";
    return Status::from_verbs(StatusCode::kOutOfMemory, error);
  }
  Status status;
  for (std::uint32_t link = 0; status.ok() && link < link_count(); ++link) {
    status = create_link(link, why);
    if (status.ok() && link != control_link()) receiver_.reset_lane(link);
  }
  return status;
}

Status ChannelCore::create_link(std::uint32_t link, std::string& why) {
  const bool control = link == control_link();
  channel::Lane& lane = lanes_[link];
  const std::uint32_t receives =
      control ? channel::ControlBudget::kReceives : options_.receive_depth;
  ibv_qp* qp =
      create_qp(control ? kControlSendDepth : options_.lane_depth + options_.read_depth, receives);
  if (qp == nullptr) {
    const int error = errno;
    why = std::to_string(link_count()) + " queue pairs cannot be made on " + device_->name() +
          ": lower lanes or depths";
    return Status::from_verbs(StatusCode::kOutOfMemory, error);
  }
  links_[link].ours = {qp->qp_num, static_cast<std::uint32_t>(random_.next() & 0xFFFFFFU)};
  lane.bind(qp, control ? channel::kControlLane : link, static_cast<std::uint8_t>(lane.tag() + 1U));
  // Receives are posted before the QP can receive, so that the first segment finds one.
  Status status = verbs::to_init(device_->api(), qp, rc_options(link));
  int error = 0;
  if (status.ok() && !control) error = lane.post_receives(receives);
  for (std::uint32_t i = 0; status.ok() && error == 0 && control && i < receives; ++i) {
    error = post_control_receive(i);
  }
  if (error != 0) status = Status::from_verbs(StatusCode::kInternal, error);
  if (!status.ok()) why = "the queue pairs cannot be prepared on " + device_->name();
  return status;
}

verbs::RcOptions ChannelCore::rc_options(std::uint32_t link) const noexcept {
  verbs::RcOptions out;
  out.port = device_->port();
  out.gid_index = device_->gid_index();
  out.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
               IBV_ACCESS_REMOTE_ATOMIC;
  out.hop_limit = options_.hop_limit;
  out.traffic_class = options_.traffic_class;
  out.service_level = options_.service_level;
  out.source_port = link == control_link() ? std::uint16_t{0} : requested_port(link);
  out.timeout = options_.ack_timeout_exponent;
  out.retry_count = options_.retry_count;
  out.rnr_retry = options_.rnr_retry_count;
  out.min_rnr_timer = options_.min_rnr_timer;
  out.max_rd_atomic = own_read_limit();
  return out;
}

std::uint8_t ChannelCore::own_read_limit() const noexcept {
  // resolve_options() has lowered it to the device's max_qp_init_rd_atom.
  return static_cast<std::uint8_t>(std::min(options_.read_depth, 128U));
}

std::uint16_t ChannelCore::requested_port(std::uint32_t lane) const noexcept {
  if (links_[lane].moved_port != 0) return links_[lane].moved_port;
  if (options_.source_ports.empty()) return 0;
  // A queue pair that replaces another asks for the next port, so that it leaves the dead path.
  const std::size_t index = lane + std::size_t{links_[lane].state.generation()};
  return options_.source_ports[index % options_.source_ports.size()];
}

verbs::QpEndpoint ChannelCore::local_endpoint(const bootstrap::QpAddress& qp) const noexcept {
  verbs::QpEndpoint out;
  out.qpn = qp.qpn;
  out.psn = qp.psn;
  out.gid = device_->gid();
  out.lid = device_->port_attributes().lid;
  out.mtu = device_->port_attributes().active_mtu;
  for (int code = IBV_MTU_256; code < out.mtu; ++code) {
    const auto smaller = static_cast<ibv_mtu>(code);
    if (options_.path_mtu_bytes != 0 && verbs::mtu_bytes(smaller) == options_.path_mtu_bytes) {
      out.mtu = smaller;
    }
  }
  const int rd_atomic = std::clamp(device_->attributes().max_qp_rd_atom, 0, kMaxIncomingReads);
  out.rd_atomic = static_cast<std::uint8_t>(rd_atomic);
  return out;
}

bootstrap::Endpoints ChannelCore::endpoints() const {
  const verbs::QpEndpoint local = local_endpoint(links_[control_link()].ours);
  bootstrap::Endpoints out;
  std::memcpy(out.gid.data(), local.gid.raw, out.gid.size());
  out.lid = local.lid;
  out.mtu_code = static_cast<std::uint8_t>(local.mtu);
  out.rd_atomic = local.rd_atomic;
  out.control = links_[control_link()].ours;
  for (std::uint32_t i = 0; i < options_.lanes; ++i) out.lanes.push_back(links_[i].ours);
  out.exports = options_.exports;
  out.notify_ids = options_.notify_ids;
  return out;
}

Status ChannelCore::connect(const bootstrap::Endpoints& peer, std::string& why) {
  if (peer.lanes.size() != options_.lanes) {
    why = "the peer offered " + std::to_string(peer.lanes.size()) + " lanes after agreeing on " +
          std::to_string(options_.lanes);
    return Status(StatusCode::kProtocol);
  }
  std::memcpy(peer_endpoint_.gid.raw, peer.gid.data(), peer.gid.size());
  peer_endpoint_.lid = peer.lid;
  peer_endpoint_.mtu = static_cast<ibv_mtu>(peer.mtu_code);
  peer_endpoint_.rd_atomic = peer.rd_atomic;
  peer_address_ = verbs::gid_to_string(peer_endpoint_.gid);
  for (std::uint32_t i = 0; i < options_.lanes; ++i) links_[i].theirs = peer.lanes[i];
  links_[control_link()].theirs = peer.control;
  remote_memories_ = peer.exports;
  peer_notify_count_ = peer.notify_ids.empty() ? kMaxNotifyIndex
                                               : static_cast<std::uint32_t>(peer.notify_ids.size());
  source_ports_.resize(link_count());
  options_.read_depth = verbs::negotiate_rd_atomic(rc_options(control_link()), peer_endpoint_);
  if (options_.read_depth > 0) fetcher_.limit_read_depth(options_.read_depth);
  Status status;
  for (std::uint32_t link = 0; status.ok() && link < link_count(); ++link) {
    status = bring_up(link, why);
    if (status.ok() && link != control_link()) sender_.renew_credits(link);
  }
  const verbs::QpEndpoint local = local_endpoint(links_[control_link()].ours);
  options_.path_mtu_bytes = verbs::mtu_bytes(verbs::negotiate_mtu(local, peer_endpoint_));
  connected_ = status.ok();
  return status;
}

Status ChannelCore::bring_up(std::uint32_t link, std::string& why) {
  verbs::VerbsApi& api = device_->api();
  ibv_qp* qp = lanes_[link].qp();
  const verbs::RcOptions options = rc_options(link);
  const verbs::QpEndpoint ours = local_endpoint(links_[link].ours);
  verbs::QpEndpoint theirs = peer_endpoint_;
  theirs.qpn = links_[link].theirs.qpn;
  theirs.psn = links_[link].theirs.psn;
  Status status = verbs::to_rtr(api, qp, options, ours, theirs);
  if (status.ok()) status = verbs::to_rts(api, qp, options, ours, theirs);
  if (!status.ok()) {
    why = "queue pair " + std::to_string(ours.qpn) + " on " + device_->name() + " " +
          device_->address() + " cannot be connected to queue pair " + std::to_string(theirs.qpn) +
          " at " + peer_address_;
    return status;
  }
  const Result<verbs::SourcePortReport> report = verbs::request_source_port(api, qp, options);
  if (!report) {
    why = "lane " + std::to_string(link) + " cannot use UDP source port " +
          std::to_string(options.source_port) + " on " + device_->address() +
          ": it is taken or forbidden, choose another (--sports, ChannelOptions::source_ports)";
    return report.error();
  }
  source_ports_[link] = *report;
  return Status();
}

LaneStats ChannelCore::lane_stats(std::uint32_t lane) const noexcept {
  LaneStats out;
  if (lane >= options_.lanes) return out;
  const channel::LaneSendCounts& sent = sender_.lane_counts(lane);
  const channel::LaneReceiveCounts& received = receiver_.lane_counts(lane);
  out.lane = lane;
  out.up = links_[lane].state.up();
  out.generation = links_[lane].state.generation();
  out.replayed_segments = sent.replayed_segments;
  out.qpn = links_[lane].ours.qpn;
  if (connected_) {
    out.peer_qpn = links_[lane].theirs.qpn;
    out.source_port_requested = source_ports_[lane].requested;
    out.source_port_effective = source_ports_[lane].verified;
  }
  out.posted_segments = sent.posted_segments;
  out.completed_segments = sent.completed_segments;
  out.completed_bytes = sent.completed_bytes;
  out.completion_time_sum = sent.completion_time_sum;
  out.moves = links_[lane].moves;
  out.rate_bytes_per_second = sender_.scheduler().rate(lane);
  out.window_bytes = sender_.scheduler().window_bytes(lane);
  out.outstanding_bytes = sender_.scheduler().inflight_bytes(lane);
  const channel::LaneFetchCounts& fetched = fetcher_.lane_counts(lane);
  out.errors = sent.errors + fetched.errors;
  out.fetched_parts = fetched.completed_parts;
  out.fetched_bytes = fetched.completed_bytes;
  out.received_segments = received.segments;
  out.received_bytes = received.bytes;
  return out;
}

ChannelStats ChannelCore::stats() const noexcept {
  ChannelStats out = stats_;
  out.duplicate_segments = receiver_.counts().duplicates;
  out.out_of_window_segments = receiver_.counts().out_of_window;
  out.malformed_segments += receiver_.counts().malformed;
  out.reorder_high_water = receiver_.reorder_high_water();
  out.control_qpn = links_[control_link()].ours.qpn;
  out.control_up = links_[control_link()].state.up();
  out.replayed_parts = fetcher_.replayed_parts();
  return out;
}

}  // namespace braid
