#include "config/resolve.h"

#include <algorithm>
#include <string>
#include <utility>

#include "config/port_range.h"

namespace braid::config {
namespace {

constexpr std::uint32_t kBasePortCount = 32;       // 60000..60031 from the default base
constexpr std::uint64_t kHcommConnectExtraS = 20;  // HCOMM waits so much longer than it is told

std::string with_unit(std::uint64_t value, const char* unit) {
  return std::to_string(value) + (unit[0] == '\0' ? "" : " ") + unit;
}

std::string text_of(const std::vector<PortRange>& ranges) {
  std::string out;
  for (const PortRange& each : ranges) {
    out += (out.empty() ? "" : ",") + std::to_string(each.first);
    if (each.last != each.first) out += "-" + std::to_string(each.last);
  }
  return out;
}

}  // namespace

Result<ChannelConfig> Resolver::resolve() {
  config_.options = request_.base;
  for (const auto step :
       {&Resolver::profile, &Resolver::lanes_and_ports, &Resolver::queue_pair_values,
        &Resolver::ack_timeout, &Resolver::connect_timeout, &Resolver::other_values,
        &Resolver::listen_ports}) {
    const Status status = (this->*step)();
    if (!status.ok()) return status;
  }
  config_.warnings = report_.warnings();
  return std::move(config_);
}

Status Resolver::profile() {
  std::vector<Candidate<Profile>> candidates;
  if (const auto found = find(kProfileVariable)) {
    const Result<Profile> parsed = parse_profile(found->value, found->name, report_);
    if (!parsed) return parsed.error();
    candidates.push_back({*parsed, found->value, ConfigSource::kEnvironment, found->name});
  }
  candidates.push_back({Profile::kBraid, "braid", ConfigSource::kDefault, "braid"});
  profile_ = settle("profile", std::move(candidates), config_.entries);
  return {};
}

Result<std::uint64_t> Resolver::number(const char* name, const Variable& variable,
                                       const NumberRange& range,
                                       std::optional<std::uint64_t> wanted) {
  std::vector<Candidate<std::uint64_t>> candidates;
  if (wanted) {
    const Result<std::uint64_t> checked =
        parse_number(std::to_string(*wanted), std::string("the requested ") + name, range, report_);
    if (!checked) return checked.error();
    candidates.push_back(
        {*checked, with_unit(*checked, range.unit), ConfigSource::kExplicit, "request"});
  }
  const auto found = find(variable);
  if (found) {
    const Result<std::uint64_t> parsed = parse_number(found->value, found->name, range, report_);
    if (!parsed) return parsed.error();
    candidates.push_back(
        {*parsed, with_unit(*parsed, range.unit), ConfigSource::kEnvironment, found->name});
  }
  add_alias(found, variable, candidates);
  candidates.push_back({range.default_value, with_unit(range.default_value, range.unit),
                        ConfigSource::kDefault, default_name()});
  return settle(name, std::move(candidates), config_.entries);
}

Status Resolver::queue_pair_values() {
  const Result<std::uint64_t> traffic_class =
      number("traffic_class", kTrafficClassVariable, kTrafficClass, request_.traffic_class);
  if (!traffic_class) return traffic_class.error();
  const Result<std::uint64_t> service_level =
      number("service_level", kServiceLevelVariable, kServiceLevel, request_.service_level);
  if (!service_level) return service_level.error();
  const Result<std::uint64_t> retry_count =
      number("retry_count", kRetryVariable, retry_count_range(profile_), request_.retry_count);
  if (!retry_count) return retry_count.error();
  config_.options.traffic_class = static_cast<std::uint8_t>(*traffic_class);
  config_.options.service_level = static_cast<std::uint8_t>(*service_level);
  config_.options.retry_count = static_cast<std::uint8_t>(*retry_count);
  return {};
}

Status Resolver::ack_timeout() {
  constexpr const char* kName = "ack_timeout_exponent";
  std::vector<Candidate<std::uint8_t>> candidates;
  const auto take = [&](std::string_view text, std::string where, ConfigSource source) {
    const Result<std::uint8_t> parsed = parse_ack_timeout(
        text, source == ConfigSource::kExplicit ? std::string("the requested ") + kName : where,
        profile_, report_);
    if (parsed) {
      candidates.push_back({*parsed, std::to_string(*parsed), source, std::move(where)});
    }
    return parsed ? Status() : parsed.error();
  };
  if (request_.ack_timeout_exponent) {
    const Status status =
        take(std::to_string(*request_.ack_timeout_exponent), "request", ConfigSource::kExplicit);
    if (!status.ok()) return status;
  }
  const auto found = find(kAckTimeoutVariable);
  if (found) {
    const Status status = take(found->value, found->name, ConfigSource::kEnvironment);
    if (!status.ok()) return status;
  }
  add_alias(found, kAckTimeoutVariable, candidates);
  const auto usual = static_cast<std::uint8_t>(ack_timeout_range(profile_).default_value);
  candidates.push_back({usual, std::to_string(usual), ConfigSource::kDefault, default_name()});
  config_.options.ack_timeout_exponent = settle(kName, std::move(candidates), config_.entries);
  return {};
}

Status Resolver::connect_timeout() {
  if (request_.connect_timeout && *request_.connect_timeout <= Duration(0)) {
    return report_.refuse({.source = "the requested connect_timeout",
                           .value = std::to_string(request_.connect_timeout->count()) + " ns",
                           .allowed = "more than 0"});
  }
  std::vector<Candidate<Duration>> candidates;
  if (request_.connect_timeout) {
    const auto milliseconds =
        std::chrono::duration_cast<std::chrono::milliseconds>(*request_.connect_timeout).count();
    candidates.push_back({*request_.connect_timeout, std::to_string(milliseconds) + " ms",
                          ConfigSource::kExplicit, "request"});
  }
  const std::uint64_t extra_s = hcomm_profile() ? kHcommConnectExtraS : 0;
  const auto found = find(kConnectTimeoutVariable);
  if (found) {
    const Result<std::uint64_t> parsed =
        parse_number(found->value, found->name, connect_timeout_range(profile_), report_);
    if (!parsed) return parsed.error();
    candidates.push_back({std::chrono::seconds(*parsed + extra_s),
                          with_unit(*parsed + extra_s, "s"), ConfigSource::kEnvironment,
                          found->name});
  }
  add_alias(found, kConnectTimeoutVariable, candidates);
  const std::uint64_t usual_s = connect_timeout_range(profile_).default_value + extra_s;
  candidates.push_back({std::chrono::seconds(usual_s), with_unit(usual_s, "s"),
                        ConfigSource::kDefault, default_name()});
  config_.options.connect_timeout =
      settle("connect_timeout", std::move(candidates), config_.entries);
  return {};
}

Status Resolver::other_values() {
  const Result<std::uint64_t> execution_s =
      number("execution_timeout", kExecTimeoutVariable, kExecTimeoutS, std::nullopt);
  if (!execution_s) return execution_s.error();
  const Result<std::uint64_t> threshold_kib =
      number("split_threshold", kThresholdVariable, kMultiQpThresholdKib, std::nullopt);
  if (!threshold_kib) return threshold_kib.error();
  config_.execution_timeout = std::chrono::seconds(*execution_s);
  config_.options.static_threshold_bytes = static_cast<std::uint32_t>(*threshold_kib << 10U);
  return {};
}

Status Resolver::listen_ports() {
  std::vector<Candidate<std::vector<PortRange>>> candidates;
  const auto range = find(kPortRangeVariable);
  if (range) {
    Result<std::vector<PortRange>> parsed = parse_port_ranges(range->value, range->name, report_);
    if (!parsed) return parsed.error();
    const bool any = parsed->empty();
    if (any) parsed->push_back({0, 0});
    const std::string text = any ? "auto" : text_of(*parsed);
    candidates.push_back({std::move(*parsed), text, ConfigSource::kEnvironment, range->name});
  }
  add_alias(range, kPortRangeVariable, candidates);
  const auto base = find(kBasePortVariable);
  if (base) {
    const Result<std::uint64_t> first = parse_number(base->value, base->name, kBasePort, report_);
    if (!first) return first.error();
    const std::uint64_t last = std::min<std::uint64_t>(*first + kBasePortCount - 1, 65535);
    std::vector<PortRange> ports = {
        {static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(last)}};
    const std::string text = text_of(ports);
    candidates.push_back({std::move(ports), text, ConfigSource::kEnvironment, base->name});
  }
  add_alias(base, kBasePortVariable, candidates);
  candidates.push_back({{}, "the program's own", ConfigSource::kDefault, default_name()});
  config_.listen_ports = settle("listen_ports", std::move(candidates), config_.entries);
  return {};
}

}  // namespace braid::config
