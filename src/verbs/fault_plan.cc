#include "verbs/fault_plan.h"

namespace braid::verbs {

FaultScript::FaultScript(const FaultPlan& plan) : random_(plan.seed) {
  armed_.reserve(plan.faults.size());
  for (const Fault& fault : plan.faults) armed_.push_back({fault});
}

void FaultScript::add(const Fault& fault) {
  const std::lock_guard lock(mutex_);
  armed_.push_back({fault});
}

void FaultScript::clear() {
  const std::lock_guard lock(mutex_);
  armed_.clear();
}

bool FaultScript::hits(Armed& armed) {
  ++armed.seen;
  const Fault& fault = armed.fault;
  if (armed.seen < fault.first || armed.seen - fault.first >= fault.count) return false;
  return fault.probability_ppm >= 1'000'000 || random_.chance_ppm(fault.probability_ppm);
}

int FaultScript::on_call(VerbsCall call) {
  const std::lock_guard lock(mutex_);
  int error = 0;
  for (Armed& armed : armed_) {
    if (armed.fault.point != FaultPoint::kCall || armed.fault.call != call) continue;
    // Later faults still count this call, so that each keeps its own numbering.
    if (hits(armed) && error == 0) error = armed.fault.error;
  }
  if (error != 0) ++struck_;
  return error;
}

bool FaultScript::strike(FaultPoint point, std::uint32_t qp_ordinal, Fault& fault) {
  const std::lock_guard lock(mutex_);
  bool struck = false;
  for (Armed& armed : armed_) {
    if (armed.fault.point != point) continue;
    if (armed.fault.qp_ordinal != 0 && armed.fault.qp_ordinal != qp_ordinal) continue;
    if (!hits(armed) || struck) continue;
    fault = armed.fault;
    struck = true;
  }
  if (struck) ++struck_;
  return struck;
}

std::uint64_t FaultScript::struck_count() const {
  const std::lock_guard lock(mutex_);
  return struck_;
}

}  // namespace braid::verbs
