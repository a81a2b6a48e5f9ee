#pragma once

#include <chrono>
#include <cstdint>

namespace braid {

/// Signed span of time. Units: nanoseconds.
using Duration = std::chrono::nanoseconds;

/// Clock type behind TimePoint. It deliberately has no now(): engine, channel, scheduler and
/// fabric are handed the time, so that the same code runs in real and in virtual time and a stray
/// clock read does not compile. Only composition roots convert a real clock into a TimePoint.
struct PassedInClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<PassedInClock, duration>;
  static constexpr bool is_steady = true;
};

/// Point in time on whichever clock the composition root uses. Units: nanoseconds since an epoch
/// of that clock; only differences mean anything.
using TimePoint = PassedInClock::time_point;

/// Deadline that never comes.
inline constexpr TimePoint kNever = TimePoint::max();

}  // namespace braid
