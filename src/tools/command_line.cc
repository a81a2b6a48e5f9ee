#include "tools/command_line.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <utility>

#include "config/soft_device_env.h"
#include "tools/exit_code.h"
#include "tools/transfer_report.h"

namespace braid::tools {

bool parse_host_port(std::string_view text, std::uint16_t port, HostPort& out) {
  out.port = port;
  std::string_view digits;
  if (!text.empty() && text.front() == '[') {
    const std::size_t close = text.find(']');
    if (close == std::string_view::npos) return false;
    out.host = text.substr(1, close - 1);
    const std::string_view rest = text.substr(close + 1);
    if (rest.empty()) return true;
    if (rest.front() != ':') return false;
    digits = rest.substr(1);
  } else {
    const std::size_t colon = text.find(':');
    // More than one colon without brackets is an IPv6 address alone.
    if (colon == std::string_view::npos || text.find(':', colon + 1) != std::string_view::npos) {
      out.host = text;
      return true;
    }
    out.host = text.substr(0, colon);
    digits = text.substr(colon + 1);
  }
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, out.port);
  return error == std::errc() && stop == end;
}

void add_common_options(CLI::App& app, CommonArguments& arguments) {
  app.add_option("-q,--lanes", arguments.lanes, "Number of lanes (queue pairs), 1..128")
      ->check(CLI::Range(1U, kMaxLanes));
  app.add_option("--sports", arguments.source_ports,
                 "UDP source ports of the lanes, separated by commas; they cycle")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::Range(1, 65535));
  app.add_option("--segment", arguments.segment_bytes, "Most bytes per work request, e.g. 256KiB")
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--window", arguments.window_segments,
                 "Segments under way at most, a power of two")
      ->capture_default_str();
  app.add_option("--depth", arguments.lane_depth, "Segments under way per lane at most")
      ->capture_default_str();
  app.add_option("--tclass", arguments.traffic_class, "Traffic class; DSCP is its upper six bits")
      ->check(CLI::Range(0, 255))
      ->capture_default_str();
  app.add_option("--device", arguments.device,
                 "RDMA device by name, or \"soft\" for the user-space device")
      ->capture_default_str();
  app.add_option("--soft-address", arguments.soft_address,
                 "Address of the soft device; default: a free one of 127.0.0.0/8");
  app.add_option(
         "--impair", arguments.impairments,
         "Soft device only, repeatable: what happens to packets from one source port, e.g.\n"
         "port=50004,rate=400Mbit or loss=1%,delay=100us (without port: every other port)")
      ->allow_extra_args(false);
  app.add_option("--seed", arguments.seed, "Seed of the impairments; 0 = from the system");
  app.add_option("--timeout", arguments.timeout_s,
                 "Seconds without a sign of the peer before giving up")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  app.add_flag("--json", arguments.json, "End with one line of JSON that says the same");
}

ChannelOptions channel_options(const CommonArguments& arguments, std::uint32_t default_lanes) {
  ChannelOptions options;
  options.lanes = arguments.lanes == 0 ? default_lanes : arguments.lanes;
  options.segment_bytes =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(arguments.segment_bytes, UINT32_MAX));
  options.window_segments = arguments.window_segments;
  options.lane_depth = arguments.lane_depth;
  options.source_ports = arguments.source_ports;
  options.traffic_class = static_cast<std::uint8_t>(arguments.traffic_class);
  options.connect_timeout = timeout_of(arguments);
  return options;
}

Duration timeout_of(const CommonArguments& arguments) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(arguments.timeout_s));
}

MaybeFailure open_device(const CommonArguments& arguments, std::unique_ptr<Device>& device) {
  std::string why;
  if (arguments.device != "soft") {
    if (!arguments.impairments.empty() || !arguments.soft_address.empty()) {
      return Failure{kExitUsage, "--impair and --soft-address go with --device soft only"};
    }
    Result<Device> opened = Device::open_kernel(arguments.device, 1, -1, &why);
    if (!opened) return Failure{kExitConnect, why};
    device = std::make_unique<Device>(std::move(*opened));
    return std::nullopt;
  }
  // The environment first, then what the command line says.
  SoftDeviceOptions options;
  if (!config::load_soft_device_options(options, why).ok()) return Failure{kExitUsage, why};
  if (!arguments.soft_address.empty()) options.address = arguments.soft_address;
  if (arguments.seed != 0) options.seed = arguments.seed;
  std::string impairments;
  for (const std::string& each : arguments.impairments) {
    impairments += (impairments.empty() ? "" : ";") + each;
  }
  if (!impairments.empty() &&
      !config::parse_impairments(impairments, options.impairments, why).ok()) {
    return Failure{kExitUsage, "--impair: " + why};
  }
  Result<Device> opened = Device::open_soft(options, &why);
  if (!opened) return Failure{kExitConnect, why};
  device = std::make_unique<Device>(std::move(*opened));
  return std::nullopt;
}

bool parse_command_line(CLI::App& app, int argc, char** argv, int& exit_code) {
  try {
    app.parse(argc, argv);
    return true;
  } catch (const CLI::ParseError& error) {
    exit_code = app.exit(error) == 0 ? kExitOk : kExitUsage;
    return false;
  }
}

int report_failure(const char* program, const CommonArguments& arguments, bool sending,
                   const Failure& failure) {
  std::fprintf(stderr, "%s: %s\n", program, failure.text.c_str());
  if (arguments.json) print_failure_json(sending, failure.exit_code, failure.text);
  return failure.exit_code;
}

}  // namespace braid::tools
