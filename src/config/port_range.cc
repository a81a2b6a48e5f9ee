#include "config/port_range.h"

#include <string>

#include "config/parse_units.h"
#include "config/text.h"

namespace braid::config {

Result<std::vector<PortRange>> parse_port_ranges(std::string_view text, std::string_view name,
                                                 Report& report) {
  std::vector<PortRange> ranges;
  if (text == "auto") return ranges;
  const auto refuse = [&](std::string_view value, const char* allowed) {
    return report.refuse(
        {.source = std::string(name), .value = std::string(value), .allowed = allowed});
  };
  bool more = true;
  while (more) {
    more = text.find(',') != std::string_view::npos;
    const std::string_view element = take_until(text, ',');
    std::string_view last_text = element;
    const std::string_view first_text = take_until(last_text, '-');
    const auto first = parse_integer(first_text, 1, 65535);
    const auto last =
        first_text.size() == element.size() ? first : parse_integer(last_text, 1, 65535);
    if (!first || !last || *first > *last) {
      return refuse(element, "auto, or ports and FIRST-LAST from 1 to 65535 separated by ','");
    }
    for (const PortRange& other : ranges) {
      if (*first <= other.last && *last >= other.first) {
        return refuse(element, "ports that no other element has");
      }
    }
    if (ranges.size() == kMaxPortRanges) return refuse(element, "at most 64 elements");
    ranges.push_back({static_cast<std::uint16_t>(*first), static_cast<std::uint16_t>(*last)});
  }
  return ranges;
}

}  // namespace braid::config
