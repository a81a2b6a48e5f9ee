#pragma once

#include <cstdint>

namespace braid {

/// Defects that a test build of a few source files can switch on, to prove that the checkers of the
/// simulation find them. In every other build planted() is false at compile time.
enum class PlantedFault : std::uint8_t {
  kNone,
  kNotifyEarly,  // a notification is delivered when it arrives, not in its turn
  kSkipDedup,    // a repeated request is executed again
  kWrongWrap,    // sequences wrap at 2^23
  kLostCredit,   // now and then a posted receive is not granted
};

#ifdef BRAID_PLANT_FAULTS
extern PlantedFault planted_fault;  // defined by the test
[[nodiscard]] inline bool planted(PlantedFault fault) noexcept { return planted_fault == fault; }
#else
[[nodiscard]] constexpr bool planted(PlantedFault /*fault*/) noexcept { return false; }
#endif

}  // namespace braid
