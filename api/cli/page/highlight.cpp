#include "api/cli/page/highlight.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "api/cli/page/html.h"

namespace tunesmith::cli {
namespace {

constexpr std::array<std::string_view, 48> keywords{"__align__",
                                                    "__constant__",
                                                    "__device__",
                                                    "__forceinline__",
                                                    "__global__",
                                                    "__grid_constant__",
                                                    "__launch_bounds__",
                                                    "__restrict__",
                                                    "__shared__",
                                                    "alignas",
                                                    "asm",
                                                    "auto",
                                                    "bool",
                                                    "break",
                                                    "case",
                                                    "char",
                                                    "class",
                                                    "const",
                                                    "constexpr",
                                                    "continue",
                                                    "default",
                                                    "do",
                                                    "double",
                                                    "else",
                                                    "enum",
                                                    "extern",
                                                    "false",
                                                    "float",
                                                    "for",
                                                    "if",
                                                    "inline",
                                                    "int",
                                                    "long",
                                                    "namespace",
                                                    "nullptr",
                                                    "operator",
                                                    "return",
                                                    "short",
                                                    "static",
                                                    "static_cast",
                                                    "struct",
                                                    "switch",
                                                    "template",
                                                    "true",
                                                    "typename",
                                                    "unsigned",
                                                    "using",
                                                    "volatile"};
static_assert(std::ranges::is_sorted(keywords));

bool starts_word(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// Returns the length of the literal that starts with a quote.
std::size_t literal_length(std::string_view text) {
  std::size_t end = 1;
  while (end < text.size() && text[end] != text.front() && text[end] != '\n') end += text[end] == '\\' ? 2 : 1;
  return std::min(end + 1, text.size());
}

template <typename Belongs>
std::size_t run_length(std::string_view text, const Belongs& belongs) {
  return static_cast<std::size_t>(std::ranges::find_if_not(text, belongs) - text.begin());
}

struct Piece {
  char kind;  ///< class of the span; 0: none
  std::size_t length;
};

Piece first_piece(std::string_view text, bool line_start) {
  const char c = text.front();
  if (text.starts_with("//")) return {'c', std::min(text.find('\n'), text.size())};
  if (text.starts_with("/*")) {
    const std::size_t end = text.find("*/", 2);
    return {'c', end == std::string_view::npos ? text.size() : end + 2};
  }
  if (c == '#' && line_start) return {'d', std::min(text.find('\n'), text.size())};
  if (c == '"' || c == '\'') return {'s', literal_length(text)};
  if (std::isdigit(static_cast<unsigned char>(c)) != 0)
    return {'n', run_length(text, [](char x) { return in_word(x) || x == '.'; })};
  if (starts_word(c)) {
    const std::size_t length = run_length(text, in_word);
    return {std::ranges::binary_search(keywords, text.substr(0, length)) ? 'k' : '\0', length};
  }
  return {'\0', 1};
}

}  // namespace

std::string highlighted(std::string_view source) {
  std::string html;
  bool line_start = true;
  while (!source.empty()) {
    const Piece piece = first_piece(source, line_start);
    const std::string text = escaped(source.substr(0, piece.length));
    html += piece.kind == '\0' ? text : std::string("<span class=\"") + piece.kind + "\">" + text + "</span>";
    const char last = source[piece.length - 1];
    line_start = last == '\n' || (line_start && last == ' ');
    source.remove_prefix(piece.length);
  }
  return html;
}

}  // namespace tunesmith::cli
