#pragma once

#include <string_view>

namespace braid::config {

/// Takes the text up to `separator` off the front of `text`, and the separator with it.
[[nodiscard]] constexpr std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view head = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return head;
}

/// The text without blanks, tabs and line ends around it.
[[nodiscard]] constexpr std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace braid::config
