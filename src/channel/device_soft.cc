#include <braid/device.h>

#include <mutex>
#include <string>
#include <utility>

#include "channel/device_core.h"
#include "softverbs/soft_verbs.h"

namespace braid {
namespace {

// Keeps the sentence that the device says about its latest failure. The device may speak from its
// own thread for as long as it lives.
struct LastWords {
  std::mutex mutex;
  std::string text;
};

}  // namespace

Result<Device> Device::open_soft(const SoftDeviceOptions& options, std::string* why) noexcept {
  auto words = std::make_shared<LastWords>();
  auto explain = [&](Status status, const std::string& reason) -> Status {
    if (why == nullptr) return status;
    const std::lock_guard lock(words->mutex);
    *why = words->text.empty() ? reason + ": " + status.to_string() : words->text;
    return status;
  };
  Result<std::unique_ptr<softverbs::SoftVerbs>> made =
      softverbs::SoftVerbs::create(options, [words](const std::string& text) {
        const std::lock_guard lock(words->mutex);
        words->text = text;
      });
  if (!made) return explain(made.error(), "the soft device has options that it cannot use");
  DeviceCore::Source source;
  source.api = made->get();
  source.owned = std::move(*made);
  std::string reason;
  Result<std::shared_ptr<DeviceCore>> core =
      DeviceCore::open(std::move(source), options.name, 1, 0, reason);
  if (!core) return explain(core.error(), reason);
  return Device(std::move(*core));
}

}  // namespace braid
