#include <braid/soft_device.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "softverbs/soft_verbs.h"
#include "verbs/conformance/conformance_suites.h"
#include "verbs/gid_choice.h"
#include "verbs/kernel_verbs.h"

// The suites between the kernel's first device and a soft device on the address that
// BRAID_SOFT_ADDRESS names, over a real network, once in each direction. Both live in this
// process: uverbs devices are seen from every network namespace, so it runs in the soft device's.
namespace braid::verbs::conformance {
namespace {

class WireBed final : public ConformanceBed {
 public:
  explicit WireBed(bool soft_is_local) : soft_is_local_(soft_is_local) {
    open_soft();
    open_kernel();
  }
  ~WireBed() override {
    for (const Side& side : {soft_side_, kernel_side_}) {
      if (side.context != nullptr) {
        EXPECT_EQ(side.api->close_device(side.context), 0) << "objects were left behind";
      }
    }
  }

  [[nodiscard]] bool open() const {
    return soft_side_.context != nullptr && kernel_side_.context != nullptr;
  }
  Side local() override { return soft_is_local_ ? soft_side_ : kernel_side_; }
  Side remote() override { return soft_is_local_ ? kernel_side_ : soft_side_; }
  bool progress_until(const std::function<bool()>& done, Duration timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  void open_soft() {
    SoftDeviceOptions options;
    const char* address = std::getenv("BRAID_SOFT_ADDRESS");
    ASSERT_NE(address, nullptr) << "BRAID_SOFT_ADDRESS must name the soft device's address";
    options.address = address;
    options.raw_receive = true;  // only so is the ICRC of the kernel's packets verified
    auto created = softverbs::SoftVerbs::create(options);
    ASSERT_TRUE(created.has_value()) << created.error().to_string();
    soft_ = std::move(created).value();
    open_first(*soft_, soft_side_);
  }
  void open_kernel() { open_first(kernel_, kernel_side_); }

  static void open_first(VerbsApi& api, Side& side) {
    int count = 0;
    ibv_device** list = api.get_device_list(&count);
    ASSERT_NE(list, nullptr);
    ASSERT_GT(count, 0);
    side.api = &api;
    side.context = api.open_device(list[0]);
    api.free_device_list(list);
    ASSERT_NE(side.context, nullptr) << "errno " << errno;
    const auto choice = choose_gid(api, side.context, GidRequest{});
    ASSERT_TRUE(choice.has_value()) << choice.error().to_string();
    side.gid_index = static_cast<std::uint8_t>(choice->chosen.index);
  }

  bool soft_is_local_;
  KernelVerbs kernel_;
  std::unique_ptr<softverbs::SoftVerbs> soft_;
  Side soft_side_;
  Side kernel_side_;
};

std::unique_ptr<ConformanceBed> make_bed(bool soft_is_local) {
  auto bed = std::make_unique<WireBed>(soft_is_local);
  if (!bed->open()) return nullptr;
  return bed;
}

std::unique_ptr<ConformanceBed> make_soft_to_kernel_bed() { return make_bed(true); }
std::unique_ptr<ConformanceBed> make_kernel_to_soft_bed() { return make_bed(false); }

}  // namespace

BRAID_CONFORMANCE(SoftToKernel, make_soft_to_kernel_bed);
BRAID_CONFORMANCE(KernelToSoft, make_kernel_to_soft_bed);

}  // namespace braid::verbs::conformance
