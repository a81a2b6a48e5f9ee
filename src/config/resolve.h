#pragma once

#include <braid/config.h>

#include "config/file_cache.h"
#include "config/ranges.h"
#include "config/report.h"
#include "config/settle.h"
#include "config/variables.h"

namespace braid::config {

/// Resolves one channel's configuration. Made for one call of resolve().
///
/// Each step settles one setting from its candidates. Everything that is present is checked, also
/// what something stronger overrides; the first fault ends it.
class Resolver {
 public:
  /// All are borrowed.
  Resolver(const ConfigRequest& request, const ConfigInputs& inputs, FileCache& files,
           Report& report)
      : request_(request), inputs_(inputs), files_(files), report_(report) {}

  Result<ChannelConfig> resolve();

 private:
  struct Ports;  // what the three sources of ports say

  Status profile();
  Status lanes_and_ports();
  Status read_ports(Ports& out);
  Status pair_ports(Ports& out);
  Status settle_lanes(const Ports& ports);
  Status settle_ports(const Ports& ports);
  Status queue_pair_values();
  Status ack_timeout();
  Status connect_timeout();
  Status other_values();
  Status listen_ports();

  /// One number: the caller's, the variable's, the range's default. 0 has no meaning of its own.
  Result<std::uint64_t> number(const char* name, const Variable& variable, const NumberRange& range,
                               std::optional<std::uint64_t> wanted);
  [[nodiscard]] std::optional<VariableValue> find(const Variable& variable) {
    return find_variable(inputs_.environment, variable, report_);
  }
  /// The alias's value, which its own name overrides, as the weakest but the default.
  template <typename T>
  static void add_alias(const std::optional<VariableValue>& found, const Variable& variable,
                        std::vector<Candidate<T>>& out) {
    if (found && found->alias_value) {
      out.push_back({T{}, *found->alias_value, ConfigSource::kEnvironment, variable.alias});
    }
  }
  [[nodiscard]] std::string default_name() const {
    return "profile " + std::string(to_string(profile_));
  }
  [[nodiscard]] bool hcomm_profile() const { return profile_ != Profile::kBraid; }

  const ConfigRequest& request_;
  const ConfigInputs& inputs_;
  FileCache& files_;
  Report& report_;
  Profile profile_ = Profile::kBraid;
  ChannelConfig config_;
};

}  // namespace braid::config
