#pragma once

#include <braid/result.h>
#include <braid/soft_device.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>

#include "roce/datagram.h"
#include "roce/engine.h"
#include "softverbs/device_driver.h"
#include "softverbs/file_descriptor.h"
#include "softverbs/path_shaper.h"
#include "softverbs/udp_wire.h"

namespace braid::softverbs {

/// Runs one RoCEv2 engine over UDP sockets in real time. The composition root of the soft device:
/// it owns engine, wire, shaper and the device's thread, and it alone reads the clock.
///
/// Who moves the packets:
///  - A thread that polls a completion queue moves them itself, in drive(). After some polls in a
///    row it holds a *lease*: the device's thread keeps off the sockets, so that two busy-polling
///    processes on two cores lose no time to it, and looks now and then whether the polls go on.
///  - Otherwise the device's thread does: it sleeps until a packet arrives or a timer is due.
///  - A post sends at once, unless a poller holds the lease and has work queued up already; then
///    it joins what the poller sends next. When the polls stop, the thread takes over.
/// How often the thread looks adapts: seldom while polls go on (kMaxLease), often (kMinLease) for
/// programs which poll for a while and then wait for bytes to change in memory.
///
/// Thread: as DeviceDriver says. The destructor stops and joins the device's thread; no other
/// thread may be in a call then.
class UdpDriver final : public DeviceDriver, private RxSink {
 public:
  /// Opens the sockets and starts the device's thread.
  ///
  /// Owner: `events` outlives the driver. Errors: as UdpWire::create(), PathShaper::create() and
  /// Engine::create(); kIo when the kernel has no descriptor or thread left. `error`, if not null,
  /// then holds a sentence that names the object and the remedy.
  static Result<std::unique_ptr<UdpDriver>> create(const SoftDeviceOptions& options,
                                                   roce::EngineEvents& events,
                                                   std::string* error) noexcept;
  ~UdpDriver() override;
  UdpDriver(const UdpDriver&) = delete;
  UdpDriver& operator=(const UdpDriver&) = delete;

  [[nodiscard]] std::mutex& mutex() noexcept override { return mutex_; }
  [[nodiscard]] roce::Engine& engine() noexcept override { return *engine_; }
  [[nodiscard]] TimePoint now() noexcept override;
  void after_post() noexcept override;
  void drive() noexcept override;
  void flush() noexcept override;
  void on_armed() noexcept override;
  [[nodiscard]] std::span<const roce::IpAddress> addresses() const noexcept override {
    return {&wire_->address(), 1};
  }
  [[nodiscard]] std::uint32_t max_mtu_bytes() const noexcept override {
    return wire_->max_mtu_bytes();
  }
  [[nodiscard]] Status open_source_port(const roce::IpAddress& source,
                                        std::uint16_t port) noexcept override;
  void close_source_port(const roce::IpAddress& source, std::uint16_t port) noexcept override;

  /// Caller holds mutex(). One system call.
  [[nodiscard]] WireCounters wire_counters() const noexcept { return wire_->counters(); }
  /// Caller holds mutex(). Zeros without impairments.
  [[nodiscard]] PathShaperCounters shaper_counters() const noexcept {
    return shaper_ != nullptr ? shaper_->counters() : PathShaperCounters{};
  }

 private:
  static constexpr Duration kMinLease = std::chrono::microseconds(20);
  static constexpr Duration kMaxLease = std::chrono::microseconds(1000);
  // A poller that has not polled for so long is taken to have stopped.
  static constexpr Duration kPollerGone = std::chrono::microseconds(100);
  // Polls in a row that earn the lease: one who polls after an event has fewer. Each time that
  // something had to wait because the poller was gone, it takes four times as many, until a poller
  // has kept its lease for a while.
  static constexpr std::uint32_t kMinDrivesForLease = 16;
  static constexpr std::uint32_t kMaxDrivesForLease = 16384;
  // Looks in a row at which the poller was found polling, before the next look is put off further.
  static constexpr std::uint32_t kLooksToLengthen = 8;
  // Posts that may wait for a poller before one of them sends.
  static constexpr std::uint32_t kMaxDeferredPosts = 16;
  // A request and an acknowledgement: what a ping-pong sends per turn.
  static constexpr std::size_t kSmallTalkPackets = 2;
  static constexpr std::size_t kBatchPackets = 64;
  static constexpr int kBatchesPerRound = 8;
  static constexpr std::size_t kMessagesPerRound = 16;
  // A poller that received no more than this gets to look at it before anything is sent: what it
  // then posts shares a send with the acknowledgements.
  static constexpr std::size_t kMessagesToLookAt = 2;

  UdpDriver(std::unique_ptr<UdpWire> wire, std::unique_ptr<PathShaper> shaper,
            std::unique_ptr<roce::Engine> engine);

  Status start() noexcept;
  void on_datagrams(std::span<const roce::RxDatagram> datagrams, TimePoint now) noexcept override;

  std::size_t receive(TimePoint now) noexcept;
  bool run_round(TimePoint now) noexcept;
  bool transmit(TimePoint now) noexcept;
  void send(roce::TxBatch& batch, TimePoint now) noexcept;
  bool send_released(TimePoint now) noexcept;
  [[nodiscard]] TimePoint next_deadline() const noexcept;
  [[nodiscard]] bool has_work(TimePoint now) const noexcept;
  void count_drive(TimePoint now) noexcept;
  void publish_work() noexcept;

  // The device's thread (udp_driver_thread.cc).
  void run_thread() noexcept;
  void watch(std::unique_lock<std::mutex>& lock) noexcept;
  void wait_out_lease(std::unique_lock<std::mutex>& lock) noexcept;
  void wake_thread() noexcept;
  void attend_deadline() noexcept;

  std::mutex mutex_;
  std::unique_ptr<UdpWire> wire_;
  std::unique_ptr<PathShaper> shaper_;  // null without impairments
  std::unique_ptr<roce::Engine> engine_;
  roce::TxBatch batch_;
  roce::TxBatch released_;
  FileDescriptor wake_event_;
  FileDescriptor timer_;

  // Guarded by mutex_.
  TimePoint timer_due_ = kNever;  // what timer_ is set to
  Duration lease_{kMinLease};
  std::uint32_t good_looks_ = 0;
  std::uint32_t posts_since_drive_ = 0;
  bool reply_pending_ = false;  // drive() has left its answer to the next call
  bool watching_ = false;       // the thread waits for packets and the timer
  bool stopping_ = false;

  // Read by pollers without mutex_. One that spins in drive() must seldom hold the mutex: when the
  // system takes the processor from it just then, nobody else can move a packet either.
  std::atomic<TimePoint> last_drive_{};
  std::atomic<std::uint32_t> drives_in_a_row_{0};
  std::atomic<std::uint32_t> drives_for_lease_{kMinDrivesForLease};
  std::atomic<TimePoint> work_due_{kNever};  // the engine's or shaper's next work but packets
  std::atomic<bool> leased_{false};
  std::atomic<bool> silent_{false};                // the last receive found nothing
  std::atomic<std::size_t> last_sent_packets_{0};  // by the last transmit() that sent any

  std::thread thread_;
};

}  // namespace braid::softverbs
