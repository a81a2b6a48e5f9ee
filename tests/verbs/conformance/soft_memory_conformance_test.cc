#include "softverbs/memory_fabric.h"
#include "verbs/conformance/conformance_suites.h"

// The suites over two soft devices whose packets travel through memory in virtual time.
namespace braid::verbs::conformance {
namespace {

class MemoryBed final : public ConformanceBed {
 public:
  MemoryBed() {
    for (std::size_t i = 0; i < 2; ++i) contexts_[i] = fabric_.open(i);
  }
  ~MemoryBed() override {
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(fabric_.api(i).close_device(contexts_[i]), 0);
    }
  }
  Side local() override { return side(0); }
  Side remote() override { return side(1); }
  bool progress_until(const std::function<bool()>& done, Duration timeout) override {
    const TimePoint deadline = fabric_.now() + timeout;
    while (!done()) {
      if (!fabric_.step()) return done();
      if (fabric_.now() > deadline) return false;
    }
    return true;
  }

 private:
  Side side(std::size_t index) {
    Side out;
    out.api = &fabric_.api(index);
    out.context = contexts_[index];
    return out;
  }

  softverbs::testing::MemoryFabric fabric_{2};
  ibv_context* contexts_[2] = {};
};

std::unique_ptr<ConformanceBed> make_memory_bed() { return std::make_unique<MemoryBed>(); }

}  // namespace

BRAID_CONFORMANCE(Memory, make_memory_bed);

}  // namespace braid::verbs::conformance
