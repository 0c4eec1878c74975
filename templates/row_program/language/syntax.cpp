#include "templates/row_program/language/syntax.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "core/nearest.h"
#include "templates/row_program/language/lexer.h"

namespace tunesmith::row_program {
namespace {

constexpr int deepest = 100;
constexpr int max_chosen = 64;

constexpr std::array<std::string_view, 6> declarations{"in", "num", "out", "colsum", "fn", "monoid"};

bool is_reducer(std::string_view word) { return std::ranges::find(enum_names<Reducer>, word) != enum_names<Reducer>.end(); }

std::string quoted(const Token& token) {
  if (token.kind == TokenKind::end_of_text) return "the end of the program";
  if (token.kind == TokenKind::end_of_statement) return token.text == ";" ? "';'" : "the end of the line";
  return "'" + std::string(token.text) + "'";
}

class Parser {
 public:
  explicit Parser(const SourceText& source) : source_(source), tokens_(tokens_of(source)) {}

  Syntax parse() {
    while (token().kind != TokenKind::end_of_text) {
      syntax_.statements.push_back(statement());
      if (token().kind != TokenKind::end_of_statement) fail_after_expression();
      ++at_;
    }
    return std::move(syntax_);
  }

 private:
  const Token& token() const { return tokens_[at_]; }
  bool is_symbol(std::string_view text) const { return token().kind == TokenKind::symbol && token().text == text; }
  bool skip(std::string_view symbol) {
    if (!is_symbol(symbol)) return false;
    ++at_;
    return true;
  }
  /// Fails at the current token; at the end of a line or of the text, after the last token.
  [[noreturn]] void fail(const std::string& message) const {
    source_.fail(token().kind >= TokenKind::end_of_statement && at_ > 0 ? end_of_last() : token().place, message);
  }
  Place end_of_last() const {
    const Token& last = tokens_[at_ - 1];
    return {last.place.line, last.place.column + static_cast<int>(last.text.size())};
  }
  /// Fails if the current token starts the statement of the next line, because this one ends with an operator.
  void check_same_statement(const std::string& what) const {
    const bool next_line =
        at_ > 0 && tokens_[at_ - 1].kind != TokenKind::end_of_statement && tokens_[at_ - 1].place.line < token().place.line;
    if (next_line && is_keyword(token().text) && tokens_[at_ + 1].text != "(")
      source_.fail(end_of_last(), "expected " + what + ", not the end of the line");
  }
  void expect(std::string_view symbol, const std::string& where) {
    if (!skip(symbol)) fail("expected '" + std::string(symbol) + "' " + where + ", not " + quoted(token()));
  }

  [[noreturn]] void fail_after_expression() const {
    const std::string_view text = token().text;
    if (text == "and") fail("'and' is not an operator; write '&&'");
    if (text == "or") fail("'or' is not an operator; write '||'");
    if (text == ")" || text == "]") fail("'" + std::string(text) + "' closes nothing that is open");
    if (text == "=") fail("a statement has one '='; a comparison is written '=='");
    if (text == "[") fail("values have no elements to choose; '[...]' follows a type or a reduction");
    fail("expected an operator or the end of the line, not " + quoted(token()));
  }

  Name name(const std::string& what) {
    check_same_statement(what);
    if (token().kind != TokenKind::name) fail("expected " + what + ", not " + quoted(token()));
    const Token& found = tokens_[at_++];
    return {found.text, found.place};
  }

  std::vector<Name> names(const std::string& what) {
    std::vector<Name> all;
    do all.push_back(name(what));
    while (skip(","));
    return all;
  }

  Statement statement() {
    if (token().kind != TokenKind::name)
      fail("a statement starts with a name or a keyword (in, num, out, colsum, fn, monoid, or a reduction), not with " +
           quoted(token()));
    const Token& next = tokens_[at_ + 1];
    const bool defines = next.kind == TokenKind::symbol && (next.text == "=" || next.text == ":");
    if (token().text == "in" && !defines) return input();
    if (token().text == "num" && !defines) return number();
    if ((token().text == "out" || token().text == "colsum") && !defines) return output();
    if (token().text == "fn" && !defines) return function();
    if (token().text == "monoid" && !defines) return monoid();
    if (is_reducer(token().text) && !defines) return reduction();
    if (!defines) fail_at_statement();
    return definition();
  }

  [[noreturn]] void fail_at_statement() const {
    const Token& next = tokens_[at_ + 1];
    if (next.kind != TokenKind::name)
      source_.fail(next.place, "expected '=' or ':' after '" + std::string(token().text) + "', not " + quoted(next));
    const std::vector<std::string_view> known = keywords();
    const std::string_view nearest = nearest_name(token().text, known);
    std::string message = "'" + std::string(token().text) + "' starts no statement";
    if (!nearest.empty()) message += "; did you mean '" + std::string(nearest) + "'?";
    std::string all;
    for (const std::string_view word : known) all += (all.empty() ? "" : ", ") + std::string(word);
    fail(message + (nearest.empty() ? "; allowed: " : " Allowed: ") + all + ", or name = expression");
  }

  Statement start(Statement::Form form) {
    Statement s;
    s.form = form;
    s.keyword = name("a keyword");
    return s;
  }

  Statement definition() {
    Statement s;
    s.names = {name("a name")};
    if (skip(":")) {
      s.type = name("a type such as bf16");
      if (is_symbol("[")) fail("a definition has no dimensions, which follow from its expression; write 'out' for an array");
    }
    assign(s, "after the name");
    return s;
  }

  void assign(Statement& s, const std::string& where) {
    expect("=", where);
    s.value_place = token().place;
    s.expressions = {expression()};
  }

  Statement input() {
    Statement s = start(Statement::Form::input);
    s.names = names("the name of an array");
    type_and_dimensions(s);
    if (is_symbol("=")) fail("an input has no value; write 'num' for a number with a default");
    return s;
  }

  void type_and_dimensions(Statement& s) {
    expect(":", "and a type such as bf16 after the name");
    s.type = name("a type such as bf16");
    if (!is_symbol("[")) fail("expected dimensions after the type: [row, col], [row], [col], [row, col/N], [row, k] or []");
    s.dimensions = dimensions();
  }

  Dimensions dimensions() {
    Dimensions d;
    d.place = token().place;
    expect("[", "");
    if (skip("]")) return d;
    const Name first = name("row or col");
    if (first.text == "col" && is_symbol("]")) d.kind = Kind::col;
    if (first.text == "row") d.kind = Kind::row;
    if (d.kind == Kind::scalar) source_.fail(d.place, allowed_dimensions);
    if (d.kind == Kind::row && is_symbol(",") && tokens_[at_ + 1].kind == TokenKind::number) {
      ++at_;
      d.kind = Kind::top;
      d.group = chosen();
    }
    if (d.kind == Kind::row && skip(",")) {
      const Name second = name("col");
      if (second.text != "col") source_.fail(d.place, allowed_dimensions);
      d.kind = Kind::full;
      if (skip("/")) {
        d.kind = Kind::group;
        d.group = group();
      }
    }
    if (!skip("]")) source_.fail(d.place, allowed_dimensions);
    return d;
  }

  int group() {
    if (token().kind != TokenKind::number) fail("expected a number of columns, not " + quoted(token()));
    const Token& number = tokens_[at_++];
    for (int size = 16; size <= 1024; size *= 2)
      if (number.number == size) return size;
    source_.fail(number.place,
                 "a group has " + std::string(number.text) + " columns; allowed: 16, 32, 64, 128, 256, 512, 1024");
  }

  /// Parses the number of columns that topk chooses.
  int chosen() {
    if (token().kind != TokenKind::number) fail("expected a number of columns, not " + quoted(token()));
    const Token& number = tokens_[at_++];
    if (number.number < 1 || number.number > max_chosen || number.number != static_cast<int>(number.number))
      source_.fail(number.place,
                   "topk chooses " + std::string(number.text) + " columns; allowed: 1 to " + std::to_string(max_chosen));
    return static_cast<int>(number.number);
  }

  Statement number() {
    Statement s = start(Statement::Form::number);
    s.names = names("the name of a number");
    if (skip(":")) {
      s.type = name("f32 or i32");
      if (is_symbol("[")) fail("a number has no dimensions; write 'in' for an array");
    }
    if (is_symbol("=")) assign(s, "");
    return s;
  }

  Statement output() {
    Statement s = start(Statement::Form::output);
    s.names = {name("the name of an array")};
    if (is_symbol(",")) fail("a statement defines one output");
    type_and_dimensions(s);
    assign(s, "and a value after the dimensions");
    return s;
  }

  Statement function() {
    Statement s = start(Statement::Form::function);
    s.names = {name("the name of a function")};
    s.parameters = parameters();
    assign(s, "after the parameters");
    return s;
  }

  std::vector<Name> parameters() {
    expect("(", "and parameters");
    std::vector<Name> all = names("the name of a parameter");
    expect(")", "after the parameters");
    return all;
  }

  /// Parses one of `(a, b)` and `a`.
  std::vector<Name> side() { return is_symbol("(") ? parameters() : std::vector<Name>{name("the name of a parameter")}; }

  Statement monoid() {
    Statement s = start(Statement::Form::monoid);
    s.names = {name("the name of a monoid")};
    expect("(", "and two lists of parameters: monoid name((a, b), (c, d)) = ...");
    s.parameters = side();
    const std::size_t count = s.parameters.size();
    expect(",", "between the two sides");
    const Place right_place = token().place;
    const std::vector<Name> right = side();
    if (right.size() != count)
      source_.fail(right_place, "the two sides have " + std::to_string(count) + " and " + std::to_string(right.size()) +
                                    " components; allowed: equal numbers");
    s.parameters.insert(s.parameters.end(), right.begin(), right.end());
    expect(")", "after the parameters");
    expect("=", "after the parameters");
    s.value_place = token().place;
    s.expressions = tuple(count);
    if (token().kind != TokenKind::name || token().text != "identity")
      fail("expected 'identity' and the value that changes nothing, not " + quoted(token()));
    ++at_;
    s.identity = tuple(count);
    return s;
  }

  /// Parses `count` expressions: in parentheses, unless it is one.
  std::vector<int> tuple(std::size_t count) {
    if (count == 1) return {expression()};
    const Place place = token().place;
    expect("(", "and " + std::to_string(count) + " components");
    std::vector<int> all = arguments();
    if (all.size() != count)
      source_.fail(place, std::to_string(all.size()) + " components; expected " + std::to_string(count));
    return all;
  }

  Statement reduction() {
    Statement s = start(Statement::Form::reduction);
    const bool chooses = s.keyword.text == "topk";
    if (is_symbol("[")) {
      Dimensions d{chooses ? Kind::top : Kind::group, 0, token().place};
      ++at_;
      d.group = chooses ? chosen() : group();
      expect("]", "after the number of columns");
      s.dimensions = d;
    }
    if (is_symbol("("))
      fail("a reduction is a statement: " + std::string(s.keyword.text) + " name = expression, and is used by its name");
    if (chooses && !s.dimensions) fail("expected a number of columns after 'topk': topk[8] value, column = x");
    s.names = names("the name of the result");
    if (is_symbol(":")) fail("a reduction has no type; round its result: y : bf16 = ...");
    expect("=", "after the name");
    s.value_place = token().place;
    if (s.keyword.text == "reduce") {
      s.called = name("the name of a monoid");
      expect("(", "after the name of the monoid");
      s.expressions = arguments();
    } else {
      s.expressions = {expression()};
      while (chooses && skip(",")) s.expressions.push_back(expression());
    }
    return s;
  }

  // Expressions.

  int add(Expression::Form form, const Token& token, std::vector<int> operands = {}) {
    int depth = 1;
    for (const int operand : operands)
      depth = std::max(depth, 1 + syntax_.expressions[static_cast<std::size_t>(operand)].depth);
    if (depth > deepest) fail_deep(token.place);
    syntax_.expressions.push_back({form, token.text, token.number, std::move(operands), depth, token.place});
    return static_cast<int>(syntax_.expressions.size()) - 1;
  }

  [[noreturn]] void fail_deep(Place place) const {
    source_.fail(place, "the expression has more than " + std::to_string(deepest) + " levels; name a part of it");
  }

  static int precedence(const Token& token) {
    if (token.kind != TokenKind::symbol) return 0;
    const std::string_view s = token.text;
    if (s == "||") return 1;
    if (s == "&&") return 2;
    if (s == "==" || s == "!=") return 3;
    if (s == "<" || s == "<=" || s == ">" || s == ">=") return 4;
    if (s == "+" || s == "-") return 5;
    if (s == "*" || s == "/") return 6;
    return 0;
  }

  int expression() {
    if (++open_ > deepest) fail_deep(token().place);
    int value = binary(1);
    if (is_symbol("?")) {
      const Token& question = tokens_[at_++];
      const int yes = expression();
      expect(":", "after the second part of '?'");
      const int no = expression();
      value = add(Expression::Form::operation, question, {value, yes, no});
    }
    --open_;
    return value;
  }

  int binary(int lowest) {
    int left = unary();
    for (int level = precedence(token()); level >= lowest && level > 0; level = precedence(token())) {
      const Token& sign = tokens_[at_++];
      const int right = binary(level + 1);
      left = add(Expression::Form::operation, sign, {left, right});
    }
    return left;
  }

  int unary() {
    if (is_symbol("+")) fail("there is no unary '+'");
    if (!is_symbol("-") && !is_symbol("!")) return primary();
    if (++open_ > deepest) fail_deep(token().place);
    const Token& sign = tokens_[at_++];
    const int operand = unary();
    --open_;
    return add(Expression::Form::operation, sign, {operand});
  }

  int primary() {
    const Token& first = token();
    if (first.kind == TokenKind::number) {
      ++at_;
      return add(Expression::Form::number, first);
    }
    if (skip("(")) {
      const int value = expression();
      expect(")", "to close '('");
      return value;
    }
    if (first.kind != TokenKind::name) {
      if (first.text == "*" && at_ > 0 && tokens_[at_ - 1].text == "*") fail("there is no operator '**'; write x * x");
      fail("expected a value, not " + quoted(first));
    }
    if (first.text == "not") fail("'not' is not an operator; write '!'");
    check_same_statement("a value");
    if (is_keyword(first.text) && tokens_[at_ + 1].text != "(")
      fail("expected a value, not '" + std::string(first.text) + "', which starts a statement");
    ++at_;
    if (!skip("(")) return add(Expression::Form::name, first);
    return add(Expression::Form::call, first, arguments());
  }

  /// Parses what follows the opening parenthesis.
  std::vector<int> arguments() {
    std::vector<int> all;
    if (skip(")")) return all;
    do all.push_back(expression());
    while (skip(","));
    expect(")", "or ',' after an argument");
    return all;
  }

  static constexpr const char* allowed_dimensions =
      "allowed dimensions: [row, col], [row], [col], [row, col/N], [row, k] for a number k, or []";

  SourceText source_;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int open_ = 0;
  Syntax syntax_;
};

}  // namespace

bool is_keyword(std::string_view word) {
  return std::ranges::find(declarations, word) != declarations.end() || is_reducer(word);
}

std::vector<std::string_view> keywords() {
  std::vector<std::string_view> all(declarations.begin(), declarations.end());
  all.insert(all.end(), enum_names<Reducer>.begin(), enum_names<Reducer>.end());
  return all;
}

Syntax syntax_of(const SourceText& source) { return Parser(source).parse(); }

}  // namespace tunesmith::row_program
