#include "config/port_list.h"

#include <limits>
#include <set>
#include <string>
#include <utility>

#include "config/parse_units.h"
#include "config/text.h"

namespace braid::config {
namespace {

constexpr std::uint16_t kFirstOrdinaryPort = 1024;

Status refuse(Report& report, Fault where, std::string_view value, const char* allowed) {
  where.value = value;
  where.allowed = allowed;
  return report.refuse(std::move(where));
}

}  // namespace

Result<std::vector<std::uint16_t>> parse_ports(std::string_view text, const Fault& where,
                                               Report& report) {
  std::vector<std::uint16_t> ports;
  bool more = true;
  while (more) {
    more = text.find(',') != std::string_view::npos;
    const std::string_view element = take_until(text, ',');
    const auto port = parse_integer(element, 1, 65535);
    if (!port) {
      return refuse(report, where, element, "ports from 1 to 65535 in decimal, separated by ','");
    }
    if (ports.size() == kMaxPortsPerList) {
      return refuse(report, where, element, "at most 32 ports: this is the 33rd");
    }
    ports.push_back(static_cast<std::uint16_t>(*port));
  }
  for (const std::uint16_t port : ports) {
    if (port >= kFirstOrdinaryPort) continue;
    report.warn(where.source + (where.line == 0 ? "" : ":" + std::to_string(where.line)) +
                ": source port " + std::to_string(port) +
                " is a system port (1..1023); better take one from 1024 on");
    break;
  }
  return ports;
}

Result<std::vector<DevicePorts>> parse_device_ports(std::string_view text, std::string_view name,
                                                    Report& report) {
  Fault where{.source = std::string(name)};
  if (text.size() > kMaxPortListChars) {
    return refuse(report, std::move(where), text, "at most 32768 characters");
  }
  std::vector<DevicePorts> list;
  if (text.empty()) return list;
  std::set<std::uint32_t> seen;
  bool more = true;
  while (more) {
    more = text.find(';') != std::string_view::npos;
    const std::string_view entry = take_until(text, ';');
    const std::size_t colon = entry.find(':');
    if (colon == std::string_view::npos || entry.find(':', colon + 1) != std::string_view::npos) {
      return refuse(report, std::move(where), entry,
                    "DEVICE:PORT,PORT... with one colon, entries separated by single ';'");
    }
    const std::string_view id_text = entry.substr(0, colon);
    const auto id = parse_integer(id_text, 0, std::numeric_limits<std::uint32_t>::max());
    if (!id) {
      where.key = "device";
      return refuse(report, std::move(where), id_text, "a decimal id from 0 to 4294967295");
    }
    const auto device = static_cast<std::uint32_t>(*id);
    where.key = "device " + std::to_string(device);
    if (!seen.insert(device).second) {
      return refuse(report, std::move(where), entry, "one entry per device");
    }
    Result<std::vector<std::uint16_t>> ports = parse_ports(entry.substr(colon + 1), where, report);
    if (!ports) return ports.error();
    list.push_back({device, std::move(*ports)});
    where.key.clear();
  }
  return list;
}

}  // namespace braid::config
