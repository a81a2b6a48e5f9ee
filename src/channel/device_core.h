#pragma once

#include <braid/result.h>

#include <cstdint>
#include <memory>
#include <string>

#include "verbs/verbs_api.h"

namespace braid {

/// What stands behind a Device: an opened context with its protection domain and the port and GID
/// that were chosen. Immutable after create().
///
/// Owner: shared by Device, Memory and channels; closes the context when the last one goes.
/// Thread: any; the members do not change.
class DeviceCore {
 public:
  /// Where the calls go, and what must stay alive for them.
  struct Source {
    verbs::VerbsApi* api = nullptr;
    std::unique_ptr<verbs::VerbsApi> owned;  // null when the caller keeps `api` alive
  };

  /// Opens the device called `name`, empty = the first. `gid_index` < 0 chooses by rank.
  /// Errors: kNotFound, kPermission, kIo; `why` gets one sentence.
  static Result<std::shared_ptr<DeviceCore>> open(Source source, const std::string& name,
                                                  std::uint8_t port, int gid_index,
                                                  std::string& why);
  ~DeviceCore();
  DeviceCore(const DeviceCore&) = delete;
  DeviceCore& operator=(const DeviceCore&) = delete;

  [[nodiscard]] verbs::VerbsApi& api() const noexcept { return *source_.api; }
  [[nodiscard]] ibv_context* context() const noexcept { return context_; }
  [[nodiscard]] ibv_pd* pd() const noexcept { return pd_; }
  [[nodiscard]] const ibv_device_attr& attributes() const noexcept { return attributes_; }
  [[nodiscard]] const ibv_port_attr& port_attributes() const noexcept { return port_attributes_; }
  [[nodiscard]] std::uint8_t port() const noexcept { return port_; }
  [[nodiscard]] std::uint8_t gid_index() const noexcept { return gid_index_; }
  [[nodiscard]] const ibv_gid& gid() const noexcept { return gid_; }
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  [[nodiscard]] const std::string& address() const noexcept { return address_; }

 private:
  explicit DeviceCore(Source source) noexcept : source_(std::move(source)) {}
  Status open_named(const std::string& name, std::string& why);
  Status read_attributes(int gid_index, std::string& why);

  Source source_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_device_attr attributes_{};
  ibv_port_attr port_attributes_{};
  std::uint8_t port_ = 1;
  std::uint8_t gid_index_ = 0;
  ibv_gid gid_{};
  std::string name_;
  std::string address_;
};

}  // namespace braid
