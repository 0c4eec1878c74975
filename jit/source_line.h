#pragma once
// The line of a generated source that a compiler's message is about.

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace tunesmith {

/// `message` begins with "file:line:" and may go on with a column; the text of that line, following the #line directives of
/// `source`, which calls itself `name` ahead of the first one. Empty when there is no such line.
inline std::string line_of_message(std::string_view source, std::string_view name, std::string_view message) {
  const std::size_t colon = message.find(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view file = message.substr(0, colon);
  const auto number_at = [](std::string_view text) {
    int number = 0;
    std::from_chars(text.data(), text.data() + text.size(), number);
    return number;
  };
  const int wanted = number_at(message.substr(colon + 1));
  if (wanted <= 0) return {};

  constexpr std::string_view directive = "#line ", blanks = " \t\r";
  std::string_view current = name;
  for (int number = 1; !source.empty(); ++number) {
    std::string_view line = source.substr(0, source.find('\n'));
    source.remove_prefix(std::min(source.size(), line.size() + 1));
    if (line.starts_with(directive)) {
      const std::size_t open = line.find('"'), close = line.rfind('"');
      if (open != close) current = line.substr(open + 1, close - open - 1);
      number = number_at(line.substr(directive.size())) - 1;
    } else if (number == wanted && current == file) {
      if (const std::size_t begin = line.find_first_not_of(blanks); begin != std::string_view::npos) {
        line.remove_prefix(begin);
        line = line.substr(0, line.find_last_not_of(blanks) + 1);
      }
      // A mark may lead to a line a second time, for what was generated from it: the first is the one that was written.
      return std::string(line);
    }
  }
  return {};
}

/// ", in 'text of the line'", or nothing.
inline std::string shown_line(std::string_view source, std::string_view name, std::string_view message) {
  const std::string line = line_of_message(source, name, message);
  return line.empty() ? line : ", in '" + line + "'";
}

}  // namespace tunesmith
