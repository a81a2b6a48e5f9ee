#include "tools/sim_world.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "channel/device_core.h"
#include "softverbs/soft_context.h"

namespace braid::tools {

AliasedMemory::AliasedMemory(std::uint64_t bytes)
    : bytes_((bytes + kWindowBytes - 1) / kWindowBytes * kWindowBytes) {
  const int window = ::memfd_create("braid-sim", MFD_CLOEXEC);
  if (window < 0) return;
  void* base = MAP_FAILED;
  if (::ftruncate(window, kWindowBytes) == 0) {
    base = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  }
  bool mapped = base != MAP_FAILED;
  for (std::uint64_t at = 0; mapped && at < bytes_; at += kWindowBytes) {
    mapped = ::mmap(static_cast<std::byte*>(base) + at, kWindowBytes, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_FIXED, window, 0) != MAP_FAILED;
  }
  ::close(window);
  if (mapped) {
    data_ = base;
  } else if (base != MAP_FAILED) {
    ::munmap(base, bytes_);
  }
}

AliasedMemory::~AliasedMemory() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
}

void SimFlow::send(std::uint64_t bytes, TimePoint now) {
  if (sent_ == 0) started = now;
  const RemoteRange remote = from_->remote_memories()[0].range(0, bytes);
  const Result<Ticket> ticket = from_->put(source_->range(0, bytes), remote, {.notify = {1}});
  if (!ticket) {
    failure_ = "a put was refused: " + ticket.error().to_string();
    return;
  }
  ++sent_;
  fabric_->wake_at(from_port_, now);
}

/// The processor behind a port: moves all channels that end there.
class SimHost final : public sim::Poller {
 public:
  SimHost(sim::Fabric fabric, sim::NodeId port) : fabric_(std::move(fabric)), port_(port) {
    fabric_.set_poller(port_, this);
  }
  ~SimHost() override { fabric_.set_poller(port_, nullptr); }
  SimHost(const SimHost&) = delete;
  SimHost& operator=(const SimHost&) = delete;

  void on_wake(TimePoint now) override {
    bool is_idle = true;
    for (SimFlow* flow : sending) {
      while (flow->from_->progress(now)) {
      }
      take_completions(*flow);
      is_idle = is_idle && flow->is_idle();
    }
    for (SimFlow* flow : receiving) {
      while (flow->to_->progress(now)) {
      }
      take_notifications(*flow, now);
      is_idle = is_idle && flow->is_idle();
    }
    // The channels' own deadlines; what the NIC does wakes on its own.
    if (!is_idle) fabric_.wake_at(port_, now + std::chrono::milliseconds(1));
  }

  std::vector<SimFlow*> sending;
  std::vector<SimFlow*> receiving;

 private:
  static void take_completions(SimFlow& flow) {
    std::array<Completion, 16> completions;
    for (std::size_t n; (n = flow.from_->poll_completions(completions)) != 0;) {
      for (std::size_t i = 0; i < n; ++i) {
        ++flow.completed_;
        if (completions[i].status.ok()) continue;
        flow.failure_ = "a put failed: " + flow.from_->error().text;
      }
    }
    if (flow.from_->state() == ChannelState::kFailed && flow.failure_.empty()) {
      flow.failure_ = flow.from_->error().text;
    }
  }
  static void take_notifications(SimFlow& flow, TimePoint now) {
    Notification notification;
    while (flow.to_->poll_notifications({&notification, 1}) == 1) {
      ++flow.received_;
      flow.received = now;
      if (flow.on_received) flow.on_received(flow, now);
    }
  }

  sim::Fabric fabric_;
  sim::NodeId port_;
};

SimWorld::SimWorld(const sim::Topology& topology, const sim::FabricOptions& options,
                   std::uint64_t region_bytes)
    : topology_(topology), bytes_(region_bytes) {
  if (bytes_.data() == nullptr) {
    fail("no addresses for a region of " + std::to_string(region_bytes) + " bytes");
    return;
  }
  Result<sim::Fabric> fabric = sim::Fabric::create(topology, options);
  if (!fabric) {
    fail("the network: " + fabric.error().to_string());
    return;
  }
  fabric_ = std::make_unique<sim::Fabric>(std::move(*fabric));
  for (const sim::NodeId port : topology_.ports()) {
    std::string why;
    Result<Device> device = sim::open_device(*fabric_, port, &why);
    if (!device) {
      fail(why);
      return;
    }
    devices_.push_back(std::make_unique<Device>(std::move(*device)));
    Result<Memory> memory =
        devices_.back()->register_memory(bytes_.data(), bytes_.bytes(), MemoryAccess::kRemoteWrite);
    if (!memory) {
      fail("a region: " + memory.error().to_string());
      return;
    }
    memories_.push_back(std::make_unique<Memory>(std::move(*memory)));
    hosts_.push_back(std::make_unique<SimHost>(*fabric_, port));
  }
}

SimWorld::~SimWorld() {
  hosts_.clear();
  flows_.clear();  // channels go before the memory that they may still write
}

bool SimWorld::fail(const std::string& why) {
  if (failure_.empty()) failure_ = why;
  return false;
}

SimFlow* SimWorld::connect(std::size_t from, std::size_t to, ChannelOptions options) {
  options.exports = {memories_[to]->remote()};
  std::string why;
  Result<sim::ChannelPair> pair = sim::connect(*fabric_, *devices_[from], options, *devices_[to],
                                               options, {.seed = next_seed_++}, &why);
  if (!pair) {
    fail(why);
    return nullptr;
  }
  auto flow = std::make_unique<SimFlow>();
  flow->from_ = std::move(pair->first);
  flow->to_ = std::move(pair->second);
  flow->from_port_ = topology_.ports()[from];
  flow->to_port_ = topology_.ports()[to];
  flow->source_ = memories_[from].get();
  flow->fabric_ = fabric_.get();
  hosts_[from]->sending.push_back(flow.get());
  hosts_[to]->receiving.push_back(flow.get());
  flows_.push_back(std::move(flow));
  return flows_.back().get();
}

bool SimWorld::run(Duration limit) {
  const TimePoint until = fabric_->now() + limit;
  for (const sim::NodeId port : topology_.ports()) fabric_->wake_at(port, fabric_->now());
  for (bool has_events = true;;) {
    bool is_idle = true;
    for (const auto& flow : flows_) {
      if (!flow->failure().empty()) return fail(flow->failure());
      is_idle = is_idle && flow->is_idle();
    }
    if (is_idle) return true;
    if (!has_events) return fail("the traffic stands still");
    if (fabric_->now() > until) return fail("the traffic did not end in time");
    // A look at every flow costs more than an event.
    for (std::size_t i = 0; has_events && i < 64 + flows_.size(); ++i) {
      has_events = fabric_->step();
    }
  }
}

std::uint64_t SimWorld::retransmitted_packets() const {
  std::uint64_t sum = 0;
  for (const auto& device : devices_) {
    sum += softverbs::SoftContext::of(device->core()->context())
               .driver()
               .engine()
               .counters()
               .retransmitted_packets;
  }
  return sum;
}

}  // namespace braid::tools
