#include <braid/config.h>

#include <mutex>
#include <utility>

#include "config/environment.h"
#include "config/file_cache.h"
#include "config/file_reader.h"
#include "config/resolve.h"

namespace braid {

ConfigInputs ConfigInputs::of_process() {
  return {.environment = config::process_environment(),
          .read_file = [](const std::string& path) { return config::read_config_file(path); }};
}

struct ConfigSources::Impl {
  ConfigInputs inputs;
  std::mutex mutex;  // guards files
  config::FileCache files;
};

ConfigSources::ConfigSources(ConfigInputs inputs) : impl_(std::make_unique<Impl>()) {
  impl_->inputs = std::move(inputs);
}
ConfigSources::~ConfigSources() = default;
ConfigSources::ConfigSources(ConfigSources&&) noexcept = default;
ConfigSources& ConfigSources::operator=(ConfigSources&&) noexcept = default;

Result<ChannelConfig> ConfigSources::load(const ConfigRequest& request, std::string* why) noexcept {
  config::Report report;
  const std::lock_guard lock(impl_->mutex);
  config::Resolver resolver(request, impl_->inputs, impl_->files, report);
  Result<ChannelConfig> config = resolver.resolve();
  if (!config && why != nullptr) *why = report.fault().to_string();
  return config;
}

Result<ChannelConfig> load_channel_options(const ConfigRequest& request,
                                           std::string* why) noexcept {
  return ConfigSources(ConfigInputs::of_process()).load(request, why);
}

}  // namespace braid
