#include "tools/sim_swarm.h"

#include <braid/sim_channel.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "channel/device_core.h"
#include "sim/audit_hash.h"
#include "softverbs/soft_context.h"
#include "tools/sim_side.h"

namespace braid::tools {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr Duration kLongestCase = std::chrono::seconds(20);
constexpr Duration kShortestNap = microseconds(1);
constexpr Duration kLongestNap = milliseconds(2);

/// The processor behind a NIC port: lets the channels that end there act.
class Host final : public sim::Poller {
 public:
  Host(sim::Fabric fabric, sim::NodeId port, std::uint64_t seed)
      : fabric_(std::move(fabric)), port_(port), random_(seed) {
    fabric_.set_poller(port_, this);
  }
  ~Host() override { fabric_.set_poller(port_, nullptr); }
  Host(const Host&) = delete;
  Host& operator=(const Host&) = delete;

  void add(SimSide& side) { sides_.push_back(&side); }
  void rest() { sides_.clear(); }
  void on_wake(TimePoint now) override {
    if (sides_.empty()) return;
    bool moved = false;
    const std::size_t first = random_.below(sides_.size());
    for (std::size_t i = 0; i < sides_.size(); ++i) {
      moved = sides_[(first + i) % sides_.size()]->act(now) || moved;
    }
    // Calls are made by chance, so one wake may leave work behind: there is always a next one.
    nap_ = moved ? kShortestNap : std::min(nap_ * 2, kLongestNap);
    fabric_.wake_at(port_, now + nap_ + Duration(static_cast<std::int64_t>(random_.below(3000))));
  }

 private:
  sim::Fabric fabric_;
  sim::NodeId port_;
  Random random_;
  Duration nap_ = kShortestNap;
  std::vector<SimSide*> sides_;
};

/// Everything of one case. Destroyed in the order that applications have to keep.
class CaseRun {
 public:
  explicit CaseRun(const SwarmCase& what) : case_(what), random_(what.seed) {}

  CaseOutcome run() {
    outcome_.seed = case_.seed;
    if (build() && play()) finish();
    for (auto& host : hosts_) host->rest();
    for (const auto& side : sides_) outcome_.operations += side->issued_count();
    if (fabric_ != nullptr) {
      outcome_.audit_hash = fabric_->audit_hash();
      outcome_.events = fabric_->counters().events;
      outcome_.packets = fabric_->counters().delivered_packets;
    }
    return outcome_;
  }

 private:
  bool report(const std::string& what) {
    if (outcome_.violation.empty()) outcome_.violation = what;
    return false;
  }
  bool build();
  bool build_channel(const CaseChannel& channel);
  bool play();
  void finish();
  void check_engines();
  bool run_until(const std::function<bool(const SimSide&)>& reached);

  const SwarmCase& case_;
  Random random_;
  CaseOutcome outcome_;
  std::unique_ptr<sim::Fabric> fabric_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<SimSide>> sides_;
};

bool CaseRun::build() {
  Result<sim::Fabric> fabric = sim::Fabric::create(case_.topology, case_.fabric);
  if (!fabric) return report("the fabric: " + fabric.error().to_string());
  fabric_ = std::make_unique<sim::Fabric>(std::move(*fabric));
  for (const SwarmCase::RandomFaults& one : case_.faults) {
    fabric_->set_faults(one.link, one.from_first, one.faults);
  }
  for (const sim::FaultEvent& event : case_.events) {
    if (!fabric_->schedule(event).ok()) return report("an event cannot be scheduled");
  }
  for (const sim::NodeId port : case_.topology.ports()) {
    std::string why;
    Result<Device> device = sim::open_device(*fabric_, port, &why);
    if (!device) return report(why);
    devices_.push_back(std::make_unique<Device>(std::move(*device)));
    hosts_.push_back(std::make_unique<Host>(*fabric_, port, random_.next()));
  }
  for (const CaseChannel& channel : case_.channels) {
    if (!build_channel(channel)) return false;
  }
  return true;
}

bool CaseRun::build_channel(const CaseChannel& channel) {
  Device& first_device = *devices_[channel.first_port];
  Device& second_device = *devices_[channel.second_port];
  auto first = std::make_unique<SimSide>(first_device, channel.first, channel.operations,
                                         channel.bytes, random_.next());
  auto second = std::make_unique<SimSide>(second_device, channel.second, channel.operations,
                                          channel.bytes, random_.next());
  std::string why;
  Result<sim::ChannelPair> pair =
      sim::connect(*fabric_, first_device, first->options(), second_device, second->options(),
                   {.seed = random_.next(),
                    .first_sequence = channel.first_sequence,
                    .keep_stream = channel.keep_stream},
                   &why);
  if (!pair) return report("no channel: " + why);
  first->start(std::move(pair->first), *second);
  second->start(std::move(pair->second), *first);
  hosts_[channel.first_port]->add(*first);
  hosts_[channel.second_port]->add(*second);
  sides_.push_back(std::move(first));
  sides_.push_back(std::move(second));
  return true;
}

bool CaseRun::run_until(const std::function<bool(const SimSide&)>& reached) {
  const TimePoint limit = fabric_->now() + kLongestCase;
  const auto check = [&](const auto& side) { return reached(*side); };
  while (!std::all_of(sides_.begin(), sides_.end(), check)) {
    for (const auto& side : sides_) {
      if (!side->violation().empty())
        return report(side->violation() + " (" + side->describe() + ")");
    }
    if (fabric_->now() > limit) {
      for (const auto& side : sides_) {
        if (!reached(*side)) return report("stuck: " + side->describe());
      }
    }
    // A look at every side costs more than an event.
    for (int i = 0; i < 32; ++i) {
      if (!fabric_->step()) return report("stuck: nothing is left to happen");
    }
  }
  return true;
}

bool CaseRun::play() {
  for (const sim::NodeId port : case_.topology.ports()) fabric_->wake_at(port, fabric_->now());
  return run_until([](const SimSide& side) { return side.is_done(); });
}

void CaseRun::finish() {
  for (const auto& side : sides_) side->check_end(case_.may_lose_lanes, case_.may_fail);
  for (const auto& side : sides_) {
    outcome_.recoveries += side->recovery_count();
    outcome_.channel_failed = outcome_.channel_failed || side->has_failed();
    if (!side->violation().empty()) {
      report(side->violation() + " (" + side->describe() + ")");
      return;
    }
  }
  check_engines();
  if (!case_.may_fail) {
    for (const auto& side : sides_) side->close();
    if (!run_until([](const SimSide& side) { return side.is_closed(); })) return;
  }
  for (const auto& host : hosts_) host->rest();
  for (const auto& side : sides_) side->destroy_channel();
  while (fabric_->step()) {
  }
  if (fabric_->counters().packets_in_network != 0) report("packets were left in the network");
}

void CaseRun::check_engines() {
  for (const auto& device : devices_) {
    const roce::EngineCounters& counters =
        softverbs::SoftContext::of(device->core()->context()).driver().engine().counters();
    if (!case_.may_lose_lanes && counters.rnr_naks_sent != 0) report("a segment met no receive");
  }
}

}  // namespace

CaseOutcome run_case(const SwarmCase& what) { return CaseRun(what).run(); }

SwarmOutcome run_swarm(const SwarmOptions& options,
                       const std::function<void(const CaseOutcome&)>& on_violation) {
  SwarmOutcome total;
  std::mutex mutex;
  std::atomic<std::uint64_t> next{0};
  const auto work = [&] {
    for (std::uint64_t i = next++; i < options.seeds; i = next++) {
      const std::uint64_t seed = options.start + i;
      const SwarmCase what = make_case(seed);
      CaseOutcome outcome = run_case(what);
      const bool again = options.repeat_every != 0 && seed % options.repeat_every == 0;
      if (again && outcome.violation.empty() && run_case(what).audit_hash != outcome.audit_hash) {
        outcome.violation = "the same seed gave another digest";
      }
      const std::lock_guard lock(mutex);
      ++total.cases;
      total.packets += outcome.packets;
      total.operations += outcome.operations;
      total.recoveries += outcome.recoveries;
      total.failed_channels += outcome.channel_failed ? 1 : 0;
      total.combined_hash ^= sim::mix(outcome.audit_hash + seed);
      if (outcome.violation.empty()) continue;
      ++total.violations;
      on_violation(outcome);
    }
  };
  const std::uint32_t processors = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::thread> threads;
  for (std::uint32_t i = 1; i < (options.jobs == 0 ? processors : options.jobs); ++i) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) thread.join();
  return total;
}

}  // namespace braid::tools
