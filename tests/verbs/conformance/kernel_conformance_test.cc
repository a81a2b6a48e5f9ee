#include <cerrno>
#include <chrono>
#include <thread>

#include "verbs/conformance/conformance_suites.h"
#include "verbs/gid_choice.h"
#include "verbs/kernel_verbs.h"

// The suites over the first and the last device that libibverbs lists (one device is then its own
// peer): a kernel device, or the soft device where its preload library stands in for libibverbs.
namespace braid::verbs::conformance {
namespace {

class KernelBed final : public ConformanceBed {
 public:
  KernelBed() {
    int count = 0;
    ibv_device** list = api_.get_device_list(&count);
    EXPECT_GT(count, 0) << "libibverbs lists no device";
    if (list == nullptr || count <= 0) return;
    local_ = open(list[0]);
    remote_ = open(list[count - 1]);
    api_.free_device_list(list);
  }
  ~KernelBed() override {
    for (const Side& side : {local_, remote_}) {
      if (side.context != nullptr) {
        EXPECT_EQ(api_.close_device(side.context), 0);
      }
    }
  }

  [[nodiscard]] bool open() const {
    return local_.context != nullptr && remote_.context != nullptr;
  }
  Side local() override { return local_; }
  Side remote() override { return remote_; }
  bool progress_until(const std::function<bool()>& done, Duration timeout) override {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::yield();
    }
    return true;
  }

 private:
  Side open(ibv_device* device) {
    Side side;
    side.api = &api_;
    side.context = api_.open_device(device);
    EXPECT_NE(side.context, nullptr) << api_.get_device_name(device) << ": errno " << errno;
    if (side.context == nullptr) return side;
    const auto choice = choose_gid(api_, side.context, GidRequest{});
    EXPECT_TRUE(choice.has_value()) << choice.error().to_string();
    if (choice.has_value()) side.gid_index = static_cast<std::uint8_t>(choice->chosen.index);
    return side;
  }

  KernelVerbs api_;
  Side local_;
  Side remote_;
};

std::unique_ptr<ConformanceBed> make_kernel_bed() {
  auto bed = std::make_unique<KernelBed>();
  if (!bed->open()) return nullptr;
  return bed;
}

}  // namespace

BRAID_CONFORMANCE(Kernel, make_kernel_bed);

}  // namespace braid::verbs::conformance
