#include "softverbs/memory_fabric.h"
#include "verbs/conformance/conformance_suites.h"

// The suites over two soft devices whose packets travel through memory in virtual time, so that
// every run is the same run: on a perfect fabric, and on one that loses packets. Which ones follows
// from --gtest_random_seed.
namespace braid::verbs::conformance {
namespace {

using softverbs::testing::MemoryFabric;

class MemoryBed final : public ConformanceBed {
 public:
  explicit MemoryBed(std::uint32_t drop_ppm)
      : fabric_(2, 1 + static_cast<std::uint64_t>(GTEST_FLAG_GET(random_seed))) {
    fabric_.drop_ppm = drop_ppm;
    for (std::size_t i = 0; i < 2; ++i) {
      contexts_[i] = fabric_.open(i);
      EXPECT_NE(contexts_[i], nullptr);
    }
  }
  ~MemoryBed() override {
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(fabric_.api(i).close_device(contexts_[i]), 0) << "objects were left behind";
    }
  }

  Side local() override { return side(0); }
  Side remote() override { return side(1); }
  bool progress_until(const std::function<bool()>& done, Duration timeout) override {
    const TimePoint deadline = fabric_.now() + timeout;
    while (!done()) {
      if (fabric_.now() > deadline) return false;
      if (!fabric_.step()) return done();
    }
    return true;
  }

 private:
  Side side(std::size_t index) {
    Side side;
    side.api = &fabric_.api(index);
    side.context = contexts_[index];
    return side;
  }

  MemoryFabric fabric_;
  ibv_context* contexts_[2] = {};
};

std::unique_ptr<ConformanceBed> make_memory_bed() { return std::make_unique<MemoryBed>(0); }
std::unique_ptr<ConformanceBed> make_lossy_bed() { return std::make_unique<MemoryBed>(30'000); }

}  // namespace

BRAID_CONFORMANCE(Memory, make_memory_bed);
// The suites whose outcome loss must not change. An error's is changed: a responder that has failed
// does not repeat a lost NAK, and the requester then runs out of retries.
BRAID_CONFORMANCE_SUITE(LossyMemory, DataTransfer, make_lossy_bed);
BRAID_CONFORMANCE_SUITE(LossyMemory, GatherScatter, make_lossy_bed);
BRAID_CONFORMANCE_SUITE(LossyMemory, Ordering, make_lossy_bed);
BRAID_CONFORMANCE_SUITE(LossyMemory, SharedReceive, make_lossy_bed);
BRAID_CONFORMANCE_SUITE(LossyMemory, Paths, make_lossy_bed);

}  // namespace braid::verbs::conformance
