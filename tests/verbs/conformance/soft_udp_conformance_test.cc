#include <braid/soft_device.h>

#include <chrono>
#include <thread>

#include "softverbs/soft_verbs.h"
#include "verbs/conformance/conformance_suites.h"

// The suites over two soft devices that talk UDP over loopback, in real time.
namespace braid::verbs::conformance {
namespace {

/// One soft device on a free loopback address, opened.
class UdpDevice {
 public:
  UdpDevice() {
    auto created = softverbs::SoftVerbs::create(SoftDeviceOptions{});
    EXPECT_TRUE(created.has_value()) << created.error().to_string();
    if (!created.has_value()) return;
    api_ = std::move(created).value();
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
    side.api = api_.get();
    side.context = context_;
    return side;
  }

 private:
  std::unique_ptr<softverbs::SoftVerbs> api_;
  ibv_context* context_ = nullptr;
};

class UdpBed final : public ConformanceBed {
 public:
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
  [[nodiscard]] bool carries_huge_messages() const override { return true; }

 private:
  UdpDevice local_;
  UdpDevice remote_;
};

std::unique_ptr<ConformanceBed> make_udp_bed() {
  auto bed = std::make_unique<UdpBed>();
  if (!bed->open()) return nullptr;
  return bed;
}

}  // namespace

BRAID_CONFORMANCE(Udp, make_udp_bed);

}  // namespace braid::verbs::conformance
