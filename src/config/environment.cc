#include "config/environment.h"

#include <cstdlib>

namespace braid::config {

Lookup process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

}  // namespace braid::config
