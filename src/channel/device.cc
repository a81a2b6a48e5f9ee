#include <braid/device.h>
#include <sys/mman.h>

#include <cerrno>
#include <utility>

#include "channel/device_core.h"
#include "verbs/kernel_verbs.h"
#include "verbs/rc_setup.h"

namespace braid {
namespace {

int verbs_access(MemoryAccess access) noexcept {
  int flags = IBV_ACCESS_LOCAL_WRITE;
  if (has_access(access, MemoryAccess::kRemoteWrite)) flags |= IBV_ACCESS_REMOTE_WRITE;
  if (has_access(access, MemoryAccess::kRemoteRead)) flags |= IBV_ACCESS_REMOTE_READ;
  if (has_access(access, MemoryAccess::kRemoteAtomic)) flags |= IBV_ACCESS_REMOTE_ATOMIC;
  return flags;
}

}  // namespace

Result<Device> Device::open_kernel(std::string_view name, std::uint8_t port, int gid_index,
                                   std::string* why) noexcept {
  DeviceCore::Source source;
  source.owned = std::make_unique<verbs::KernelVerbs>();
  source.api = source.owned.get();
  std::string reason;
  Result<std::shared_ptr<DeviceCore>> core =
      DeviceCore::open(std::move(source), std::string(name), port, gid_index, reason);
  if (core) return Device(std::move(*core));
  if (why != nullptr) *why = reason;
  return core.error();
}

std::vector<std::string> Device::kernel_device_names() {
  std::vector<std::string> names;
  verbs::KernelVerbs api;
  int count = 0;
  ibv_device** list = api.get_device_list(&count);
  if (list == nullptr) return names;
  for (int i = 0; i < count; ++i) names.emplace_back(api.get_device_name(list[i]));
  api.free_device_list(list);
  return names;
}

Device::Device(std::shared_ptr<DeviceCore> core) noexcept : core_(std::move(core)) {}
Device::~Device() = default;
Device::Device(Device&&) noexcept = default;
Device& Device::operator=(Device&&) noexcept = default;

const std::string& Device::name() const noexcept { return core_->name(); }
const std::string& Device::address() const noexcept { return core_->address(); }
std::uint32_t Device::mtu_bytes() const noexcept {
  return verbs::mtu_bytes(core_->port_attributes().active_mtu);
}

Result<Memory> Device::register_memory(void* data, std::uint64_t bytes,
                                       MemoryAccess access) noexcept {
  if (data == nullptr || bytes == 0) return Status(StatusCode::kInvalidArgument);
  ibv_mr* mr = core_->api().reg_mr_iova(
      core_->pd(), data, bytes, reinterpret_cast<std::uintptr_t>(data), verbs_access(access));
  if (mr == nullptr) {
    const int error = errno;
    return Status::from_verbs(error == ENOMEM ? StatusCode::kOutOfMemory : StatusCode::kIo, error);
  }
  Memory memory;
  memory.device_ = core_;
  memory.registration_ = mr;
  memory.data_ = static_cast<std::byte*>(data);
  memory.bytes_ = bytes;
  memory.lkey_ = mr->lkey;
  memory.rkey_ = mr->rkey;
  return memory;
}

Result<Memory> Device::allocate(std::uint64_t bytes, MemoryAccess access) noexcept {
  if (bytes == 0) return Status(StatusCode::kInvalidArgument);
  void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return Status::from_errno(StatusCode::kOutOfMemory, errno);
  Result<Memory> memory = register_memory(data, bytes, access);
  if (!memory) {
    ::munmap(data, bytes);
    return memory;
  }
  memory->mapped_bytes_ = bytes;
  return memory;
}

}  // namespace braid
