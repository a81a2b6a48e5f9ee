#include "tools/command_line.h"

#include <arpa/inet.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <memory>
#include <utility>

#include "config/soft_device_env.h"
#include "tools/exit_code.h"
#include "tools/transfer_report.h"

namespace braid::tools {
namespace {

constexpr double kDefaultTimeoutS = 20;

}  // namespace

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
  app.add_option("--policy", arguments.policy,
                 "Which lane carries what: static_split, round_robin, dqplb or adaptive")
      ->check(CLI::IsMember({"static_split", "round_robin", "dqplb", "adaptive"}))
      ->capture_default_str();
  app.add_option("--repath", arguments.repath_s,
                 "Seconds for which a lane is much slower than the others before it tries another\n"
                 "source port; 0 = never")
      ->check(CLI::Range(0.0, 3600.0))
      ->capture_default_str();
  app.add_option("--tclass", arguments.traffic_class,
                 "Traffic class, a multiple of 4; DSCP is a quarter of it");
  app.add_option("--sl", arguments.service_level, "Service level, 0..7");
  app.add_option("--retry", arguments.retry_count, "Times a packet is sent again, 1..7");
  app.add_option("--ack-timeout", arguments.ack_timeout_exponent,
                 "Time until a packet is sent again: this t in 4.096 us * 2^t");
  app.add_option("--device-id", arguments.device_id,
                 "Id that the device has in hcomm.cfg and in lists of source ports")
      ->capture_default_str();
  app.add_flag("--print-config", arguments.print_config,
               "Say what holds for the channel and where each value comes from, and end");
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
                 "Seconds without a sign of the peer before giving up; default 20")
      ->check(CLI::Range(0.1, 86400.0));
  app.add_flag("--json", arguments.json, "End with one line of JSON that says the same");
}

MaybeFailure configure(const char* program, const CommonArguments& arguments, const Device& device,
                       const std::string& remote, std::uint32_t default_lanes, ChannelConfig& out) {
  ConfigRequest request;
  request.device = arguments.device_id;
  in6_addr ignored{};
  if (::inet_pton(AF_INET, remote.c_str(), &ignored) == 1 ||
      ::inet_pton(AF_INET6, remote.c_str(), &ignored) == 1) {
    request.local_address = device.address();
    request.remote_address = remote;
  }
  request.base.segment_bytes =
      static_cast<std::uint32_t>(std::min<std::uint64_t>(arguments.segment_bytes, UINT32_MAX));
  request.base.window_segments = arguments.window_segments;
  request.base.lane_depth = arguments.lane_depth;
  request.base.policy =
      parse_scheduler_policy(arguments.policy).value_or(SchedulerPolicy::kAdaptive);
  request.base.repath_after =
      std::chrono::duration_cast<Duration>(std::chrono::duration<double>(arguments.repath_s));
  request.default_lanes = default_lanes;
  if (arguments.lanes != 0) request.lanes = arguments.lanes;
  request.source_ports = arguments.source_ports;
  request.traffic_class = arguments.traffic_class;
  request.service_level = arguments.service_level;
  request.retry_count = arguments.retry_count;
  request.ack_timeout_exponent = arguments.ack_timeout_exponent;
  if (arguments.timeout_s) request.connect_timeout = timeout_of(arguments);
  std::string why;
  Result<ChannelConfig> config = load_channel_options(request, &why);
  if (!config) return Failure{kExitUsage, why};
  for (const std::string& each : config->warnings) {
    std::fprintf(stderr, "%s: warning: %s\n", program, each.c_str());
  }
  out = std::move(*config);
  return std::nullopt;
}

MaybeFailure print_configuration(const CommonArguments& arguments, const ChannelConfig& config) {
  const std::string text = arguments.json ? to_json(config) + "\n" : to_text(config);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    return Failure{kExitFile, "stdout does not take the configuration"};
  }
  return std::nullopt;
}

Duration timeout_of(const CommonArguments& arguments) {
  return std::chrono::duration_cast<Duration>(
      std::chrono::duration<double>(arguments.timeout_s.value_or(kDefaultTimeoutS)));
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
