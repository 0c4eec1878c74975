#include "templates/scan.h"

#include <algorithm>
#include <cctype>

namespace tunesmith::scan {

bool in_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\n' || c == '\t'; }

Position skip_blanks(std::string_view text, Position at) {
  while (at < text.size()) {
    if (is_blank(text[at])) {
      ++at;
    } else if (text.substr(at).starts_with("//") || text[at] == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else {
      break;
    }
  }
  return at;
}

std::string_view word_at(std::string_view text, Position at) {
  Position end = at;
  while (end < text.size() && in_word(text[end])) ++end;
  return text.substr(at, end - at);
}

Position find_word(std::string_view text, std::string_view word, Position at) {
  for (at = text.find(word, at); at != nowhere; at = text.find(word, at + 1))
    if ((at == 0 || !in_word(text[at - 1])) && !in_word(text[std::min(at + word.size(), text.size() - 1)])) return at;
  return nowhere;
}

Position after_bracket(std::string_view text, Position at) {
  int depth = 0;
  for (; at < text.size(); ++at) {
    if (text.substr(at).starts_with("//")) at = std::min(text.find('\n', at), text.size() - 1);
    const char c = text[at];
    if (c == '"') at = std::min(text.find('"', at + 1), text.size() - 1);
    if (c == '(' || c == '{' || c == '[') ++depth;
    if ((c == ')' || c == '}' || c == ']') && --depth == 0) return at + 1;
  }
  return at;
}

Position find_outside(std::string_view text, Position at, std::string_view ends) {
  int angles = 0;
  for (; at < text.size(); ++at) {
    if (text.substr(at).starts_with("//")) at = std::min(text.find('\n', at), text.size() - 1);
    const char c = text[at];
    if (c == '<' && at > 0 && in_word(text[at - 1])) ++angles;
    if (c == '>' && angles > 0 && text[at - 1] != ' ') --angles;
    if (angles == 0 && ends.find(c) != nowhere) return at;
    if (c == '(' || c == '{' || c == '[') {
      at = after_bracket(text, at) - 1;
    } else if (c == ')' || c == '}' || c == ']') {
      return at;
    }
  }
  return at;
}

Position end_of_statement(std::string_view text, Position at) {
  at = skip_blanks(text, at);
  const std::string_view word = word_at(text, at);
  if (text[at] == '{') return after_bracket(text, at);
  if (word == "if" || word == "for" || word == "while") {
    at = end_of_statement(text, after_bracket(text, text.find('(', at)));
    const Position next = skip_blanks(text, at);
    return word == "if" && word_at(text, next) == "else" ? end_of_statement(text, next + 4) : at;
  }
  return std::min(find_outside(text, at, ";") + 1, text.size());
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

}  // namespace tunesmith::scan
