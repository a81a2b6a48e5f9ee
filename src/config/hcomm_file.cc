#include "config/hcomm_file.h"

#include <array>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "config/parse_units.h"
#include "config/port_list.h"
#include "config/text.h"

namespace braid::config {
namespace {

enum KeyKind : std::uint8_t { kMode, kCount, kPorts, kKeyKinds };

constexpr std::array<std::string_view, kKeyKinds> kStems = {"udp_port_mode_", "multi_qp_count_",
                                                            "multi_qp_udp_ports_"};

struct Entry {
  HcommDevice device;
  std::array<std::uint32_t, kKeyKinds> lines{};  // 0 = not there
};

std::optional<std::uint32_t> parse_id(std::string_view text) {
  if (text.size() > 1 && text.front() == '0') return std::nullopt;
  const auto id = parse_integer(text, 0, std::numeric_limits<std::uint32_t>::max());
  if (!id) return std::nullopt;
  return static_cast<std::uint32_t>(*id);
}

/// Reads line after line into entries by device.
class Parser {
 public:
  Parser(std::string_view file, Report& report) : file_(file), report_(report) {}

  Status take_line(std::string_view line) {
    ++line_;
    if (!line.empty() && line.front() == '#') return {};
    const std::size_t equals = line.find('=');
    if (equals == std::string_view::npos) return {};
    const std::string_view key = trim(line.substr(0, equals));
    const std::string_view value = trim(line.substr(equals + 1));
    for (std::size_t kind = 0; kind < kKeyKinds; ++kind) {
      if (key.starts_with(kStems[kind])) {
        return take_key(static_cast<KeyKind>(kind), key, value);
      }
    }
    return {};
  }

  Result<std::vector<HcommDevice>> finish() {
    std::vector<HcommDevice> out;
    for (auto& [id, entry] : entries_) {
      for (std::size_t kind = 0; kind < kKeyKinds; ++kind) {
        if (entry.lines[kind] != 0) continue;
        line_ = 0;
        return refuse(std::string(kStems[kind]) + std::to_string(id), "",
                      "a value: a device that is mentioned needs udp_port_mode, multi_qp_count "
                      "and multi_qp_udp_ports");
      }
      out.push_back(std::move(entry.device));
    }
    return out;
  }

 private:
  Fault where(std::string_view key) const {
    return {.source = std::string(file_), .line = line_, .key = std::string(key)};
  }
  Status refuse(std::string_view key, std::string_view value, const char* allowed) {
    Fault fault = where(key);
    fault.value = value;
    fault.allowed = allowed;
    return report_.refuse(std::move(fault));
  }

  Status take_key(KeyKind kind, std::string_view key, std::string_view value) {
    const std::string_view suffix = key.substr(kStems[kind].size());
    const auto id = parse_id(suffix);
    if (!id) return refuse(key, suffix, "a device id from 0 to 4294967295 without leading zero");
    Entry& entry = entries_[*id];
    if (entry.lines[kind] != 0) {
      report_.warn(std::string(file_) + ":" + std::to_string(line_) + ": " + std::string(key) +
                   " stands in line " + std::to_string(entry.lines[kind]) +
                   " already; that one holds");
      return {};
    }
    entry.lines[kind] = line_;
    entry.device.device = *id;
    return take_value(kind, key, value, entry.device);
  }

  Status take_value(KeyKind kind, std::string_view key, std::string_view value, HcommDevice& out) {
    if (kind == kMode) {
      return value == "multi_qp" ? Status() : refuse(key, value, "multi_qp");
    }
    if (kind == kCount) {
      const auto count = parse_integer(value, 1, kMaxConfiguredQps);
      if (!count) return refuse(key, value, "a whole number from 1 to 32");
      out.qp_count = static_cast<std::uint32_t>(*count);
      out.count_line = line_;
      return {};
    }
    Result<std::vector<std::uint16_t>> ports = parse_ports(value, where(key), report_);
    if (!ports) return ports.error();
    out.ports = std::move(*ports);
    out.ports_line = line_;
    return {};
  }

  std::string_view file_;
  Report& report_;
  std::uint32_t line_ = 0;
  std::map<std::uint32_t, Entry> entries_;
};

}  // namespace

Result<std::vector<HcommDevice>> parse_hcomm_file(std::string_view text, std::string_view file,
                                                  Report& report) {
  Parser parser(file, report);
  while (!text.empty()) {
    const Status status = parser.take_line(take_until(text, '\n'));
    if (!status.ok()) return status;
  }
  return parser.finish();
}

const HcommDevice* find_device(const std::vector<HcommDevice>& devices,
                               std::uint32_t device) noexcept {
  for (const HcommDevice& each : devices) {
    if (each.device == device) return &each;
  }
  return nullptr;
}

}  // namespace braid::config
