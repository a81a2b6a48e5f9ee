#include "channel/device_core.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "verbs/gid_choice.h"

namespace braid {

Result<std::shared_ptr<DeviceCore>> DeviceCore::open(Source source, const std::string& name,
                                                     std::uint8_t port, int gid_index,
                                                     std::string& why) {
  std::shared_ptr<DeviceCore> core(new DeviceCore(std::move(source)));
  core->port_ = port;
  Status status = core->open_named(name, why);
  if (status.ok()) status = core->read_attributes(gid_index, why);
  if (!status.ok()) return status;
  return core;
}

DeviceCore::~DeviceCore() {
  if (pd_ != nullptr) api().dealloc_pd(pd_);
  if (context_ != nullptr) api().close_device(context_);
}

Status DeviceCore::open_named(const std::string& name, std::string& why) {
  int count = 0;
  ibv_device** list = api().get_device_list(&count);
  if (list == nullptr) {
    const int error = errno;
    why = error == ENOSYS ? "this system has no RDMA support (load ib_uverbs), "
                            "and the soft device needs none"
                          : std::string("the RDMA devices of this system cannot be listed: ") +
                                std::strerror(error);
    return Status::from_verbs(StatusCode::kIo, error);
  }
  ibv_device* device = nullptr;
  for (int i = 0; i < count && device == nullptr; ++i) {
    const char* candidate = api().get_device_name(list[i]);
    if (candidate != nullptr && (name.empty() || name == candidate)) device = list[i];
  }
  Status status;
  if (device == nullptr) {
    why = name.empty() ? "this system has no RDMA device" : "there is no RDMA device " + name;
    why += "; ibv_devices lists them, and the soft device needs none";
    status = Status(StatusCode::kNotFound);
  } else {
    name_ = api().get_device_name(device);
    context_ = api().open_device(device);
    if (context_ == nullptr) {
      const int error = errno;
      const bool denied = error == EACCES || error == EPERM;
      why = "the RDMA device " + name_ + " cannot be opened: " + std::strerror(error);
      if (denied) why += " (check the permissions of /dev/infiniband)";
      // EINVAL is the soft device's answer to options that it cannot use.
      const StatusCode code = denied            ? StatusCode::kPermission
                              : error == EINVAL ? StatusCode::kInvalidArgument
                                                : StatusCode::kIo;
      status = Status::from_verbs(code, error);
    }
  }
  api().free_device_list(list);
  return status;
}

Status DeviceCore::read_attributes(int gid_index, std::string& why) {
  int error = api().query_device(context_, &attributes_);
  if (error == 0) error = api().query_port(context_, port_, &port_attributes_);
  if (error != 0) {
    why = "port " + std::to_string(port_) + " of the RDMA device " + name_ +
          " cannot be queried: " + std::strerror(error);
    return Status::from_verbs(StatusCode::kIo, error);
  }
  verbs::GidRequest request;
  request.port = port_;
  if (gid_index >= 0) request.index = static_cast<std::uint32_t>(gid_index);
  const Result<verbs::GidChoice> choice = verbs::choose_gid(api(), context_, request);
  if (!choice) {
    why = "the RDMA device " + name_ + " has no usable GID" +
          (gid_index >= 0 ? " at index " + std::to_string(gid_index) : std::string()) +
          ": give its interface an IP address, or name another index";
    return choice.error();
  }
  gid_index_ = static_cast<std::uint8_t>(choice->chosen.index);
  gid_ = choice->chosen.gid;
  address_ = verbs::gid_to_string(gid_);
  pd_ = api().alloc_pd(context_);
  if (pd_ == nullptr) {
    const int alloc_error = errno;
    why = "the RDMA device " + name_ + " gives no protection domain";
    return Status::from_verbs(StatusCode::kIo, alloc_error);
  }
  return Status();
}

}  // namespace braid
