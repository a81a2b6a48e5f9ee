#pragma once

#include <optional>
#include <string>

namespace braid::tools {

/// Why a program gives up: its exit code and one sentence for stderr.
struct Failure {
  int exit_code = 0;
  std::string text;
};

/// Empty = all is well.
using MaybeFailure = std::optional<Failure>;

}  // namespace braid::tools
