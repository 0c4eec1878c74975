#include "templates/known_values.h"

#include <algorithm>
#include <charconv>
#include <vector>

namespace tunesmith {
namespace {

using scan::after_bracket;
using scan::find_outside;
using scan::in_word;
using scan::nowhere;
using scan::Position;
using scan::skip_blanks;
using scan::trimmed;
using scan::word_at;

MaybeConstant constant_of(std::string_view text) {
  if (text == "true" || text == "false") return Constant{text == "true" ? 1 : 0, {}};
  Constant value;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value.number);
  if (error == std::errc() && end == text.data() + text.size()) return value;
  return {};
}

/// Returns a number or an enumerator ("tunesmith::LoadHint::plain"); nothing for other initializers.
MaybeConstant value_of(std::string_view text) {
  if (const MaybeConstant number = constant_of(trimmed(text))) return number;
  const Position colon = text.rfind(':');
  return colon == nowhere ? MaybeConstant() : MaybeConstant(Constant{0, std::string(text.substr(colon + 1))});
}

/// "bool a = false, b" of a struct.
void read_members(std::string_view declaration, std::map<std::string, Constant, std::less<>>& members) {
  const std::string_view type = word_at(declaration, 0);
  for (Position at = type.size(); at < declaration.size();) {
    at = skip_blanks(declaration, at);
    const std::string_view name = word_at(declaration, at);
    const Position end = std::min(find_outside(declaration, at, ","), declaration.size());
    const Position equals = declaration.substr(at, end - at).find(" = ");
    const bool number = type == "bool" || type == "int" || type == "int64";
    const MaybeConstant value = equals != nowhere ? value_of(declaration.substr(at + equals + 3, end - at - equals - 3))
                                : number          ? MaybeConstant(Constant{})
                                                  : MaybeConstant();
    if (value) members.emplace(name, *value);
    at = end + 1;
  }
}

/// Returns the value of a static member of a struct that is not a template.
MaybeConstant constant_in(std::string_view text, const std::string& type, const std::string& name) {
  const Position begin = text.find("\nstruct " + type + " {");
  if (begin == nowhere || text.substr(0, begin).ends_with('>')) return {};
  const std::string_view body = text.substr(begin, text.find("\n}", begin) - begin);
  const Position at = body.find(" " + name + " = ");
  if (at == nowhere || body.substr(body.rfind('\n', at), at - body.rfind('\n', at)).find("static constexpr ") == nowhere)
    return {};
  const Position value = at + name.size() + 4;
  return value_of(body.substr(value, find_outside(body, value, ",;") - value));
}

/// Evaluates a constant expression; nothing if a part that matters is unknown.
class Evaluator {
 public:
  Evaluator(const KnownValues& known, std::string_view expression, Position from, int depth = 0)
      : known_(known), text_(expression), from_(from), depth_(depth) {}

  MaybeConstant value() {
    const MaybeConstant result = conditional();
    return skip() == text_.size() && !failed_ ? result : MaybeConstant();
  }

 private:
  Position skip() { return at_ = skip_blanks(text_, at_); }
  bool take(std::string_view token) {
    skip();
    if (!text_.substr(at_).starts_with(token)) return false;
    at_ += token.size();
    return true;
  }

  MaybeConstant conditional() {
    const MaybeConstant condition = either();
    if (!take("?")) return condition;
    const MaybeConstant yes = conditional();
    if (!take(":")) failed_ = true;
    const MaybeConstant no = conditional();
    return !condition ? MaybeConstant() : condition->truth() ? yes : no;
  }
  MaybeConstant either() {
    MaybeConstant left = both();
    while (take("||")) {
      const MaybeConstant right = both();
      left = (left && left->truth()) || (right && right->truth()) ? MaybeConstant(Constant{1, {}})
             : left && right                                      ? MaybeConstant(Constant{0, {}})
                                                                  : MaybeConstant();
    }
    return left;
  }
  MaybeConstant both() {
    MaybeConstant left = comparison();
    while (take("&&")) {
      const MaybeConstant right = comparison();
      left = (left && !left->truth()) || (right && !right->truth()) ? MaybeConstant(Constant{0, {}})
             : left && right                                        ? MaybeConstant(Constant{1, {}})
                                                                    : MaybeConstant();
    }
    return left;
  }
  MaybeConstant comparison() {
    const MaybeConstant left = sum();
    for (const std::string_view sign : {"==", "!=", "<=", ">=", "<", ">"}) {
      if (!take(sign)) continue;
      const MaybeConstant right = sum();
      if (!left || !right || left->enumerator.empty() != right->enumerator.empty()) return {};
      const long long a = left->number, b = right->number;
      const bool holds = sign == "=="   ? *left == *right
                         : sign == "!=" ? *left != *right
                         : sign == "<=" ? a <= b
                         : sign == ">=" ? a >= b
                         : sign == "<"  ? a < b
                                        : a > b;
      return Constant{holds ? 1 : 0, {}};
    }
    return left;
  }
  MaybeConstant sum() {
    MaybeConstant left = product();
    while (true) {
      const bool plus = take("+");
      if (!plus && !take("-")) return left;
      const MaybeConstant right = product();
      left = left && right ? MaybeConstant(Constant{plus ? left->number + right->number : left->number - right->number, {}})
                           : MaybeConstant();
    }
  }
  MaybeConstant product() {
    MaybeConstant left = unary();
    while (true) {
      skip();
      const char sign = at_ < text_.size() ? text_[at_] : ' ';
      if (sign != '*' && sign != '/' && sign != '%') return left;
      ++at_;
      const MaybeConstant right = unary();
      if (!left || !right || (sign != '*' && right->number == 0))
        left.reset();
      else
        left->number = sign == '*'   ? left->number * right->number
                       : sign == '/' ? left->number / right->number
                                     : left->number % right->number;
    }
  }
  MaybeConstant unary() {
    skip();
    if (at_ < text_.size() && text_[at_] == '!' && !text_.substr(at_).starts_with("!=")) {
      ++at_;
      const MaybeConstant value = unary();
      return value ? MaybeConstant(Constant{value->truth() ? 0 : 1, {}}) : MaybeConstant();
    }
    return primary();
  }
  MaybeConstant primary() {
    if (take("(")) {
      const MaybeConstant value = conditional();
      if (!take(")")) failed_ = true;
      return value;
    }
    skip();
    const std::string_view name = word_at(text_, at_);
    if (name.empty()) {
      failed_ = true;
      return {};
    }
    at_ += name.size();
    if (const MaybeConstant number = constant_of(name)) return number;
    if (at_ < text_.size() && text_[at_] == '.') {
      const std::string_view member = word_at(text_, ++at_);
      at_ += member.size();
      return rest_is_empty() ? known_.member(name, member, from_) : skip_rest();
    }
    const bool is_template = at_ < text_.size() && text_[at_] == '<';
    bool plain = true;  // the arguments are the parameters that the template's definition has, too
    if (is_template) {
      const Position begin = at_ + 1;
      at_ = end_of_arguments();
      plain = std::ranges::all_of(text_.substr(begin, at_ - begin - 1),
                                  [](char c) { return in_word(c) || c == ',' || c == ' '; });
    }
    if (text_.substr(at_).starts_with("::")) {
      std::vector<std::string_view> path{name};
      while (take("::")) {
        path.push_back(word_at(text_, at_));
        at_ += path.back().size();
      }
      return rest_is_empty() ? known_.qualified(path) : skip_rest();
    }
    if (!rest_is_empty()) return skip_rest();
    const auto found = plain && depth_ < 8 ? known_.initializer(name, from_, is_template) : std::nullopt;
    return found ? Evaluator(known_, found->text, found->at, depth_ + 1).value() : MaybeConstant();
  }

  bool rest_is_empty() const {
    return at_ >= text_.size() || (text_[at_] != '(' && text_[at_] != '[' && text_[at_] != '{' && text_[at_] != '.');
  }
  /// Skips a call or an index, whose value is unknown.
  MaybeConstant skip_rest() {
    while (!rest_is_empty()) {
      if (text_[at_] == '.')
        at_ += 1 + word_at(text_, at_ + 1).size();
      else
        at_ = after_bracket(text_, at_);
    }
    return {};
  }
  Position end_of_arguments() const {
    int depth = 0;
    for (Position at = at_; at < text_.size(); ++at) {
      if (text_[at] == '<') ++depth;
      if (text_[at] == '>' && --depth == 0) return at + 1;
    }
    return text_.size();
  }

  const KnownValues& known_;
  const std::string_view text_;
  const Position from_;
  const int depth_;
  Position at_ = 0;
  bool failed_ = false;
};

}  // namespace

std::optional<bool> KnownValues::condition(std::string_view expression, Position at) const {
  const MaybeConstant value = Evaluator(*this, expression, at).value();
  return value ? std::optional(value->truth()) : std::nullopt;
}

KnownValues::KnownValues(const std::string& templates, std::string_view constants)
    : templates_(templates), constants_(constants) {
  const std::string_view head = "static constexpr tunesmith::";
  for (Position at = constants.find(head); at != nowhere; at = constants.find(head, at + 1)) {
    const std::string type(word_at(constants, at + head.size()));
    const Position brace = constants.find('{', at);
    read_object(type, constants.substr(brace + 1, after_bracket(constants, brace) - brace - 2));
  }
  for (auto& [type, object] : objects_)
    if (templates_.find("constexpr " + type + " ") != nowhere) ++object.count;
}

MaybeConstant KnownValues::member(std::string_view name, std::string_view member, Position from) const {
  const std::string declarator = "& " + std::string(name);
  for (Position at = templates_.rfind(declarator, from); at != nowhere && at > 0;
       at = templates_.rfind(declarator, at - 1)) {
    Position type = at;
    while (type > 0 && in_word(templates_[type - 1])) --type;
    if (in_word(templates_[at + declarator.size()]) ||
        templates_.compare(type - std::min<Position>(type, 6), 6, "const ") != 0)
      continue;
    const auto object = objects_.find(std::string_view(templates_).substr(type, at - type));
    if (object == objects_.end() || object->second.count != 1) return {};
    const auto value = object->second.members.find(member);
    return value == object->second.members.end() ? MaybeConstant() : MaybeConstant(value->second);
  }
  return {};
}

MaybeConstant KnownValues::qualified(std::span<const std::string_view> path) const {
  const std::string first(path[0]), last(path.back());
  if (path.size() == 2 && templates_.find("enum class " + first + " ") != nowhere) return Constant{0, last};
  if (path.size() == 2) return constant_in(constants_, first, last);
  const std::string choice = "\n  using " + std::string(path[1]) + " = tunesmith::";
  const Position chosen = constants_.find(choice);
  if (path.size() != 3 || !first.ends_with("Features") || chosen == nowhere) return {};
  return constant_in(templates_, std::string(word_at(constants_, chosen + choice.size())), last);
}

std::optional<KnownValues::Initializer> KnownValues::initializer(std::string_view name, Position from,
                                                                 bool is_template) const {
  const std::string_view text = templates_;
  if (is_template && is_specialized(name)) return {};
  const Position end_before = is_template ? nowhere : text.rfind("\n}", from);
  std::optional<Initializer> found;
  for (Position at = text.rfind(name, is_template ? nowhere : from); at != nowhere && at > 0;
       at = text.rfind(name, at - 1)) {
    if (end_before != nowhere && at < end_before) break;
    const Position line = text.rfind('\n', at) + 1;
    const std::string_view before = text.substr(line, at - line);
    const bool defined = !in_word(text[at - 1]) && text.substr(at + name.size()).starts_with(" = ");
    if (!defined || before.find("constexpr ") == nowhere || (is_template && before.starts_with(' '))) continue;
    if (found) return {};  // the preprocessor chooses
    const Position begin = at + name.size() + 3;
    found = Initializer{text.substr(begin, find_outside(text, begin, ",;") - begin), begin};
  }
  return found;
}

void KnownValues::read_object(const std::string& type, std::string_view initializers) {
  Object& object = objects_[type];
  ++object.count;
  const Position begin = templates_.find("struct " + type + " {");
  if (begin == nowhere) return;
  const Position brace = templates_.find('{', begin);
  for (Position at = brace + 1; at < templates_.size();) {
    at = skip_blanks(templates_, at);
    const Position end = find_outside(templates_, at, ";");
    if (templates_[end] != ';') break;
    read_members(std::string_view(templates_).substr(at, end - at), object.members);
    at = end + 1;
  }
  for (Position at = initializers.find('.'); at != nowhere; at = initializers.find("\n    .", at)) {
    at = initializers.find('.', at) + 1;
    const std::string_view name = word_at(initializers, at);
    const Position value = at + name.size() + 3, end = find_outside(initializers, value, ",");
    object.members.erase(std::string(name));
    if (const MaybeConstant given = value_of(initializers.substr(value, end - value))) object.members.emplace(name, *given);
    at = end;
  }
}

bool KnownValues::is_specialized(std::string_view name) const {
  const std::string use = " " + std::string(name) + "<";
  for (Position at = templates_.find(use); at != nowhere; at = templates_.find(use, at + 1)) {
    const Position line = templates_.rfind('\n', at) + 1;
    const std::string_view before = std::string_view(templates_).substr(line, at - line);
    if (before.starts_with("constexpr ") && before.find('=') == nowhere) return true;
  }
  return false;
}

}  // namespace tunesmith
