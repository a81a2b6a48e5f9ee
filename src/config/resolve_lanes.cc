// How many lanes a channel has, and from which source ports they send.
#include <algorithm>
#include <string>
#include <utility>

#include "config/ip_pair_file.h"
#include "config/port_list.h"
#include "config/resolve.h"

namespace braid::config {
namespace {

constexpr const char* kPairFileName = "MultiQpSrcPort.cfg";
constexpr std::size_t kMaxPathChars = 4095;

std::string text_of(const std::vector<std::uint16_t>& ports) {
  std::string out;
  for (const std::uint16_t port : ports) out += (out.empty() ? "" : ",") + std::to_string(port);
  return out;
}

std::string at_line(const std::string& file, std::uint32_t line) {
  return file + ":" + std::to_string(line);
}

}  // namespace

struct Resolver::Ports {
  std::optional<HcommDevice> hcomm;
  std::vector<std::uint16_t> listed;  // of the variable, for this device
  std::string listed_in;
  std::optional<std::string> alias_list;
  std::optional<IpPairTable::Entry> pair;
  std::string pair_file;
};

Status Resolver::lanes_and_ports() {
  Ports ports;
  using Reader = Status (Resolver::*)(Ports&);
  for (const Reader read : {&Resolver::read_ports, &Resolver::pair_ports}) {
    const Status status = (this->*read)(ports);
    if (!status.ok()) return status;
  }
  const Status status = settle_lanes(ports);
  return status.ok() ? settle_ports(ports) : status;
}

Status Resolver::read_ports(Ports& out) {
  if (const auto found = find(kPortsVariable)) {
    Result<std::vector<DevicePorts>> list = parse_device_ports(found->value, found->name, report_);
    if (!list) return list.error();
    out.listed_in = found->name;
    out.alias_list = found->alias_value;
    for (DevicePorts& each : *list) {
      if (each.device == request_.device) out.listed = std::move(each.ports);
    }
  }
  const auto devices = files_.hcomm(inputs_, report_);
  if (!devices) return devices.error();
  const HcommDevice* entry =
      *devices == nullptr ? nullptr : find_device(**devices, request_.device);
  if (entry != nullptr) out.hcomm = *entry;
  return {};
}

Status Resolver::pair_ports(Ports& out) {
  const auto found = find(kPairPathVariable);
  if (!found) return {};
  if (found->value.size() > kMaxPathChars) {
    return report_.refuse(
        {.source = found->name, .value = found->value, .allowed = "at most 4095 characters"});
  }
  const bool slash = found->value.back() == '/';
  out.pair_file = found->value + (slash ? "" : "/") + kPairFileName;
  const auto table = files_.pairs(inputs_, out.pair_file, report_);
  if (!table) return table.error();
  if (request_.local_address.empty() || request_.remote_address.empty()) return {};
  const auto local = parse_ip_address(request_.local_address);
  const auto remote = parse_ip_address(request_.remote_address);
  if (!local || !remote) {
    return report_.refuse({.source = local ? "the remote address" : "the local address",
                           .value = local ? request_.remote_address : request_.local_address,
                           .allowed = "an IPv4 or IPv6 address"});
  }
  const IpPairTable::Entry* entry = (*table)->find(*local, *remote);
  if (entry != nullptr) out.pair = *entry;
  return {};
}

Status Resolver::settle_lanes(const Ports& ports) {
  std::vector<Candidate<std::uint32_t>> candidates;
  const auto add = [&](std::uint64_t value, ConfigSource source, std::string where) {
    candidates.push_back(
        {static_cast<std::uint32_t>(value), std::to_string(value), source, std::move(where)});
  };
  if (request_.lanes) {
    const NumberRange range = {1, hcomm_profile() ? kMaxConfiguredQps : kMaxLanes, 1, 1, ""};
    const auto checked =
        parse_number(std::to_string(*request_.lanes), "the requested lanes", range, report_);
    if (!checked) return checked.error();
    add(*checked, ConfigSource::kExplicit, "request");
  }
  if (ports.hcomm) {
    add(ports.hcomm->qp_count, ConfigSource::kHcommFile,
        at_line(inputs_.hcomm_path, ports.hcomm->count_line));
  }
  if (ports.pair) {
    add(ports.pair->ports.size(), ConfigSource::kIpPairFile,
        at_line(ports.pair_file, ports.pair->line));
  }
  const auto found = find(kQpsVariable);
  if (found) {
    const auto parsed = parse_number(found->value, found->name, kQpsPerConnection, report_);
    if (!parsed) return parsed.error();
    add(*parsed, ConfigSource::kEnvironment, found->name);
  }
  add_alias(found, kQpsVariable, candidates);
  config_.lanes_configured = !candidates.empty();
  add(request_.default_lanes, ConfigSource::kDefault, default_name());
  config_.options.lanes = settle("lanes", std::move(candidates), config_.entries);
  return {};
}

Status Resolver::settle_ports(const Ports& ports) {
  using PortVector = std::vector<std::uint16_t>;
  std::vector<Candidate<PortVector>> candidates;
  const auto add = [&](const PortVector& value, ConfigSource source, std::string where) {
    if (!value.empty()) candidates.push_back({value, text_of(value), source, std::move(where)});
  };
  const PortVector& wanted = request_.source_ports;
  if (wanted.size() > kMaxLanes || std::count(wanted.begin(), wanted.end(), 0) != 0) {
    return report_.refuse({.source = "the requested source_ports",
                           .value = text_of(wanted),
                           .allowed = "at most 128 ports from 1 to 65535"});
  }
  add(wanted, ConfigSource::kExplicit, "request");
  if (ports.hcomm) {
    add(ports.hcomm->ports, ConfigSource::kHcommFile,
        at_line(inputs_.hcomm_path, ports.hcomm->ports_line));
  }
  add(ports.listed, ConfigSource::kEnvironment, ports.listed_in);
  if (ports.pair) {
    add(ports.pair->ports, ConfigSource::kIpPairFile, at_line(ports.pair_file, ports.pair->line));
  }
  if (ports.alias_list) {
    candidates.push_back({{}, *ports.alias_list, ConfigSource::kEnvironment, kPortsVariable.alias});
  }
  if (candidates.empty() || candidates.front().value.empty()) {
    candidates.insert(candidates.begin(),
                      {{}, "the device's own", ConfigSource::kDefault, default_name()});
  } else {
    candidates.push_back({{}, "the device's own", ConfigSource::kDefault, default_name()});
  }
  config_.options.source_ports = settle("source_ports", std::move(candidates), config_.entries);
  const std::size_t count = config_.options.source_ports.size();
  const std::uint32_t lanes = config_.options.lanes;
  if (count != 0 && lanes != 0 && count != lanes) {
    report_.warn(std::to_string(count) + " source ports for " + std::to_string(lanes) + " lanes: " +
                 (count > lanes ? "only the first ones are used" : "they are used in turn"));
  }
  return {};
}

}  // namespace braid::config
