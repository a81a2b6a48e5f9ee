#include "config/variables.h"

#include <utility>

namespace braid::config {
namespace {

std::optional<std::string> non_empty(const Lookup& lookup, const char* name) {
  if (name == nullptr || lookup == nullptr) return std::nullopt;
  std::optional<std::string> value = lookup(name);
  if (value && value->empty()) value.reset();
  return value;
}

}  // namespace

std::optional<VariableValue> find_variable(const Lookup& lookup, const Variable& variable,
                                           Report& report) {
  std::optional<std::string> own = non_empty(lookup, variable.name);
  std::optional<std::string> alias = non_empty(lookup, variable.alias);
  if (!own) {
    if (!alias) return std::nullopt;
    return VariableValue{.value = std::move(*alias), .name = variable.alias};
  }
  if (alias && *alias != *own) {
    report.warn(std::string(variable.name) + " is " + quoted(*own) + " and " + variable.alias +
                " is " + quoted(*alias) + "; " + variable.name + " holds");
  }
  return VariableValue{
      .value = std::move(*own), .name = variable.name, .alias_value = std::move(alias)};
}

}  // namespace braid::config
