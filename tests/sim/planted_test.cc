// The swarm's checkers find defects that were put in on purpose: a checker that cannot fail proves
// nothing. Two source files are built again with the defects, and take the place of the library's.
#include <gtest/gtest.h>

#include "base/planted_fault.h"
#include "tools/sim_swarm.h"

namespace braid {

PlantedFault planted_fault = PlantedFault::kNone;

namespace {

constexpr std::uint64_t kSeeds = 200;

/// The first violation among the seeds; empty when there is none.
std::string first_violation(PlantedFault fault) {
  planted_fault = fault;
  std::string found;
  for (std::uint64_t seed = 1; seed <= kSeeds && found.empty(); ++seed) {
    found = tools::run_case(tools::make_case(seed)).violation;
  }
  planted_fault = PlantedFault::kNone;
  return found;
}

TEST(PlantedFaults, None_NoViolation) { EXPECT_EQ(first_violation(PlantedFault::kNone), ""); }

TEST(PlantedFaults, NotifyEarly_IsCaught) {
  EXPECT_NE(first_violation(PlantedFault::kNotifyEarly).find("notification"), std::string::npos);
}

TEST(PlantedFaults, SkippedDedup_IsCaught) {
  EXPECT_NE(first_violation(PlantedFault::kSkipDedup), "");
}

TEST(PlantedFaults, WrongWrap_IsCaught) {
  EXPECT_NE(first_violation(PlantedFault::kWrongWrap).find("out of the window"), std::string::npos);
}

TEST(PlantedFaults, LostCredit_IsCaught) {
  EXPECT_NE(first_violation(PlantedFault::kLostCredit).find("stuck"), std::string::npos);
}

}  // namespace
}  // namespace braid
