#pragma once

#include <braid/channel_options.h>
#include <braid/config.h>
#include <braid/device.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/failure.h"

namespace braid::tools {

/// "HOST", "HOST:PORT", "[V6]:PORT", ":PORT" or a bare IPv6 address.
struct HostPort {
  std::string host;
  std::uint16_t port = 0;
};

/// False for a port that is not 0..65535 or a bracket that does not close. `port` is what holds
/// when none is given.
[[nodiscard]] bool parse_host_port(std::string_view text, std::uint16_t port, HostPort& out);

/// What braid_send and braid_recv have in common on their command lines.
struct CommonArguments {
  std::string device = "soft";
  std::string soft_address;
  std::vector<std::string> impairments;
  std::uint64_t seed = 0;
  std::uint32_t lanes = 0;  // 0 = not given
  std::vector<std::uint16_t> source_ports;
  std::uint64_t segment_bytes = 512U << 10U;
  std::uint32_t window_segments = 1024;
  std::uint32_t lane_depth = 16;
  // What the configuration says where these are not given.
  std::string policy = "adaptive";
  double repath_s = 0;
  std::optional<std::uint32_t> traffic_class;
  std::optional<std::uint32_t> service_level;
  std::optional<std::uint32_t> retry_count;
  std::optional<std::uint32_t> ack_timeout_exponent;
  std::uint32_t device_id = 0;
  bool print_config = false;
  std::optional<double> timeout_s;
  bool json = false;
};

void add_common_options(CLI::App& app, CommonArguments& arguments);

/// Resolves the channel's configuration: the arguments, then files and environment. Warnings go to
/// stderr in the name of `program`.
///
/// `remote` is the peer's address where it is known; a host name counts as not known.
/// `default_lanes` holds where nobody says a number.
MaybeFailure configure(const char* program, const CommonArguments& arguments, const Device& device,
                       const std::string& remote, std::uint32_t default_lanes, ChannelConfig& out);

/// Prints the configuration to stdout: one line per setting, or JSON.
MaybeFailure print_configuration(const CommonArguments& arguments, const ChannelConfig& config);

[[nodiscard]] Duration timeout_of(const CommonArguments& arguments);

/// Opens the device that the arguments name, into `device`.
MaybeFailure open_device(const CommonArguments& arguments, std::unique_ptr<Device>& device);

/// Parses the command line. Returns true to go on; false with `exit_code` set after --help or a
/// usage error, which was printed.
[[nodiscard]] bool parse_command_line(CLI::App& app, int argc, char** argv, int& exit_code);

/// Prints the failure to stderr, and with --json as the last line of stdout. Returns its code.
int report_failure(const char* program, const CommonArguments& arguments, bool sending,
                   const Failure& failure);

}  // namespace braid::tools
