#include "datapath_phases.h"

#include <arpa/inet.h>

#include <algorithm>

#include "channel/channel_core.h"
#include "channel/device_core.h"

namespace braid::bench {
namespace {

constexpr std::uint64_t kPhaseBytes = std::uint64_t{kPhaseSegments} * kPhaseSegmentBytes;
// Far more turns than any phase takes: one that goes on has hung.
constexpr int kMostTurns = 100'000;
constexpr std::uint32_t kReceiveDepth = 1024;
constexpr std::uint32_t kLaneDepth = 16;

}  // namespace

Result<std::unique_ptr<ChannelCore>> ChannelPhases::make_side(const ChannelOptions& options,
                                                              std::uint64_t seed,
                                                              std::string& why) {
  ChannelOptions resolved = options;
  const Status status = resolve_options(*device_->core(), resolved, why);
  if (!status.ok()) return status;
  ChannelCore::Agreed agreed;
  agreed.window_segments = resolved.window_segments;
  agreed.peer_receive_depth = resolved.receive_depth;
  return ChannelCore::create(device_->core(), resolved, agreed, seed, why);
}

Status ChannelPhases::open(std::uint32_t lanes, std::string& why) {
  DeviceCore::Source source;
  source.api = &verbs_;
  Result<std::shared_ptr<DeviceCore>> core =
      DeviceCore::open(std::move(source), "null0", 1, -1, why);
  if (!core) return core.error();
  device_ = std::make_unique<Device>(std::move(*core));
  const auto allocate = [&](std::unique_ptr<Memory>& out) {
    Result<Memory> memory = device_->allocate(kPhaseBytes, MemoryAccess::kRemoteWrite);
    if (memory) out = std::make_unique<Memory>(std::move(*memory));
    return memory ? Status() : memory.error();
  };
  if (const Status status = allocate(source_); !status.ok()) return status;
  if (const Status status = allocate(target_); !status.ok()) return status;
  ChannelOptions options;
  options.lanes = lanes;
  options.segment_bytes = kPhaseSegmentBytes;
  options.lane_depth = kLaneDepth;
  options.receive_depth = kReceiveDepth;
  options.exports = {target_->remote()};
  auto one = make_side(options, 1, why);
  if (!one) return one.error();
  auto two = make_side(options, 2, why);
  if (!two) return two.error();
  if (const Status status = (*one)->connect((*two)->endpoints(), why); !status.ok()) return status;
  if (const Status status = (*two)->connect((*one)->endpoints(), why); !status.ok()) return status;
  sender_ = std::make_unique<Channel>(std::move(*one));
  receiver_ = std::make_unique<Channel>(std::move(*two));
  return Status();
}

Status ChannelPhases::send() noexcept {
  const RemoteRange remote = sender_->remote_memories()[0].range(0, kPhaseBytes);
  if (!sender_->put(source_->range(0, kPhaseBytes), remote, {.notify = {1}})) {
    return Status(StatusCode::kInternal);
  }
  Completion completion;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    tick();
    (void)sender_->progress(now_);
    if (sender_->poll_completions({&completion, 1}) == 1) return completion.status;
  }
  return Status(StatusCode::kInternal);
}

Status ChannelPhases::receive() noexcept {
  Notification notification;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    tick();
    (void)receiver_->progress(now_);
    if (receiver_->poll_notifications({&notification, 1}) == 1) return Status();
  }
  return Status(StatusCode::kInternal);
}

Status ChannelPhases::settle() noexcept {
  bool moved = true;
  for (int turn = 0; moved && turn < kMostTurns; ++turn) {
    tick();
    moved = sender_->progress(now_);
    moved = receiver_->progress(now_) || moved;
  }
  const bool is_open =
      sender_->state() == ChannelState::kOpen && receiver_->state() == ChannelState::kOpen;
  return is_open && !moved ? Status() : Status(StatusCode::kInternal);
}

double ChannelPhases::chain_length() const noexcept {
  return verbs_.doorbells() == 0
             ? 0
             : static_cast<double>(verbs_.posted_sends()) / static_cast<double>(verbs_.doorbells());
}

BarePhases::~BarePhases() {
  for (Lane& lane : lanes_) {
    if (lane.sender != nullptr) verbs_.destroy_qp(lane.sender);
    if (lane.receiver != nullptr) verbs_.destroy_qp(lane.receiver);
  }
  if (send_cq_ != nullptr) verbs_.destroy_cq(send_cq_);
  if (receive_cq_ != nullptr) verbs_.destroy_cq(receive_cq_);
  if (pd_ != nullptr) verbs_.dealloc_pd(pd_);
  if (context_ != nullptr) verbs_.close_device(context_);
}

Status BarePhases::open(std::uint32_t lanes, std::uint32_t chain) noexcept {
  int count = 0;
  ibv_device** list = verbs_.get_device_list(&count);
  context_ = verbs_.open_device(list[0]);
  verbs_.free_device_list(list);
  pd_ = verbs_.alloc_pd(context_);
  const int depth = static_cast<int>(lanes * kReceiveDepth);
  send_cq_ = verbs_.create_cq(context_, depth, nullptr, nullptr, 0);
  receive_cq_ = verbs_.create_cq(context_, depth, nullptr, nullptr, 0);
  chain_ = std::clamp(chain, 1U, kMaxChain);
  lanes_ = std::vector<Lane>(lanes);
  for (std::uint32_t i = 0; i < lanes; ++i) {
    if (const Status status = open_lane(lanes_[i], i); !status.ok()) return status;
  }
  return Status();
}

Status BarePhases::open_lane(Lane& lane, std::uint32_t number) noexcept {
  ibv_qp_init_attr init{};
  init.send_cq = send_cq_;
  init.recv_cq = receive_cq_;
  init.cap.max_recv_wr = kReceiveDepth;
  lane.sender = verbs_.create_qp(pd_, &init);
  lane.receiver = verbs_.create_qp(pd_, &init);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RTR;
  attr.dest_qp_num = lane.receiver->qp_num;
  if (verbs_.modify_qp(lane.sender, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN) != 0) {
    return Status(StatusCode::kInternal);
  }
  for (std::uint32_t i = 0; i < kMaxChain; ++i) {
    lane.sends[i].opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    lane.sends[i].send_flags = IBV_SEND_SIGNALED;
    lane.sends[i].sg_list = &lane.sges[i];
    lane.sends[i].num_sge = 1;
    lane.sends[i].next = i + 1 < chain_ ? &lane.sends[i + 1] : nullptr;
    lane.receives[i].wr_id = number;
    lane.receives[i].next = i + 1 < kMaxChain ? &lane.receives[i + 1] : nullptr;
  }
  return repost(lane, kReceiveDepth) ? Status() : Status(StatusCode::kInternal);
}

bool BarePhases::repost(Lane& lane, std::uint32_t count) noexcept {
  while (count > 0) {
    const std::uint32_t chain = std::min(count, kMaxChain);
    ibv_recv_wr* bad = nullptr;
    lane.receives[chain - 1].next = nullptr;
    const int error = ibv_post_recv(lane.receiver, lane.receives.data(), &bad);
    lane.receives[chain - 1].next = chain < kMaxChain ? &lane.receives[chain] : nullptr;
    if (error != 0) return false;
    count -= chain;
  }
  return true;
}

bool BarePhases::post(Lane& lane) noexcept {
  for (std::uint32_t i = 0; i < chain_; ++i) {
    const std::uint64_t offset = std::uint64_t{sequence_ % kPhaseSegments} * kPhaseSegmentBytes;
    lane.sges[i] = {offset, kPhaseSegmentBytes, 1};
    lane.sends[i].wr_id = sequence_;
    lane.sends[i].imm_data = htonl(sequence_);
    lane.sends[i].wr.rdma.remote_addr = offset;
    lane.sends[i].wr.rdma.rkey = 1;
    ++sequence_;
  }
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(lane.sender, lane.sends.data(), &bad) == 0;
}

Status BarePhases::send() noexcept {
  const std::uint32_t limit = kLaneDepth * static_cast<std::uint32_t>(lanes_.size());
  std::uint32_t posted = 0, completed = 0;
  while (completed < kPhaseSegments) {
    while (posted < kPhaseSegments && posted - completed + chain_ <= limit) {
      if (!post(lanes_[next_])) return Status(StatusCode::kInternal);
      next_ = next_ + 1 == lanes_.size() ? 0 : next_ + 1;
      posted += chain_;
    }
    const int count = ibv_poll_cq(send_cq_, kBatch, batch_.data());
    if (count <= 0) return Status(StatusCode::kInternal);
    for (int i = 0; i < count; ++i) {
      if (batch_[static_cast<std::size_t>(i)].status != IBV_WC_SUCCESS) {
        return Status(StatusCode::kInternal);
      }
    }
    completed += static_cast<std::uint32_t>(count);
  }
  return Status();
}

Status BarePhases::receive() noexcept {
  std::uint32_t received = 0;
  while (received < kPhaseSegments) {
    const int count = ibv_poll_cq(receive_cq_, kBatch, batch_.data());
    if (count <= 0) return Status(StatusCode::kInternal);
    std::array<std::uint8_t, kBatch> touched{};
    std::uint32_t touched_count = 0;
    for (int i = 0; i < count; ++i) {
      const ibv_wc& wc = batch_[static_cast<std::size_t>(i)];
      if (wc.status != IBV_WC_SUCCESS) return Status(StatusCode::kInternal);
      sequences_seen_ ^= ntohl(wc.imm_data);
      if (lanes_[wc.wr_id].to_repost++ == 0) {
        touched[touched_count++] = static_cast<std::uint8_t>(wc.wr_id);
      }
    }
    for (std::uint32_t i = 0; i < touched_count; ++i) {
      Lane& lane = lanes_[touched[i]];
      if (!repost(lane, lane.to_repost)) return Status(StatusCode::kInternal);
      lane.to_repost = 0;
    }
    received += static_cast<std::uint32_t>(count);
  }
  return Status();
}

}  // namespace braid::bench
