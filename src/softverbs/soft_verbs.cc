#include "softverbs/soft_verbs.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>
#include <utility>

#include "softverbs/udp_driver.h"

namespace braid::softverbs {
namespace {

class UdpDriverFactory final : public DriverFactory {
 public:
  explicit UdpDriverFactory(SoftDeviceOptions options) : options_(std::move(options)) {}

  Result<std::unique_ptr<DeviceDriver>> make_driver(roce::EngineEvents& events,
                                                    std::string* error) noexcept override {
    auto driver = UdpDriver::create(options_, events, error);
    if (!driver) return driver.error();
    return std::unique_ptr<DeviceDriver>(std::move(driver).value());
  }

 private:
  SoftDeviceOptions options_;
};

void write_to_stderr(const std::string& text) { std::fprintf(stderr, "braid: %s\n", text.c_str()); }

/// Fails as libibverbs does for what a device does not have.
template <typename Pointer>
Pointer* unsupported() noexcept {
  errno = EOPNOTSUPP;
  return nullptr;
}

}  // namespace

/// What applications hold as an ibv_device*.
struct SoftVerbs::Device : ibv_device {
  std::unique_ptr<DriverFactory> factory;
};

Result<std::unique_ptr<SoftVerbs>> SoftVerbs::create(std::vector<SoftDeviceOptions> options,
                                                     ErrorSink sink) noexcept {
  try {
    std::vector<SoftDeviceEntry> entries;
    for (SoftDeviceOptions& one : options) {
      std::string name = one.name;
      if (name.empty() || name.size() >= IBV_SYSFS_NAME_MAX) {
        return Status(StatusCode::kInvalidArgument);
      }
      entries.push_back({std::move(name), std::make_unique<UdpDriverFactory>(std::move(one))});
    }
    return std::make_unique<SoftVerbs>(std::move(entries), std::move(sink));
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kOutOfMemory);
  }
}

SoftVerbs::SoftVerbs(std::vector<SoftDeviceEntry> devices, ErrorSink sink)
    : sink_(sink ? std::move(sink) : ErrorSink(write_to_stderr)) {
  for (SoftDeviceEntry& entry : devices) {
    auto device = std::make_unique<Device>();
    static_cast<ibv_device&>(*device) = ibv_device{};
    device->node_type = IBV_NODE_CA;
    device->transport_type = IBV_TRANSPORT_IB;
    std::strncpy(device->name, entry.name.c_str(), sizeof device->name - 1);
    std::strncpy(device->dev_name, entry.name.c_str(), sizeof device->dev_name - 1);
    device->factory = std::move(entry.factory);
    devices_.push_back(std::move(device));
  }
}

SoftVerbs::~SoftVerbs() = default;

ibv_device** SoftVerbs::get_device_list(int* count) {
  auto** list = new (std::nothrow) ibv_device*[devices_.size() + 1];
  if (list == nullptr) {
    errno = ENOMEM;
    return nullptr;
  }
  for (std::size_t i = 0; i < devices_.size(); ++i) list[i] = devices_[i].get();
  list[devices_.size()] = nullptr;
  if (count != nullptr) *count = static_cast<int>(devices_.size());
  return list;
}

void SoftVerbs::free_device_list(ibv_device** list) { delete[] list; }
const char* SoftVerbs::get_device_name(ibv_device* device) { return device->name; }

std::uint64_t SoftVerbs::get_device_guid(ibv_device* device) {
  // Before it is opened a device has no address to make a GUID of; its name has to do (FNV-1a).
  std::uint64_t guid = 0xCBF29CE484222325U;
  for (const char* at = device->name; *at != '\0'; ++at) {
    guid = (guid ^ static_cast<std::uint8_t>(*at)) * 0x100000001B3U;
  }
  return guid;
}

ibv_context* SoftVerbs::open_device(ibv_device* device) {
  SoftContext* context = SoftContext::open(device, *static_cast<Device*>(device)->factory, sink_);
  return context != nullptr ? context->handle() : nullptr;
}

int SoftVerbs::close_device(ibv_context* context) {
  return SoftContext::close(&SoftContext::of(context));
}

int SoftVerbs::query_device(ibv_context* context, ibv_device_attr* attr) {
  return SoftContext::of(context).query_device(attr);
}
int SoftVerbs::query_port(ibv_context* context, std::uint8_t port, ibv_port_attr* attr) {
  return SoftContext::of(context).query_port(port, attr);
}
int SoftVerbs::query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  return SoftContext::of(context).query_gid(port, index, gid);
}
int SoftVerbs::query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                            ibv_gid_entry* entry) {
  return SoftContext::of(context).query_gid_ex(port, index, entry);
}
int SoftVerbs::query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) {
  return SoftContext::of(context).query_pkey(port, index, pkey);
}
int SoftVerbs::get_async_event(ibv_context* context, ibv_async_event* event) {
  return SoftContext::of(context).get_async_event(event);
}
void SoftVerbs::ack_async_event(ibv_async_event* event) { SoftContext::ack_async_event(event); }

ibv_pd* SoftVerbs::alloc_pd(ibv_context* context) { return SoftContext::of(context).alloc_pd(); }
int SoftVerbs::dealloc_pd(ibv_pd* pd) { return SoftContext::of(pd->context).dealloc_pd(pd); }
ibv_mr* SoftVerbs::reg_mr_iova(ibv_pd* pd, void* address, std::size_t bytes, std::uint64_t iova,
                               int access) {
  return SoftContext::of(pd->context).reg_mr(pd, address, bytes, iova, access);
}
ibv_mr* SoftVerbs::reg_dmabuf_mr(ibv_pd* /*pd*/, std::uint64_t /*offset*/, std::size_t /*bytes*/,
                                 std::uint64_t /*iova*/, int /*fd*/, int /*access*/) {
  return unsupported<ibv_mr>();
}
int SoftVerbs::rereg_mr(ibv_mr* mr, int flags, ibv_pd* pd, void* address, std::size_t bytes,
                        int access) {
  return SoftContext::of(mr->context).rereg_mr(mr, flags, pd, address, bytes, access);
}
int SoftVerbs::dereg_mr(ibv_mr* mr) { return SoftContext::of(mr->context).dereg_mr(mr); }

ibv_comp_channel* SoftVerbs::create_comp_channel(ibv_context* context) {
  return SoftContext::of(context).create_comp_channel();
}
int SoftVerbs::destroy_comp_channel(ibv_comp_channel* channel) {
  return SoftContext::destroy_comp_channel(channel);
}
ibv_cq* SoftVerbs::create_cq(ibv_context* context, int cqe, void* cq_context,
                             ibv_comp_channel* channel, int comp_vector) {
  ibv_cq_ex* cq = SoftContext::of(context).create_cq(cqe, cq_context, channel, comp_vector, 0);
  return cq != nullptr ? ibv_cq_ex_to_cq(cq) : nullptr;
}
int SoftVerbs::resize_cq(ibv_cq* cq, int cqe) {
  return SoftContext::of(cq->context).resize_cq(cq, cqe);
}
int SoftVerbs::destroy_cq(ibv_cq* cq) { return SoftContext::of(cq->context).destroy_cq(cq); }
int SoftVerbs::get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  return SoftContext::get_cq_event(channel, cq, cq_context);
}
void SoftVerbs::ack_cq_events(ibv_cq* cq, unsigned int count) {
  SoftContext::ack_cq_events(cq, count);
}

ibv_srq* SoftVerbs::create_srq(ibv_pd* pd, ibv_srq_init_attr* attr) {
  return SoftContext::of(pd->context).create_srq(pd, attr);
}
int SoftVerbs::modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  return SoftContext::of(srq->context).modify_srq(srq, attr, mask);
}
int SoftVerbs::query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  return SoftContext::of(srq->context).query_srq(srq, attr);
}
int SoftVerbs::destroy_srq(ibv_srq* srq) { return SoftContext::of(srq->context).destroy_srq(srq); }

ibv_qp* SoftVerbs::create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  ibv_qp_init_attr_ex extended{};
  extended.qp_context = attr->qp_context;
  extended.send_cq = attr->send_cq;
  extended.recv_cq = attr->recv_cq;
  extended.srq = attr->srq;
  extended.cap = attr->cap;
  extended.qp_type = attr->qp_type;
  extended.sq_sig_all = attr->sq_sig_all;
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd;
  return SoftContext::of(pd->context).create_qp(&extended);
}
int SoftVerbs::modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  return SoftContext::of(qp->context).modify_qp(qp, attr, mask);
}
int SoftVerbs::query_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
  return SoftContext::of(qp->context).query_qp(qp, attr, mask, init);
}
int SoftVerbs::destroy_qp(ibv_qp* qp) { return SoftContext::of(qp->context).destroy_qp(qp); }
int SoftVerbs::modify_qp_udp_sport(ibv_qp* qp, std::uint16_t port) {
  return SoftContext::of(qp->context).modify_source_port(qp, port);
}
int SoftVerbs::query_qp_udp_sport(ibv_qp* qp, std::uint16_t* port) {
  return SoftContext::of(qp->context).query_source_port(qp, port);
}

}  // namespace braid::softverbs
