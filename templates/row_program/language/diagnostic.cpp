#include "templates/row_program/language/diagnostic.h"

#include <algorithm>

namespace tunesmith::row_program {
namespace {

std::string_view line_of(std::string_view text, int line) {
  for (; line > 1; --line) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  return text.substr(0, text.find('\n'));
}

}  // namespace

void SourceText::fail(Place place, const std::string& message, ErrorCode code) const {
  constexpr std::size_t width = 120;  // of the shown part of a line
  std::string_view line = text.empty() ? text : line_of(text, place.line);
  auto caret = static_cast<std::size_t>(place.column - 1);
  if (caret > width) {
    const std::size_t cut = caret - width / 2;
    line.remove_prefix(std::min(cut, line.size()));
    caret -= cut;
  }
  std::string shown(line.substr(0, width)), blanks(caret, ' ');
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const bool tab = shown[i] == '\t';
    if (!tab && static_cast<unsigned char>(shown[i]) < ' ') shown[i] = ' ';
    if (tab && i < caret) blanks[i] = '\t';
  }
  while (shown.ends_with(' ')) shown.pop_back();
  throw Error(code, file, ":", place.line, ":", place.column, ": ", message, "\n  ", shown, "\n  ", blanks, "^");
}

}  // namespace tunesmith::row_program
