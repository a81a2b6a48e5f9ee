#pragma once

#include <braid/memory.h>
#include <braid/result.h>
#include <braid/soft_device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace braid {

class DeviceCore;

/// An opened RDMA device: one port, one GID, one protection domain.
///
/// Owner: channels and memories share the device's core, so the order of destruction is free.
/// Thread: open, registration and channel setup from any thread.
class Device {
 public:
  /// Opens a user-space RoCEv2 device over UDP: no NIC, no kernel module, no root.
  /// Errors: as the soft device's, e.g. kIo when UDP port 4791 of the address is taken, and
  /// kInvalidArgument for options that it cannot use.
  /// On an error `why`, when given, gets one sentence that names the object and the remedy.
  static Result<Device> open_soft(const SoftDeviceOptions& options,
                                  std::string* why = nullptr) noexcept;

  /// Opens a device of the system by its name ("mlx5_0", "rxe0").
  ///
  /// `port` counts from 1. `gid_index` < 0 chooses: RoCE v2 IPv4-mapped, then RoCE v2 global IPv6,
  /// then RoCE v2 link-local.
  /// Errors: kNotFound (no such device, or no RoCE v2 GID), kPermission or kIo (cannot be opened);
  /// `why` as above.
  static Result<Device> open_kernel(std::string_view name, std::uint8_t port = 1,
                                    int gid_index = -1, std::string* why = nullptr) noexcept;

  /// Names of the devices of the system, empty when it has none.
  [[nodiscard]] static std::vector<std::string> kernel_device_names();

  explicit Device(std::shared_ptr<DeviceCore> core) noexcept;
  ~Device();
  Device(Device&&) noexcept;
  Device& operator=(Device&&) noexcept;

  [[nodiscard]] const std::string& name() const noexcept;
  /// Address behind the GID, in text.
  [[nodiscard]] const std::string& address() const noexcept;
  /// Largest path MTU that the port carries, in bytes.
  [[nodiscard]] std::uint32_t mtu_bytes() const noexcept;

  /// Registers bytes of the caller, who keeps them mapped for as long as the handle lives.
  /// Cost: pins the pages on hardware. Errors: kInvalidArgument (no bytes), kOutOfMemory (memlock
  /// limit or memory), kIo (another errno of the device).
  Result<Memory> register_memory(void* data, std::uint64_t bytes, MemoryAccess access) noexcept;
  /// Allocates zeroed bytes, page aligned, and registers them. Errors: as register_memory().
  Result<Memory> allocate(std::uint64_t bytes, MemoryAccess access) noexcept;

  [[nodiscard]] const std::shared_ptr<DeviceCore>& core() const noexcept { return core_; }

 private:
  std::shared_ptr<DeviceCore> core_;
};

}  // namespace braid
