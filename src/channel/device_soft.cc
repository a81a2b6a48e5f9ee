#include <braid/device.h>

#include <string>
#include <utility>

#include "channel/device_core.h"
#include "softverbs/soft_verbs.h"

namespace braid {

Result<Device> Device::open_soft(const SoftDeviceOptions& options, std::string* why) noexcept {
  Result<std::unique_ptr<softverbs::SoftVerbs>> made = softverbs::SoftVerbs::create(options);
  if (!made) {
    if (why != nullptr) {
      *why = "the soft device cannot use address " +
             (options.address.empty() ? std::string("(automatic)") : options.address) +
             ", UDP port 4791: " + made.error().to_string();
    }
    return made.error();
  }
  DeviceCore::Source source;
  source.api = made->get();
  source.owned = std::move(*made);
  std::string reason;
  Result<std::shared_ptr<DeviceCore>> core =
      DeviceCore::open(std::move(source), options.name, 1, 0, reason);
  if (core) return Device(std::move(*core));
  if (why != nullptr) *why = reason;
  return core.error();
}

}  // namespace braid
