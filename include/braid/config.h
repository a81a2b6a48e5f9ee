#pragma once

#include <braid/channel_options.h>
#include <braid/result.h>
#include <braid/time.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

/// Where a configured value comes from, the weakest first.
enum class ConfigSource : std::uint8_t {
  kDefault,      // nobody said anything
  kEnvironment,  // a variable: BRAID_*, or its alias HCCL_*
  kIpPairFile,   // MultiQpSrcPort.cfg, the entry of the pair of addresses
  kHcommFile,    // /etc/hcomm.cfg, the entry of the physical device
  kExplicit,     // the caller: ConfigRequest, or a program's command line
};

/// Names a source in lower case with underscores, for logs and JSON.
[[nodiscard]] std::string_view to_string(ConfigSource source) noexcept;

/// A value that would have held, had nothing stronger been there.
struct ConfigAlternative {
  std::string value = {};
  ConfigSource source = ConfigSource::kDefault;
  std::string where = {};  // variable, or FILE:LINE
};

/// One value that holds, with its origin.
struct ConfigEntry {
  std::string name = {};   // of the setting, e.g. "lanes"
  std::string value = {};  // in text, with its unit
  ConfigSource source = ConfigSource::kDefault;
  std::string where = {};  // variable, FILE:LINE, or what the default belongs to
  std::vector<ConfigAlternative> overrode = {};  // strongest first
};

/// Ports from first to last, both inclusive. 0 to 0: the system chooses.
struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
  friend constexpr bool operator==(const PortRange&, const PortRange&) noexcept = default;
};

/// What a channel is wanted for, and what its user decides without asking any configuration.
struct ConfigRequest {
  /// Id of the physical device, which lists of ports and hcomm.cfg go by. Default 0.
  std::uint32_t device = 0;
  /// Addresses of the two ends, IPv4 or IPv6 in text. Default empty: MultiQpSrcPort.cfg is then not
  /// asked.
  std::string local_address = {};
  std::string remote_address = {};
  /// Options that no configuration speaks of (segment_bytes, depths, exports ...) are taken from
  /// here as they are. Default: those of ChannelOptions.
  ChannelOptions base = {};
  /// Lanes when nobody says a number. Default 1; 0 where `base` would allow it.
  std::uint32_t default_lanes = 1;

  // What the user decides; empty = the configuration does.
  std::optional<std::uint32_t> lanes = {};                 // 1..128; 1..32 in the HCOMM profiles
  std::vector<std::uint16_t> source_ports = {};            // at most 128
  std::optional<std::uint32_t> traffic_class = {};         // 0..252, a multiple of 4
  std::optional<std::uint32_t> service_level = {};         // 0..7
  std::optional<std::uint32_t> retry_count = {};           // 1..7
  std::optional<std::uint32_t> ack_timeout_exponent = {};  // by profile, see docs/configuration.md
  std::optional<Duration> connect_timeout = {};            // > 0
};

/// The resolved configuration of one channel.
struct ChannelConfig {
  ChannelOptions options = {};
  /// False when the number of lanes is the default, so that a device's own expansion may replace
  /// it. An explicit 1 is true.
  bool lanes_configured = false;
  /// How long draining may make no progress. Default 1836 s; 0 = no limit.
  Duration execution_timeout = std::chrono::seconds(1836);
  /// Ports that a listener may take, in this order. Empty: the caller's own default.
  std::vector<PortRange> listen_ports = {};
  /// Every setting above with where it came from, in a fixed order.
  std::vector<ConfigEntry> entries = {};
  /// Sentences about what was taken but looks wrong.
  std::vector<std::string> warnings = {};
};

/// The outside world as the configuration sees it.
struct ConfigInputs {
  /// Value of a variable; empty when it is not set.
  std::function<std::optional<std::string>(const char* name)> environment = {};
  /// Whole content of a file. Errors: kNotFound when there is none, anything else when it cannot be
  /// read.
  std::function<Result<std::string>(const std::string& path)> read_file = {};
  /// Default /etc/hcomm.cfg. Need not exist.
  std::string hcomm_path = "/etc/hcomm.cfg";

  /// The environment of the process and the file system. Files are read up to 64 MiB.
  [[nodiscard]] static ConfigInputs of_process();
};

/// Reads configuration files at most once.
///
/// A file that was read and understood is kept: later changes of it do not count. Of a file with
/// any fault nothing is kept, and the next load() reads it again. A missing hcomm.cfg is no fault.
/// Thread: any. Cost: reads files and allocates; belongs to setup.
class ConfigSources {
 public:
  explicit ConfigSources(ConfigInputs inputs);
  ~ConfigSources();
  ConfigSources(ConfigSources&&) noexcept;
  ConfigSources& operator=(ConfigSources&&) noexcept;

  /// Resolves the options of one channel by the rules of docs/configuration.md.
  ///
  /// Errors: kInvalidArgument for anything wrong in any source that is present, and for a file that
  /// cannot be read; `why`, when given, gets one sentence with file, line, key, value and what is
  /// allowed. Nothing is applied in part.
  Result<ChannelConfig> load(const ConfigRequest& request, std::string* why = nullptr) noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Resolves the options of one channel from the environment and the files of the process, which are
/// read anew. Programs with many channels keep one ConfigSources. Errors: as ConfigSources::load().
Result<ChannelConfig> load_channel_options(const ConfigRequest& request,
                                           std::string* why = nullptr) noexcept;

/// Renders one line per setting: value, origin, and what it overrode; then the warnings.
[[nodiscard]] std::string to_text(const ChannelConfig& config);
/// The same as one line of JSON:
/// {"settings":[{"name","value","source","where","overrode":[{"value","source","where"}]}],
///  "warnings":[...]}
[[nodiscard]] std::string to_json(const ChannelConfig& config);

}  // namespace braid
