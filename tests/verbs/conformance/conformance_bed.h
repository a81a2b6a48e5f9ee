#pragma once

#include <braid/time.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <ostream>

#include "verbs/verbs_api.h"

namespace braid::verbs::conformance {

/// One of the two devices that a test connects. Both may be the same device.
struct Side {
  VerbsApi* api = nullptr;
  ibv_context* context = nullptr;
  std::uint8_t port = 1;
  std::uint8_t gid_index = 0;
};

/// What the tests run on: two devices that reach each other, and what makes time pass.
///
/// Soft devices over a memory wire, over UDP, in the simulated fabric, and kernel devices each have
/// one. Destroyed after everything that was made on it.
class ConformanceBed {
 public:
  virtual ~ConformanceBed() = default;

  virtual Side local() = 0;
  virtual Side remote() = 0;

  /// Lets the devices work until `done()`, which polls, or until `timeout` of the bed's own time
  /// has passed. Returns the last done().
  virtual bool progress_until(const std::function<bool()>& done, Duration timeout) = 0;

  /// Messages of more than a gigabyte may be tried: a question of run time, and of 2.2 GB of
  /// memory.
  [[nodiscard]] virtual bool carries_huge_messages() const { return false; }
};

using BedFactory = std::unique_ptr<ConformanceBed> (*)();

/// A bed to instantiate the suites with.
struct BedParam {
  const char* name;
  BedFactory create;
};

inline std::ostream& operator<<(std::ostream& out, const BedParam& param) {
  return out << param.name;
}

}  // namespace braid::verbs::conformance
