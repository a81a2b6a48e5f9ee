#pragma once

#include <braid/channel.h>
#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/ring.h"
#include "bootstrap/exchange_stream.h"
#include "bootstrap/messages.h"
#include "channel/control_budget.h"
#include "channel/control_message.h"
#include "channel/device_core.h"
#include "channel/fetcher.h"
#include "channel/lane.h"
#include "channel/lane_link.h"
#include "channel/lane_set.h"
#include "channel/receiver.h"
#include "channel/repather.h"
#include "channel/sender.h"
#include "verbs/rc_setup.h"

namespace braid {

/// The channel over verbs objects: joins the two clockless halves to QPs and CQs.
///
/// Setup is in channel_core.cc, the data path in channel_datapath.cc, control messages in
/// channel_control.cc, the replacement of queue pairs in channel_recovery.cc, liveness and failure
/// in channel_failure.cc.
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
  /// Hands over the stream of the exchange. Without it a channel cannot survive the loss of its
  /// control queue pair.
  void keep_stream(std::unique_ptr<bootstrap::ExchangeStream> stream) noexcept {
    stream_ = std::move(stream);
  }

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
  [[nodiscard]] std::size_t poll_events(std::span<ChannelEvent> out) noexcept;
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
  static constexpr std::uint32_t kPollBatch = 32;
  static constexpr std::uint32_t kPollRounds = 4;  // batches of sends per progress() at most
  static constexpr std::uint32_t kEventCapacity = 64;
  /// Segments posted per progress() at most, so that completions get their turn.
  static constexpr std::uint32_t kRoundSegments = 256;

  ChannelCore(std::shared_ptr<DeviceCore> device, const ChannelOptions& options,
              const Agreed& agreed, std::uint64_t psn_seed);

  /// A queue pair and what is going on with it. The control queue pair has the last one.
  struct Link {
    channel::LaneLink state;
    bootstrap::QpAddress ours;
    bootstrap::QpAddress theirs;
    Status cause;                // of the present outage
    TimePoint drain_deadline{};  // the device has so long to give everything back
    TimePoint probe_deadline{};
    std::uint32_t down_generation = 0;  // what *down* has to say
    bool down_due = false;
    bool ready_due = false;
    bool query_due = false;
    bool answer_due = false;
    bool probe_posted = false;
    bool probe_back = false;
    bool resolving = false;  // what became of its segments is not known yet
    std::uint32_t replayed = 0;
    std::uint16_t moved_port = 0;  // the source port that it moved to; 0 = it did not
    std::uint16_t port_before = 0;
    std::uint64_t moves = 0;
    channel::LaneNews query;   // ours, while resolving
    channel::LaneNews answer;  // to the peer's
  };

  // channel_core.cc
  Status create_queues(std::string& why);
  Status create_control_buffer(std::string& why);
  ibv_qp* create_qp(std::uint32_t send_depth, std::uint32_t receive_depth) noexcept;
  /// Makes a queue pair for `link`, moves it to INIT and posts its receives.
  Status create_link(std::uint32_t link, std::string& why);
  Status bring_up(std::uint32_t link, std::string& why);
  [[nodiscard]] std::uint32_t control_link() const noexcept { return options_.lanes; }
  [[nodiscard]] int lane_number(std::uint32_t link) const noexcept {
    return link == control_link() ? -1 : static_cast<int>(link);
  }
  /// Link of the lane number in a wr_id or a message, or link_count() when there is none.
  [[nodiscard]] std::uint32_t link_of(std::uint32_t lane) const noexcept {
    return lane < options_.lanes           ? lane
           : lane == channel::kControlLane ? control_link()
                                           : link_count();
  }
  [[nodiscard]] std::uint32_t link_count() const noexcept { return options_.lanes + 1; }
  [[nodiscard]] verbs::RcOptions rc_options(std::uint32_t link) const noexcept;
  [[nodiscard]] verbs::QpEndpoint local_endpoint(const bootstrap::QpAddress& qp) const noexcept;
  [[nodiscard]] std::uint16_t requested_port(std::uint32_t lane) const noexcept;
  [[nodiscard]] std::uint8_t own_read_limit() const noexcept;

  // channel_datapath.cc
  bool poll_sends(TimePoint now) noexcept;
  bool poll_receives(TimePoint now) noexcept;
  void handle_send(const ibv_wc& completion, TimePoint now) noexcept;
  void handle_send_error(std::uint32_t link, const ibv_wc& completion, TimePoint now) noexcept;
  void handle_sent(std::uint32_t link, const ibv_wc& completion, TimePoint now) noexcept;
  void end_work(std::uint64_t wr_id, Status status, TimePoint now) noexcept;
  void handle_receive(const ibv_wc& completion, TimePoint now) noexcept;
  void repost_receives(TimePoint now) noexcept;
  bool post_segments(TimePoint now) noexcept;
  /// Posts what is staged; false when some of it is held back, or the channel failed.
  bool post_staged(TimePoint now) noexcept;
  bool post_fetches(TimePoint now) noexcept;
  bool after_post(std::uint32_t lane, int error, TimePoint now) noexcept;
  [[nodiscard]] Status refusal() const noexcept;
  [[nodiscard]] Result<channel::Operation> fetch_of(const LocalRange& local,
                                                    const RemoteRange& remote) const noexcept;
  Result<Ticket> accept_fetch(const channel::Operation& operation) noexcept;
  [[nodiscard]] Notification notification_of(std::uint8_t index) const noexcept;

  // channel_control.cc
  void handle_control(std::uint32_t slot, std::uint32_t bytes, TimePoint now) noexcept;
  void accept_control(std::span<const std::byte> data, TimePoint now) noexcept;
  [[nodiscard]] bool apply_control(const channel::ControlMessage& message, TimePoint now) noexcept;
  [[nodiscard]] bool apply_news(const channel::ControlMessage& message, TimePoint now) noexcept;
  [[nodiscard]] bool answer_query(std::uint32_t link, const channel::LaneNews& news) noexcept;
  [[nodiscard]] bool apply_answer(std::uint32_t link, const channel::LaneNews& news,
                                  TimePoint now) noexcept;
  [[nodiscard]] int post_control_receive(std::uint32_t slot) noexcept;
  bool send_control(TimePoint now) noexcept;
  [[nodiscard]] bool next_news(channel::ControlMessage& message) noexcept;
  void transmit(std::uint32_t number, TimePoint now) noexcept;
  void resend_unconfirmed(TimePoint now) noexcept;
  bool poll_stream(TimePoint now) noexcept;
  void handle_stream_end(TimePoint now) noexcept;

  // channel_recovery.cc
  void begin_recovery(std::uint32_t link, Status cause, std::uint32_t vendor_error,
                      const std::string& what, TimePoint now) noexcept;
  void drain(std::uint32_t link, TimePoint now) noexcept;
  bool advance_links(TimePoint now) noexcept;
  void replace(std::uint32_t link, TimePoint now) noexcept;
  void reconnect(std::uint32_t link, TimePoint now) noexcept;
  void probe(std::uint32_t link, TimePoint now) noexcept;
  void admit(std::uint32_t link, TimePoint now) noexcept;
  /// Both sides' queue pairs of the last generation are gone: asks what arrived.
  void resolve(std::uint32_t link) noexcept;
  void give_notice(ChannelEvent::Kind kind, std::uint32_t link, Status status,
                   std::uint32_t segments, Duration duration) noexcept;

  // channel_repath.cc
  /// Lets a slow lane try another source port, step by step.
  void advance_repath(TimePoint now) noexcept;
  void watch_rates(TimePoint now) noexcept;
  void begin_move(std::uint32_t lane, bool back, TimePoint now) noexcept;
  void finish_move(TimePoint now) noexcept;
  void abandon_move(std::uint32_t lane) noexcept;

  // channel_failure.cc
  void check_liveness(TimePoint now) noexcept;
  void check_stalls(TimePoint now) noexcept;
  /// True when a lane that has work completed none of it for longer than it may.
  [[nodiscard]] bool silent(std::uint32_t lane, TimePoint now) const noexcept;
  [[nodiscard]] Duration patience(std::uint32_t lane) const noexcept;
  void keep_alive(TimePoint now) noexcept;
  void update_closed() noexcept;
  void fail(Status status, int lane, std::uint32_t vendor_error, const std::string& what,
            TimePoint now) noexcept;
  void describe_failure(Status status, int lane, std::uint32_t vendor_error,
                        const std::string& what) noexcept;
  bool progress_failed(TimePoint now) noexcept;

  std::shared_ptr<DeviceCore> device_;
  ChannelOptions options_;
  channel::Sender sender_;
  channel::Fetcher fetcher_;
  channel::Receiver receiver_;
  channel::ControlBudget budget_;

  ibv_cq* send_cq_ = nullptr;
  ibv_cq* receive_cq_ = nullptr;
  std::unique_ptr<channel::Lane[]> lanes_;  // of the links: the last is the control queue pair's
  std::unique_ptr<Link[]> links_;
  std::uint32_t links_down_ = 0;
  channel::Repather repather_;
  std::uint32_t moving_lane_ = channel::LaneSet::kNone;  // is drained and waits for its new port
  TimePoint move_begun_at_{};
  TimePoint rates_watched_at_ = kNever;
  TimePoint watch_rates_at_{};
  Duration busy_time_{0};  // the repather's clock
  std::uint32_t answers_due_ = 0;
  Random random_;
  Ring<ChannelEvent> events_;

  // Control messages lie in their slots until the peer has confirmed them.
  std::unique_ptr<std::byte[]> control_buffer_;
  std::array<std::uint32_t, channel::ControlBudget::kReceives> control_bytes_{};
  ibv_mr* control_mr_ = nullptr;
  std::uint32_t control_sends_ = 0;     // under way on the queue pair
  TimePoint control_sent_at_ = kNever;  // the oldest of them
  bool over_stream_ = false;            // the stream stands in for the control queue pair
  std::unique_ptr<bootstrap::ExchangeStream> stream_;
  std::vector<std::byte> stream_frame_;
  TimePoint stream_poll_at_{};

  channel::LaneSet staged_;  // lanes with segments that may not be posted yet
  std::array<ibv_wc, kPollBatch> batch_{};
  std::array<std::uint32_t, kMaxLanes> repost_count_{};
  std::array<std::uint8_t, kPollBatch> repost_lanes_{};
  std::uint32_t repost_lane_count_ = 0;

  ChannelState state_ = ChannelState::kOpen;
  ChannelError error_;
  TimePoint fail_deadline_ = kNever;
  TimePoint last_proof_of_life_{};
  TimePoint stalled_since_{};
  bool completed_any_ = false;  // since stalled_since_
  TimePoint stall_check_at_{};
  bool clock_started_ = false;
  bool fetches_first_ = false;  // whose turn it is to post first
  bool keepalive_under_way_ = false;
  TimePoint keepalive_sent_at_{};
  bool want_sign_of_life_ = false;  // a lane is silent: is it the lane, or the peer?
  bool close_requested_ = false;
  bool close_sent_ = false;
  bool close_acknowledged_ = false;
  bool peer_close_received_ = false;
  std::uint64_t peer_final_sequences_ = 0;

  std::vector<verbs::SourcePortReport> source_ports_;
  verbs::QpEndpoint peer_endpoint_;
  bool connected_ = false;
  std::vector<RemoteMemory> remote_memories_;
  std::uint32_t peer_notify_count_ = 0;
  std::string peer_address_;
  ChannelStats stats_;
};

/// Checks options and lowers depths and segment size to what the device can do. Errors:
/// kInvalidArgument; `why` names the option, its value and the allowed range.
Status resolve_options(const DeviceCore& device, ChannelOptions& options, std::string& why);

}  // namespace braid
