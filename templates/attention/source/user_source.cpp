#include "templates/attention/source/user_source.h"

#include <algorithm>
#include <array>

#include "tunesmith/error.h"

namespace tunesmith::attention {
namespace {

constexpr std::string_view blanks = " \t\r\n\v\f";

bool is_word(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; }

/// Reads the name of a parameter declared as "int NAME" or "const int NAME"; "" if it has none. False for anything else.
bool read_parameter(std::string_view declaration, std::string& name) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < declaration.size();) {
    std::size_t end = at;
    while (end < declaration.size() && is_word(declaration[end])) ++end;
    if (end > at)
      words.emplace_back(declaration.substr(at, end - at));
    else if (blanks.find(declaration[at]) == std::string_view::npos)
      return false;
    at = std::max(end, at + 1);
  }
  std::erase(words, "const");
  if (words.empty() || words.size() > 2 || words[0] != "int") return false;
  name = words.size() == 2 ? words[1] : "";
  return true;
}

}  // namespace

SourceReader::SourceReader(std::string_view function, std::string_view signature, const std::string& text)
    : function_(function), signature_(signature), text_(text), code_(text) {
  blank();
}

int SourceReader::line_of_function() const {
  const std::vector<std::size_t> places = places_of_function();
  if (places.empty())
    throw Error(ErrorCode::invalid_argument, function_, " holds no function ", function_, "; expected ", signature_);
  return line_at(places.front());
}

// With directives, the compiler may see other brackets.
void SourceReader::check_brackets() const {
  if (code_.find('#') != std::string::npos) return;
  std::vector<std::size_t> open;
  for (std::size_t at = 0; at < code_.size(); ++at) {
    constexpr std::string_view opening = "({[", closing = ")}]";
    if (opening.find(code_[at]) != std::string_view::npos) open.push_back(at);
    const std::size_t kind = closing.find(code_[at]);
    if (kind == std::string_view::npos) continue;
    if (open.empty() || code_[open.back()] != opening[kind])
      fail(at, std::string("'") + code_[at] + "' closes nothing that is open");
    open.pop_back();
  }
  if (!open.empty()) fail(open.back(), std::string("'") + code_[open.back()] + "' is never closed");
}

bool SourceReader::may_use(std::size_t index, std::size_t count) const {
  const std::vector<std::size_t> places = places_of_function();
  if (places.size() != 1 || may_hide_words()) return true;
  const std::size_t open = code_.find('(', places.front()), close = code_.find(')', open);
  if (close == std::string::npos) return true;
  std::vector<std::string> declarations(1);
  for (const char c : code_.substr(open + 1, close - open - 1))
    if (c == ',')
      declarations.emplace_back();
    else
      declarations.back() += c;
  std::string name;
  if (declarations.size() != count || !read_parameter(declarations[index], name)) return true;
  return !name.empty() && count_of(name) > 1;
}

int SourceReader::line_at(std::size_t at) const {
  return 1 + static_cast<int>(std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

void SourceReader::fail(std::size_t at, const std::string& what) const {
  const std::size_t begin = at == 0 ? 0 : text_.rfind('\n', at - 1) + 1;
  std::string line = text_.substr(begin, std::min(text_.find('\n', at), text_.size()) - begin);
  line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
  throw Error(ErrorCode::invalid_argument, function_, ".cu:", line_at(at), ": ", what, ", in '", line, "'");
}

void SourceReader::blank_from(std::size_t begin, std::size_t end) {
  for (std::size_t i = begin; i < end; ++i)
    if (code_[i] != '\n') code_[i] = ' ';
}

void SourceReader::blank() {
  for (std::size_t at = 0; at < text_.size(); ++at) {
    std::size_t end = at;
    if (text_.compare(at, 2, "//") == 0) {
      end = std::min(text_.find('\n', at), text_.size());
    } else if (text_.compare(at, 2, "/*") == 0) {
      end = text_.find("*/", at + 2);
      if (end == std::string::npos) fail(at, "the comment is never closed");
      end += 2;
    } else if (text_[at] == '"' || (text_[at] == '\'' && (at == 0 || !is_word(text_[at - 1])))) {  // no digit separator
      end = at + 1;
      while (end < text_.size() && text_[end] != text_[at] && text_[end] != '\n') end += text_[end] == '\\' ? 2 : 1;
      end = std::min(end + 1, text_.size());
    }
    if (end == at) continue;
    blank_from(at, end);
    at = end - 1;
  }
}

std::vector<std::size_t> SourceReader::places_of_function() const {
  std::vector<std::size_t> places;
  for (std::size_t at = code_.find(function_); at != std::string::npos; at = code_.find(function_, at + 1)) {
    const std::size_t next = code_.find_first_not_of(" \t\r\n", at + function_.size());
    if ((at == 0 || !is_word(code_[at - 1])) && next != std::string::npos && code_[next] == '(') places.push_back(at);
  }
  return places;
}

std::size_t SourceReader::count_of(std::string_view word) const {
  std::size_t count = 0;
  for (std::size_t at = code_.find(word); at != std::string::npos; at = code_.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || !is_word(code_[at - 1])) && (end == code_.size() || !is_word(code_[end]))) ++count;
  }
  return count;
}

std::set<std::string> SourceReader::macros() const {
  std::set<std::string> names;
  const std::string_view code = code_;
  for (const std::string_view directive : {"define", "undef"})
    for (std::size_t at = code.find(directive); at != std::string_view::npos; at = code.find(directive, at)) {
      at += directive.size();
      // A backslash continues the line.
      const std::size_t begin = std::min(code.find_first_not_of(" \t\r\n\v\f\\", at), code.size());
      std::size_t end = begin;
      while (end < code.size() && is_word(code[end])) ++end;
      if (begin > at && end > begin) names.emplace(code.substr(begin, end - begin));
    }
  return names;
}

bool SourceReader::has_cast_of_address() const {
  constexpr std::array<std::string_view, 8> integers{"const", "volatile", "unsigned", "signed",
                                                     "int",   "long",     "short",    "char"};
  for (std::size_t at = code_.find('('); at != std::string::npos; at = code_.find('(', at + 1)) {
    bool any = false;
    std::size_t begin = code_.find_first_not_of(blanks, at + 1);
    for (std::size_t end = begin; begin < code_.size(); begin = code_.find_first_not_of(blanks, end)) {
      for (end = begin; end < code_.size() && is_word(code_[end]);) ++end;
      if (std::ranges::find(integers, std::string_view(code_).substr(begin, end - begin)) == integers.end()) break;
      any = true;
    }
    if (!any || begin >= code_.size() || (code_[begin] != '&' && code_[begin] != '*')) continue;
    const std::size_t close = code_.find_first_not_of(" \t\r\n&*", begin);
    if (close != std::string::npos && code_[close] == ')') return true;
  }
  return false;
}

// Directives, line continuations, trigraphs, raw and prefixed literals, and assembly.
bool SourceReader::may_hide_words() const {
  constexpr std::array<std::string_view, 3> anywhere{"\\", "??", "R\""};
  constexpr std::array<std::string_view, 2> in_code{"#", "%:"};
  constexpr std::array<std::string_view, 3> words{"asm", "__asm", "__asm__"};
  const auto in = [](const std::string& text) {
    return [&](std::string_view mark) { return text.find(mark) != std::string::npos; };
  };
  if (std::ranges::any_of(anywhere, in(text_)) || std::ranges::any_of(in_code, in(code_))) return true;
  for (std::size_t at = code_.find('\''); at != std::string::npos; at = code_.find('\'', at + 1))
    if (at > 0 && is_word(code_[at - 1]) && (code_[at - 1] < '0' || code_[at - 1] > '9')) return true;  // u'"'
  return std::ranges::any_of(words, [&](std::string_view word) { return count_of(word) > 0; });
}

}  // namespace tunesmith::attention
