#pragma once

#include <braid/channel.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "bootstrap/messages.h"
#include "channel/control_budget.h"
#include "channel/control_message.h"
#include "channel/device_core.h"
#include "channel/fetcher.h"
#include "channel/lane.h"
#include "channel/receiver.h"
#include "channel/sender.h"
#include "verbs/rc_setup.h"

namespace braid {

/// The channel over verbs objects: joins the two clockless halves to QPs and CQs.
///
/// Setup is in channel_core.cc, the data path in channel_datapath.cc, control messages, liveness
/// and failure in channel_control.cc.
class ChannelCore {
 public:
  /// What the two sides agreed on before queues are made.
  struct Agreed {
    std::uint32_t window_segments = 0;
    std::uint32_t peer_receive_depth = 0;
    /// Both directions begin here; 0 but in tests of the wrap.
    channel::Sequence first_sequence = {};
  };

  /// Makes CQs and QPs, moves the QPs to INIT and posts the receives. `options` come from
  /// resolve_options(). `psn_seed` is random. Errors: kOutOfMemory, kIo, kInternal with the errno;
  /// `why` gets a sentence.
  static Result<std::unique_ptr<ChannelCore>> create(std::shared_ptr<DeviceCore> device,
                                                     const ChannelOptions& options,
                                                     const Agreed& agreed, std::uint64_t psn_seed,
                                                     std::string& why);
  ~ChannelCore();
  ChannelCore(const ChannelCore&) = delete;
  ChannelCore& operator=(const ChannelCore&) = delete;

  /// What to tell the peer.
  [[nodiscard]] bootstrap::Endpoints endpoints() const;
  /// Connects every QP to the peer's and asks for the source ports. Errors as create().
  Status connect(const bootstrap::Endpoints& peer, std::string& why);

  Result<Ticket> put(const LocalRange& local, const RemoteRange& remote,
                     const PutOptions& options) noexcept;
  Result<Ticket> notify(NotifyIndex index, std::uint64_t user_data) noexcept;
  Result<Ticket> get(const LocalRange& local, const RemoteRange& remote,
                     std::uint64_t user_data) noexcept;
  Result<Ticket> atomic(channel::OperationKind kind, const LocalRange& result,
                        const RemoteRange& target, std::uint64_t operand, std::uint64_t compare,
                        std::uint64_t user_data) noexcept;
  Status fence() noexcept;
  bool progress(TimePoint now) noexcept;
  [[nodiscard]] std::size_t poll_completions(std::span<Completion> out) noexcept;
  [[nodiscard]] Status take(Ticket ticket, Completion& completion) noexcept {
    return sender_.operations().take(ticket, completion);
  }
  [[nodiscard]] std::size_t poll_notifications(std::span<Notification> out) noexcept;
  [[nodiscard]] bool take_notification(NotifyIndex index, Notification& out) noexcept;
  [[nodiscard]] bool drained() noexcept { return sender_.operations().active_count() == 0; }
  void close() noexcept { close_requested_ = true; }

  [[nodiscard]] ChannelState state() const noexcept { return state_; }
  [[nodiscard]] bool peer_closed() const noexcept;
  [[nodiscard]] const ChannelError& error() const noexcept { return error_; }
  [[nodiscard]] std::span<const RemoteMemory> remote_memories() const noexcept {
    return remote_memories_;
  }
  [[nodiscard]] const ChannelOptions& options() const noexcept { return options_; }
  [[nodiscard]] LaneStats lane_stats(std::uint32_t lane) const noexcept;
  [[nodiscard]] ChannelStats stats() const noexcept;
  [[nodiscard]] const std::string& peer_address() const noexcept { return peer_address_; }

 private:
  static constexpr std::uint32_t kControlSendSlots = 8;
  static constexpr std::uint32_t kPollBatch = 32;
  /// Segments posted per progress() at most, so that completions get their turn.
  static constexpr std::uint32_t kRoundSegments = 256;

  ChannelCore(std::shared_ptr<DeviceCore> device, const ChannelOptions& options,
              const Agreed& agreed);

  // channel_core.cc
  Status create_queues(std::uint64_t psn_seed, std::string& why);
  Status create_control_buffer(std::string& why);
  ibv_qp* create_qp(std::uint32_t send_depth, std::uint32_t receive_depth) noexcept;
  Status bring_up(ibv_qp* qp, int lane, const bootstrap::QpAddress& local,
                  const bootstrap::QpAddress& peer, std::string& why);
  [[nodiscard]] verbs::RcOptions rc_options(int lane) const noexcept;
  [[nodiscard]] verbs::QpEndpoint local_endpoint(const bootstrap::QpAddress& qp) const noexcept;
  [[nodiscard]] std::uint16_t requested_port(std::uint32_t lane) const noexcept;
  [[nodiscard]] std::uint8_t own_read_limit() const noexcept;

  // channel_datapath.cc
  bool poll_sends(TimePoint now) noexcept;
  bool poll_receives(TimePoint now) noexcept;
  void handle_send(const ibv_wc& completion, TimePoint now) noexcept;
  void end_work(std::uint64_t wr_id, Status status, TimePoint now) noexcept;
  void handle_receive(const ibv_wc& completion, TimePoint now) noexcept;
  void repost_receives(TimePoint now) noexcept;
  bool post_segments(TimePoint now) noexcept;
  bool post_fetches(TimePoint now) noexcept;
  bool after_post(std::uint32_t lane, int error, TimePoint now) noexcept;
  [[nodiscard]] Status refusal() const noexcept;
  [[nodiscard]] Result<channel::Operation> fetch_of(const LocalRange& local,
                                                    const RemoteRange& remote) const noexcept;
  Result<Ticket> accept_fetch(const channel::Operation& operation) noexcept;
  [[nodiscard]] Notification notification_of(std::uint8_t index) const noexcept;

  // channel_control.cc
  void handle_control(std::uint32_t slot, std::uint32_t bytes, TimePoint now) noexcept;
  [[nodiscard]] Status apply_control(const channel::ControlMessage& message) noexcept;
  [[nodiscard]] int post_control_receive(std::uint32_t slot) noexcept;
  bool send_control(TimePoint now) noexcept;
  void check_liveness(TimePoint now) noexcept;
  void update_closed() noexcept;
  void fail_completion(const ibv_wc& completion, TimePoint now) noexcept;
  void fail(Status status, int lane, std::uint32_t vendor_error, const std::string& what,
            TimePoint now) noexcept;
  bool progress_failed(TimePoint now) noexcept;

  std::shared_ptr<DeviceCore> device_;
  ChannelOptions options_;
  channel::Sender sender_;
  channel::Fetcher fetcher_;
  channel::Receiver receiver_;
  channel::ControlBudget budget_;

  ibv_cq* send_cq_ = nullptr;
  ibv_cq* receive_cq_ = nullptr;
  ibv_qp* control_qp_ = nullptr;
  std::unique_ptr<channel::Lane[]> lanes_;
  std::unique_ptr<std::byte[]> control_buffer_;
  ibv_mr* control_mr_ = nullptr;
  std::uint32_t control_send_next_ = 0;
  std::uint32_t control_sends_ = 0;  // under way

  std::array<ibv_wc, kPollBatch> batch_{};
  std::array<std::uint32_t, kMaxLanes> repost_count_{};
  std::array<std::uint8_t, kPollBatch> repost_lanes_{};
  std::uint32_t repost_lane_count_ = 0;

  ChannelState state_ = ChannelState::kOpen;
  ChannelError error_;
  TimePoint fail_deadline_ = kNever;
  TimePoint last_proof_of_life_{};
  bool clock_started_ = false;
  bool fetches_first_ = false;  // whose turn it is to post first
  bool keepalive_under_way_ = false;
  bool close_requested_ = false;
  bool close_sent_ = false;
  bool close_acknowledged_ = false;
  bool peer_close_received_ = false;
  std::uint64_t peer_final_sequences_ = 0;

  bootstrap::QpAddress control_address_;
  std::vector<bootstrap::QpAddress> lane_addresses_;
  std::vector<verbs::SourcePortReport> source_ports_;
  std::vector<bootstrap::QpAddress> peer_addresses_;
  bootstrap::QpAddress peer_control_address_;
  verbs::QpEndpoint peer_endpoint_;
  std::vector<RemoteMemory> remote_memories_;
  std::uint32_t peer_notify_count_ = 0;
  std::string peer_address_;
  ChannelStats stats_;
};

/// Checks options and lowers depths and segment size to what the device can do. Errors:
/// kInvalidArgument; `why` names the option, its value and the allowed range.
Status resolve_options(const DeviceCore& device, ChannelOptions& options, std::string& why);

}  // namespace braid
