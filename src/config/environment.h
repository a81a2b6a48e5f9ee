#pragma once

#include <functional>
#include <optional>
#include <string>

namespace braid::config {

/// Looks up a variable by name; empty when it is not set.
using Lookup = std::function<std::optional<std::string>(const char* name)>;

/// Looks in the environment of the process.
[[nodiscard]] Lookup process_environment();

}  // namespace braid::config
