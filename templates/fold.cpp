#include "templates/fold.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <vector>

#include "templates/known_values.h"

namespace tunesmith {
namespace {

using scan::after_bracket;
using scan::end_of_statement;
using scan::find_outside;
using scan::find_word;
using scan::in_word;
using scan::is_blank;
using scan::nowhere;
using scan::Position;
using scan::skip_blanks;
using scan::trimmed;
using scan::word_at;

/// Returns a branch without its braces, indented as the `if` that chose it, which has `indent` blanks before it.
std::string unwrapped(std::string_view branch, Position indent) {
  const Position begin = skip_blanks(branch, 0);
  if (branch[begin] == '{') branch = branch.substr(begin + 1, branch.rfind('}') - begin - 1);
  const Position first = std::min(branch.find_first_not_of(" \n"), branch.size());
  const Position line = branch.substr(0, first).rfind('\n');
  const Position deeper = line == nowhere ? 0 : first - line - 1 - std::min(indent, first - line - 1);
  std::string text(branch.substr(first));
  while (!text.empty() && is_blank(text.back())) text.pop_back();
  const std::string extra = "\n" + std::string(deeper, ' ');
  for (Position at = text.find(extra); deeper > 0 && at != nowhere; at = text.find(extra, at + 1))
    text.erase(at + 1, deeper);
  return text;
}

/// Returns whether the last statement of a list of statements is a return.
bool ends_with_return(std::string_view statements) {
  std::string_view last;
  for (Position at = skip_blanks(statements, 0); at < statements.size(); at = skip_blanks(statements, at)) {
    const Position end = end_of_statement(statements, at);
    last = word_at(statements, at);
    at = end;
  }
  return last == "return";
}

/// Returns the names that a list of statements declares with initializers.
std::vector<std::string> declared_names(std::string_view statements) {
  std::vector<std::string> names;
  for (Position at = skip_blanks(statements, 0); at < statements.size(); at = skip_blanks(statements, at)) {
    const Position end = end_of_statement(statements, at);
    const Position equals = statements.substr(0, end).find(" = ", at);
    if (equals != nowhere && statements.substr(at, equals - at).find(' ') != nowhere) {
      Position begin = equals;
      while (begin > at && in_word(statements[begin - 1])) --begin;
      names.emplace_back(statements.substr(begin, equals - begin));
    }
    at = end;
  }
  return names;
}

class BranchFolder {
 public:
  BranchFolder(std::string& text, const KnownValues& known) : text_(text), known_(known) {}

  void fold() {
    for (Position at = find_word(text_, "constexpr", 0); at != nowhere; at = find_word(text_, "constexpr", at + 1)) {
      if (at < 3 || text_.compare(at - 3, 3, "if ") != 0 || in_comment_or_macro(at)) continue;
      at = fold_branch(at - 3);
    }
    for (Position at = text_.find(" ? "); at != nowhere; at = text_.find(" ? ", at + 1))
      if (!in_comment_or_macro(at)) at = fold_expression(at);
  }

 private:
  bool in_comment_or_macro(Position at) const {
    const Position line = text_.rfind('\n', at) + 1, end = text_.find('\n', at);
    return text_[line] == '#' || text_[end - 1] == '\\' || text_.substr(line, at - line).find("//") != nowhere;
  }

  /// Folds the `if` at a position. Returns where to go on.
  Position fold_branch(Position begin) {
    const Position open = text_.find('(', begin), condition_end = after_bracket(text_, open);
    const Position yes_end = end_of_statement(text_, condition_end), next = skip_blanks(text_, yes_end);
    const bool has_else = word_at(text_, next) == "else";
    const Position end = has_else ? end_of_statement(text_, next + 4) : yes_end;
    const std::optional<bool> condition =
        known_.condition(std::string_view(text_).substr(open + 1, condition_end - open - 2), begin);
    if (!condition) return begin + 4;
    std::string branch = *condition ? text_.substr(condition_end, yes_end - condition_end)
                         : has_else ? text_.substr(next + 4, end - next - 4)
                                    : std::string();
    const Position before = begin == 0 ? nowhere : text_.find_last_not_of(" \n", begin - 1);
    // Alone in a loop or after else, a statement stays one.
    const bool alone =
        before != nowhere && (text_[before] == ')' || (before >= 4 && text_.compare(before - 3, 4, "else") == 0));
    if (alone) {
      if (branch.empty() && text_[before] == 'e') {  // nothing is left of the else branch
        const Position last = text_.find_last_not_of(' ', before - 4) + 1;
        text_.erase(last, end - last);
        return last - 1;
      }
      branch = branch.empty() ? "{}" : std::string(trimmed(branch));
      text_.replace(begin, end - begin, branch);
      return begin > 0 ? begin - 1 : 0;
    }
    if (branch.empty()) {
      const Position line = start_of_comment(text_.rfind('\n', begin) + 1);
      text_.erase(line, std::min(text_.find('\n', end) + 1, text_.size()) - line);
      return line > 0 ? line - 1 : 0;
    }
    const Position indent = begin - text_.rfind('\n', begin) - 1;
    if (const std::string inside = unwrapped(branch, indent); declares_twice(inside, begin, end)) {
      text_.replace(begin, end - begin, trimmed(branch));  // its braces keep the names apart
      return begin > 0 ? begin - 1 : 0;
    } else {
      branch = inside;
    }
    if (branch[0] == '#') begin -= indent;
    const bool leaves = ends_with_return(branch);
    Position rest = end;
    if (leaves)  // what follows in the block is dead
      while (text_[skip_blanks(text_, rest)] != '}') rest = end_of_statement(text_, rest);
    if (std::string_view(text_).substr(end, rest - end).find("\n#") != nowhere) rest = end;
    if (leaves && rest != end) {
      text_.replace(begin, skip_blanks(text_, rest) - begin, branch + "\n" + indentation_of(skip_blanks(text_, rest)));
    } else {
      text_.replace(begin, end - begin, branch);
    }
    return begin > 0 ? begin - 1 : 0;
  }

  /// Returns whether the function around [begin, end) declares a name of `statements` outside of this part, too.
  bool declares_twice(const std::string& statements, Position begin, Position end) const {
    const Position before = text_.rfind("\n}", begin), after = text_.find("\n}", end);
    const std::string around = text_.substr(before == nowhere ? 0 : before, begin - (before == nowhere ? 0 : before)) +
                               text_.substr(end, after - end);
    return std::ranges::any_of(declared_names(statements),
                               [&](const std::string& name) { return around.find(" " + name + " = ") != nowhere; });
  }
  std::string indentation_of(Position at) const { return std::string(at - text_.rfind('\n', at) - 1, ' '); }

  /// Returns where the comment directly before a line begins, or the line.
  Position start_of_comment(Position line) const {
    while (line > 1) {
      const Position previous = text_.rfind('\n', line - 2) + 1;
      const Position first = text_.find_first_not_of(' ', previous);
      if (text_.compare(first, 2, "//") != 0 || text_.compare(first, 3, "///") == 0) break;
      line = previous;
    }
    return line;
  }

  /// Folds the conditional expression of the ` ? ` at a position. Returns where to go on.
  Position fold_expression(Position question) {
    Position begin = question;
    for (int depth = 0; begin > 0; --begin) {
      const char c = text_[begin - 1];
      if (c == ')' || c == ']' || c == '}') ++depth;
      if ((c == '(' || c == '[' || c == '{') && depth-- == 0) break;
      if (depth == 0 && (c == ',' || c == ';' || c == '?' || c == ':')) break;
      if (depth == 0 && c == '=' && std::string_view("=<>!").find(text_[begin - 2]) == nowhere && text_[begin] != '=') break;
      if (depth == 0 && text_.compare(begin - 1, 7, "return ") == 0 && !in_word(text_[begin - 2])) {
        begin += 6;
        break;
      }
    }
    const std::optional<bool> condition =
        known_.condition(std::string_view(text_).substr(begin, question - begin), question);
    if (!condition) return question;
    while (is_blank(text_[begin])) ++begin;
    const Position colon = matching_colon(question + 3);
    if (colon == nowhere) return question;
    const Position no = skip_blanks(text_, colon + 1);
    std::string chosen;
    Position end = find_outside(text_, no, ",;");
    if (*condition)
      chosen = trimmed(std::string_view(text_).substr(question + 3, colon - question - 3));
    else
      chosen = std::string_view(text_).substr(no, end - no);
    // A name or a number needs no parentheses, except in a call.
    const bool simple = std::ranges::all_of(chosen, [](char c) { return in_word(c) || c == '.'; });
    if (simple && begin > 1 && text_[begin - 1] == '(' && text_[end] == ')' && !in_word(text_[begin - 2]) &&
        text_[begin - 2] != '>') {
      --begin;
      ++end;
    }
    text_.replace(begin, end - begin, chosen);
    return begin > 0 ? begin - 1 : 0;
  }

  /// Returns the ` : ` of the conditional expression whose first branch begins at `at`.
  Position matching_colon(Position at) const {
    for (int open = 0; at < text_.size();) {
      at = find_outside(text_, at, "?:;,");
      if (at >= text_.size() || (text_[at] != '?' && text_[at] != ':')) return nowhere;
      if (text_.compare(at, 2, "::") == 0) {
        at += 2;
        continue;
      }
      if (text_[at] == ':' && open-- == 0) return at;
      if (text_[at] == '?') ++open;
      ++at;
    }
    return nowhere;
  }

  std::string& text_;
  const KnownValues& known_;
};

}  // namespace

std::string fold_branches(std::string templates, const std::string& constants) {
  const KnownValues known(templates, constants);
  BranchFolder(templates, known).fold();
  return templates;
}

}  // namespace tunesmith
