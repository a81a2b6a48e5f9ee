#pragma once

#include <braid/config.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace braid::config {

/// A value that a source offers for a setting.
template <typename T>
struct Candidate {
  T value;
  std::string text;
  ConfigSource source;
  std::string where;
};

/// Takes the first candidate, and notes the others as overridden. `candidates` is not empty and
/// goes from the strongest to the weakest.
template <typename T>
T settle(const char* name, std::vector<Candidate<T>> candidates,
         std::vector<ConfigEntry>& entries) {
  ConfigEntry entry{.name = name,
                    .value = std::move(candidates.front().text),
                    .source = candidates.front().source,
                    .where = std::move(candidates.front().where)};
  for (std::size_t i = 1; i < candidates.size(); ++i) {
    entry.overrode.push_back({.value = std::move(candidates[i].text),
                              .source = candidates[i].source,
                              .where = std::move(candidates[i].where)});
  }
  entries.push_back(std::move(entry));
  return std::move(candidates.front().value);
}

}  // namespace braid::config
