#pragma once
// Finds the line of a generated source that a compiler message refers to.

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace tunesmith {

/// Returns the source line that `message` ("file:line: ..." or "file:line:column: ...") refers to. Follows the #line
/// directives of `source`, whose name before the first directive is `name`. Empty if there is no such line.
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
      // Several lines may have the same mark, if code was generated from them. The first one is the original.
      return std::string(line);
    }
  }
  return {};
}

/// Returns ", in 'the line'", or an empty string.
inline std::string shown_line(std::string_view source, std::string_view name, std::string_view message) {
  const std::string line = line_of_message(source, name, message);
  return line.empty() ? line : ", in '" + line + "'";
}

}  // namespace tunesmith
