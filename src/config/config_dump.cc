#include <braid/config.h>

#include <algorithm>
#include <nlohmann/json.hpp>

namespace braid {
namespace {

std::string origin(ConfigSource source, const std::string& where) {
  return std::string(to_string(source)) + " " + where;
}

}  // namespace

std::string_view to_string(ConfigSource source) noexcept {
  switch (source) {
    case ConfigSource::kDefault: return "default";
    case ConfigSource::kEnvironment: return "environment";
    case ConfigSource::kIpPairFile: return "ip_pair_file";
    case ConfigSource::kHcommFile: return "hcomm_file";
    case ConfigSource::kExplicit: return "explicit";
  }
  return "unknown";
}

std::string to_text(const ChannelConfig& config) {
  std::size_t width = 0;
  for (const ConfigEntry& each : config.entries) width = std::max(width, each.name.size());
  std::string out;
  for (const ConfigEntry& each : config.entries) {
    out += each.name + std::string(width - each.name.size(), ' ') + " = " + each.value + "  [" +
           origin(each.source, each.where);
    for (const ConfigAlternative& other : each.overrode) {
      out += "; over " + other.value + " from " + origin(other.source, other.where);
    }
    out += "]\n";
  }
  for (const std::string& each : config.warnings) out += "warning: " + each + "\n";
  return out;
}

std::string to_json(const ChannelConfig& config) {
  using Json = nlohmann::ordered_json;
  Json settings = Json::array();
  for (const ConfigEntry& each : config.entries) {
    Json overrode = Json::array();
    for (const ConfigAlternative& other : each.overrode) {
      overrode.push_back(
          {{"value", other.value}, {"source", to_string(other.source)}, {"where", other.where}});
    }
    settings.push_back({{"name", each.name},
                        {"value", each.value},
                        {"source", to_string(each.source)},
                        {"where", each.where},
                        {"overrode", std::move(overrode)}});
  }
  const Json out = {{"settings", std::move(settings)}, {"warnings", config.warnings}};
  // Values come from outside and need not be UTF-8.
  return out.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace braid
