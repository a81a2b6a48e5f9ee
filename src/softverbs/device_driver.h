#pragma once

#include <braid/time.h>

#include <cstdint>
#include <mutex>
#include <span>

#include "roce/engine.h"

namespace braid::softverbs {

/// Moves packets between one engine and its wire. The verbs objects (soft_context.h) drive the
/// device through this interface only, so UDP sockets and the simulated fabric share them.
///
/// Thread: every method says whether the caller holds mutex().
class DeviceDriver {
 public:
  virtual ~DeviceDriver() = default;

  /// Guards engine() and all verbs objects of the device.
  [[nodiscard]] virtual std::mutex& mutex() noexcept = 0;
  /// Caller holds mutex().
  [[nodiscard]] virtual roce::Engine& engine() noexcept = 0;
  /// The time to hand to the engine. One clock read.
  [[nodiscard]] virtual TimePoint now() noexcept = 0;

  /// Work was posted. Caller holds mutex(). Sends at once what is worth sending at once, and makes
  /// sure that the rest leaves without further calls from the application.
  virtual void after_post() noexcept = 0;
  /// A poller found its queue empty. Caller does not hold mutex(). Moves a bounded batch of
  /// packets if no other thread is at it; returns quickly otherwise.
  virtual void drive() noexcept = 0;
  /// Sends what has been put off and may leave now: acknowledgements above all, which the peer
  /// needs before their QP goes. Caller holds mutex().
  virtual void flush() noexcept = 0;
  /// The application is about to sleep on an event: the device's own thread must react to packets
  /// at once from now on. Caller holds mutex().
  virtual void on_armed() noexcept = 0;

  /// Addresses of the device; index i is GID index i. Never empty; immutable.
  [[nodiscard]] virtual std::span<const roce::IpAddress> addresses() const noexcept = 0;
  /// Largest IB path MTU that the wire carries, in bytes: 256..4096.
  [[nodiscard]] virtual std::uint32_t max_mtu_bytes() const noexcept = 0;
  /// Prepares sending from a UDP source port. Caller holds mutex(). Errors: kPermission or kIo
  /// with the errno when the port cannot be bound; the caller names the port.
  [[nodiscard]] virtual Status open_source_port(const roce::IpAddress& source,
                                                std::uint16_t port) noexcept = 0;
  /// Counterpart of open_source_port(); calls are counted per port. Caller holds mutex().
  virtual void close_source_port(const roce::IpAddress& source, std::uint16_t port) noexcept = 0;
};

}  // namespace braid::softverbs
