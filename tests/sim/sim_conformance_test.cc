#include "sim/fabric_core.h"
#include "verbs/conformance/conformance_suites.h"

// The suites over two devices of a simulated fabric, four paths between them: perfect, and with
// every random fault.
namespace braid::verbs::conformance {
namespace {

class SimBed final : public ConformanceBed {
 public:
  explicit SimBed(const sim::LinkFaults& faults) {
    sim::FabricOptions options;
    options.seed = 1 + static_cast<std::uint64_t>(GTEST_FLAG_GET(random_seed));
    options.poll_advances = true;
    options.max_mr_per_port = 4096;
    core_ = *sim::FabricCore::create(
        sim::make_direct(std::vector<sim::LinkOptions>(4), sim::LinkOptions{}), options);
    for (std::uint32_t link = 0; link < 8; ++link) core_->set_faults(link, faults);
    for (std::uint32_t i = 0; i < 2; ++i) {
      apis_[i] = core_->make_verbs(i);
      ibv_device** list = apis_[i]->get_device_list(nullptr);
      contexts_[i] = apis_[i]->open_device(list[0]);
      apis_[i]->free_device_list(list);
      EXPECT_NE(contexts_[i], nullptr);
    }
  }
  ~SimBed() override {
    for (std::size_t i = 0; i < 2; ++i) {
      EXPECT_EQ(apis_[i]->close_device(contexts_[i]), 0) << "objects were left behind";
    }
  }

  Side local() override { return side(0); }
  Side remote() override { return side(1); }
  bool progress_until(const std::function<bool()>& done, Duration timeout) override {
    const TimePoint deadline = core_->now() + timeout;
    while (!done()) {
      if (core_->now() > deadline) return false;
      if (!core_->step()) return done();
    }
    return true;
  }

 private:
  Side side(std::size_t index) {
    Side side;
    side.api = apis_[index].get();
    side.context = contexts_[index];
    return side;
  }

  std::shared_ptr<sim::FabricCore> core_;
  std::unique_ptr<softverbs::SoftVerbs> apis_[2];
  ibv_context* contexts_[2] = {};
};

std::unique_ptr<ConformanceBed> make_sim_bed() {
  return std::make_unique<SimBed>(sim::LinkFaults{});
}
std::unique_ptr<ConformanceBed> make_faulty_bed() {
  return std::make_unique<SimBed>(sim::LinkFaults{.drop_ppm = 10'000,
                                                  .duplicate_ppm = 10'000,
                                                  .corrupt_ppm = 10'000,
                                                  .reorder_ppm = 10'000,
                                                  .spike_ppm = 1000});
}

}  // namespace

BRAID_CONFORMANCE(Sim, make_sim_bed);
// The suites whose outcome faults of the network must not change; an error's outcome they do.
BRAID_CONFORMANCE_SUITE(FaultySim, DataTransfer, make_faulty_bed);
BRAID_CONFORMANCE_SUITE(FaultySim, GatherScatter, make_faulty_bed);
BRAID_CONFORMANCE_SUITE(FaultySim, Ordering, make_faulty_bed);
BRAID_CONFORMANCE_SUITE(FaultySim, SharedReceive, make_faulty_bed);
BRAID_CONFORMANCE_SUITE(FaultySim, Paths, make_faulty_bed);

}  // namespace braid::verbs::conformance
