#pragma once

#include <braid/channel.h>
#include <braid/channel_options.h>
#include <braid/device.h>
#include <braid/result.h>
#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

namespace braid::bench {

/// A forked process that accepts every channel that it is asked for, and closes it with its peer.
///
/// Owner: the process ends with this object.
class ChannelFarm {
 public:
  /// Forks. Call it before the process opens a device. `lanes` is what every channel has.
  /// Errors: kInternal.
  Status start(const ChannelOptions& options) noexcept;
  ~ChannelFarm();
  ChannelFarm() = default;
  ChannelFarm(const ChannelFarm&) = delete;
  ChannelFarm& operator=(const ChannelFarm&) = delete;

  [[nodiscard]] std::uint16_t port() const noexcept { return port_; }

 private:
  pid_t child_ = -1;
  std::uint16_t port_ = 0;
};

/// Seconds until one more channel to the farm is ready, from the first call on. The channel is
/// closed again. Errors: those of connecting.
[[nodiscard]] Result<double> measure_connect(Device& device, const ChannelFarm& farm,
                                             const ChannelOptions& options) noexcept;

struct CrowdFigures {
  double seconds = 0;            // until the last of them is ready
  double bytes_per_channel = 0;  // resident in this process
};

/// Brings `count` channels up at once in one thread of this process, by step() alone, and closes
/// them. Errors: those of connecting.
[[nodiscard]] Result<CrowdFigures> measure_crowd(Device& device, const ChannelFarm& farm,
                                                 const ChannelOptions& options,
                                                 std::size_t count) noexcept;

/// Raises the limit of open descriptors to what the process may have.
void raise_descriptor_limit() noexcept;

}  // namespace braid::bench
