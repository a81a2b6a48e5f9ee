#pragma once

#include <braid/config.h>

#include <map>
#include <string>

namespace braid::config {

/// An environment and files that exist only here, and what was read of them.
struct World {
  std::map<std::string, std::string> variables;
  std::map<std::string, std::string> files;
  std::map<std::string, Status> broken;  // paths that cannot be read
  std::map<std::string, int> reads;      // successful and failed, by path

  ConfigSources sources() {
    return ConfigSources({.environment = [this](const char* name) -> std::optional<std::string> {
                            const auto at = variables.find(name);
                            if (at == variables.end()) return std::nullopt;
                            return at->second;
                          },
                          .read_file = [this](const std::string& path) -> Result<std::string> {
                            ++reads[path];
                            if (const auto at = broken.find(path); at != broken.end())
                              return at->second;
                            if (const auto at = files.find(path); at != files.end())
                              return at->second;
                            return Status(StatusCode::kNotFound);
                          }});
  }
  /// Loads once, from fresh sources.
  Result<ChannelConfig> load(const ConfigRequest& request = {}, std::string* why = nullptr) {
    return sources().load(request, why);
  }
};

inline constexpr const char* kHcommPath = "/etc/hcomm.cfg";

/// Lines of hcomm.cfg for one device.
inline std::string hcomm_lines(int device, int count, const std::string& ports) {
  const std::string id = std::to_string(device);
  return "udp_port_mode_" + id + "=multi_qp\nmulti_qp_count_" + id + "=" + std::to_string(count) +
         "\nmulti_qp_udp_ports_" + id + "=" + ports + "\n";
}

/// The entry of a setting; an empty one when there is none.
inline ConfigEntry entry_of(const ChannelConfig& config, const std::string& name) {
  for (const ConfigEntry& each : config.entries) {
    if (each.name == name) return each;
  }
  return {};
}

}  // namespace braid::config
