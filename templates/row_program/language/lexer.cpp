#include "templates/row_program/language/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>

#include "core/utf8.h"

namespace tunesmith::row_program {
namespace {

constexpr std::size_t largest_text = std::size_t{64} << 10;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool continues_name(char c) { return starts_name(c) || is_digit(c); }

class Lexer {
 public:
  explicit Lexer(const SourceText& source)
      : source_(source), text_(source.text), at_(text_.size() - without_mark(text_).size()), line_begin_(at_) {}

  std::vector<Token> tokens() {
    if (text_.size() > largest_text)
      source_.fail({1, 1}, "the program has " + std::to_string(text_.size()) + " bytes; allowed: up to " +
                               std::to_string(largest_text));
    while (at_ < text_.size()) read();
    end_statement(1);
    tokens_.push_back({TokenKind::end_of_text, {}, 0, place()});
    const bool wide = std::ranges::find(tokens_, "f64", &Token::text) != tokens_.end();
    for (const Token& token : tokens_)
      if (token.kind == TokenKind::number) check_range(token, wide);
    return std::move(tokens_);
  }

 private:
  Place place() const { return {line_, static_cast<int>(at_ - line_begin_) + 1}; }
  char next(std::size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  void add(TokenKind kind, std::size_t length, double number = 0) {
    tokens_.push_back({kind, text_.substr(at_, length), number, place()});
    at_ += length;
  }

  bool continues() const {
    if (open_brackets_ > 0) return true;
    if (tokens_.empty() || tokens_.back().kind != TokenKind::symbol) return false;
    return tokens_.back().text != ")" && tokens_.back().text != "]";
  }

  void end_statement(std::size_t length) {
    if (!tokens_.empty() && tokens_.back().kind != TokenKind::end_of_statement)
      tokens_.push_back({TokenKind::end_of_statement, text_.substr(std::min(at_, text_.size()), length), 0, place()});
  }

  void read() {
    const char c = text_[at_];
    if (c == '\n') {
      if (!continues()) end_statement(1);
      ++at_;
      ++line_;
      line_begin_ = at_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++at_;
    } else if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == ';') {
      end_statement(1);
      ++at_;
    } else if (starts_name(c)) {
      std::size_t length = 1;
      while (continues_name(next(length))) ++length;
      add(TokenKind::name, length);
    } else if (is_digit(c) || (c == '.' && is_digit(next(1)))) {
      read_number();
    } else {
      read_symbol();
    }
  }

  void read_number() {
    double value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    auto length = static_cast<std::size_t>(end - begin);
    std::size_t all = length;
    while (continues_name(next(all)) || next(all) == '.') ++all;
    const std::string number(text_.substr(at_, all));
    if (all > length || length == 0)
      source_.fail(place(), "'" + number + "' is not a number; write one as 12, 0.5 or 1e-6, without a suffix");
    if (error == std::errc::result_out_of_range) value = HUGE_VAL;
    add(TokenKind::number, length, value);
  }

  /// `wide`: the program names f64.
  void check_range(const Token& token, bool wide) const {
    const auto narrow = static_cast<float>(token.number);
    if (std::isfinite(token.number) && (wide || (std::isfinite(narrow) && (narrow != 0 || token.number == 0)))) return;
    source_.fail(token.place, std::string(token.text) + " is not a number of " + (wide ? "f64" : "f32") +
                                  "; allowed: 0, and " + (wide ? "4.9e-324 to 1.8e308" : "1.4e-45 to 3.4e38") +
                                  "; infinity is 'inf'");
  }

  void read_symbol() {
    constexpr std::array<std::string_view, 6> pairs{"<=", ">=", "==", "!=", "&&", "||"};
    const std::string_view two = text_.substr(at_, 2);
    for (const std::string_view pair : pairs)
      if (two == pair) return add(TokenKind::symbol, 2);
    const char c = text_[at_];
    if (std::string_view("()[],:=+-*/?<>!").find(c) == std::string_view::npos) fail_at_character(c);
    if (c == '(' || c == '[') ++open_brackets_;
    if ((c == ')' || c == ']') && open_brackets_ > 0) --open_brackets_;
    add(TokenKind::symbol, 1);
  }

  [[noreturn]] void fail_at_character(char c) const {
    const bool printable = c > ' ' && c < 127;
    const bool control = static_cast<unsigned char>(c) < ' ' || c == 127;
    std::string message = printable ? std::string("'") + c + "' is not part of the language"
                          : control ? "a control character of code " + std::to_string(static_cast<int>(c))
                                    : "not an ASCII character";
    if (c == '&') message += "; write '&&'";
    if (c == '|') message += "; write '||'";
    if (c == '%' || c == '^') message += "; operators: + - * / < <= > >= == != && || ! ?:";
    if (c == '{' || c == '}' || c == '"' || c == '\'') message += "; statements are lines of the form 'name = expression'";
    source_.fail(place(), message);
  }

  SourceText source_;
  std::string_view text_;
  std::size_t at_, line_begin_;
  int line_ = 1;
  int open_brackets_ = 0;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> tokens_of(const SourceText& source) { return Lexer(source).tokens(); }

}  // namespace tunesmith::row_program
