#include <braid/soft_device.h>

#include <chrono>
#include <cstdint>
#include <fstream>
#include <string>
#include <thread>

#include "softverbs/soft_verbs.h"
#include "verbs/conformance/conformance_suites.h"
#include "verbs/fault_verbs.h"

// The suites over two soft devices that talk UDP over loopback, in real time; and once more through
// the fault decorator, which must be invisible as long as it has no faults.
namespace braid::verbs::conformance {
namespace {

/// True when there is room for two buffers of a gigabyte, and time: a sanitizer takes too much of
/// both.
bool has_room_for_gigabytes() {
#ifdef BRAID_SANITIZED
  return false;
#else
  constexpr std::uint64_t kNeededKib = 3U << 20U;
  std::ifstream meminfo("/proc/meminfo");
  std::string word;
  while (meminfo >> word) {
    std::uint64_t kib = 0;
    if (word == "MemAvailable:" && meminfo >> kib) return kib >= kNeededKib;
  }
  return false;
#endif
}

/// One soft device on a free loopback address, opened.
class UdpDevice {
 public:
  explicit UdpDevice(bool decorated) {
    auto created = softverbs::SoftVerbs::create(SoftDeviceOptions{});
    EXPECT_TRUE(created.has_value()) << created.error().to_string();
    if (!created.has_value()) return;
    soft_ = std::move(created).value();
    api_ = soft_.get();
    if (decorated) {
      decorator_ = std::make_unique<FaultVerbs>(*soft_, FaultPlan{});
      api_ = decorator_.get();
    }
    ibv_device** list = api_->get_device_list(nullptr);
    context_ = api_->open_device(list[0]);
    api_->free_device_list(list);
    EXPECT_NE(context_, nullptr);
  }
  ~UdpDevice() {
    if (context_ != nullptr) {
      EXPECT_EQ(api_->close_device(context_), 0) << "objects were left behind";
    }
  }
  UdpDevice(const UdpDevice&) = delete;
  UdpDevice& operator=(const UdpDevice&) = delete;

  [[nodiscard]] bool open() const { return context_ != nullptr; }
  [[nodiscard]] Side side() {
    Side side;
    side.api = api_;
    side.context = context_;
    return side;
  }

 private:
  std::unique_ptr<softverbs::SoftVerbs> soft_;
  std::unique_ptr<FaultVerbs> decorator_;
  VerbsApi* api_ = nullptr;
  ibv_context* context_ = nullptr;
};

class UdpBed final : public ConformanceBed {
 public:
  explicit UdpBed(bool decorated) : decorated_(decorated), local_(decorated), remote_(decorated) {}

  [[nodiscard]] bool open() const { return local_.open() && remote_.open(); }
  Side local() override { return local_.side(); }
  Side remote() override { return remote_.side(); }
  bool progress_until(const std::function<bool()>& done, Duration timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();  // the devices' own threads serve the passive side
    }
    return true;
  }
  [[nodiscard]] bool carries_huge_messages() const override {
    return !decorated_ && has_room_for_gigabytes();
  }

 private:
  bool decorated_;
  UdpDevice local_;
  UdpDevice remote_;
};

std::unique_ptr<ConformanceBed> make_bed(bool decorated) {
  auto bed = std::make_unique<UdpBed>(decorated);
  if (!bed->open()) return nullptr;
  return bed;
}

std::unique_ptr<ConformanceBed> make_udp_bed() { return make_bed(false); }
std::unique_ptr<ConformanceBed> make_decorated_udp_bed() { return make_bed(true); }

}  // namespace

BRAID_CONFORMANCE(Udp, make_udp_bed);
BRAID_CONFORMANCE(DecoratedUdp, make_decorated_udp_bed);

}  // namespace braid::verbs::conformance
