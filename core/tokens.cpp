#include "core/tokens.h"

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/hash.h"

namespace tunesmith {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
// Bytes above 0x7f are parts of UTF-8 sequences, which identifiers may contain.
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool is_name(char c) { return is_name_start(c) || is_digit(c); }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\v' || c == '\f' || c == '\r'; }

constexpr std::array<std::string_view, 4> raw_prefixes{"LR", "uR", "UR", "u8R"};

// Longest first. Digraphs such as "<:" and operators split by a line continuation count as two tokens.
constexpr std::array<std::string_view, 27> operators{"<<=", ">>=", "<=>", "->*", "...", "::", "->", ".*", "++",
                                                     "--",  "<<",  ">>",  "<=",  ">=",  "==", "!=", "&&", "||",
                                                     "+=",  "-=",  "*=",  "/=",  "%=",  "&=", "|=", "^=", "##"};

class Lexer {
 public:
  explicit Lexer(std::string_view source) : source_(source) { tokens_.reserve(source.size() / 2); }

  std::string run() {
    while (skip_blanks()) {
      if (source_[at_] == '\n')
        end_line();
      else
        take_token();
    }
    end_line();
    return std::move(tokens_);
  }

 private:
  bool done() const { return at_ >= source_.size(); }
  bool starts_with(std::string_view text) const { return source_.substr(at_).starts_with(text); }
  char next(std::size_t ahead) const { return at_ + ahead < source_.size() ? source_[at_ + ahead] : '\0'; }

  /// The length of a backslash with the line break that it removes; 0 elsewhere.
  std::size_t continuation(std::size_t at) const {
    if (at >= source_.size() || source_[at] != '\\') return 0;
    if (source_.substr(at + 1, 1) == "\n") return 2;
    return source_.substr(at + 1, 2) == "\r\n" ? 3 : 0;
  }

  /// Stops at a token or a line break; false at the end of the source.
  bool skip_blanks() {
    while (!done()) {
      if (const std::size_t spliced = continuation(at_); spliced > 0) {
        at_ += spliced;
      } else if (is_blank(source_[at_])) {
        ++at_;
      } else if (starts_with("//")) {
        while (!done() && source_[at_] != '\n') at_ += std::max<std::size_t>(1, continuation(at_));
      } else if (starts_with("/*")) {
        const std::size_t end = source_.find("*/", at_ + 2);
        at_ = end == std::string_view::npos ? source_.size() : end + 2;
      } else {
        return true;
      }
      follows_blank_ = true;
    }
    return false;
  }

  void end_line() {
    if (in_directive_) {
      tokens_ += '\n';
      if (std::string_view(tokens_).substr(directive_).starts_with("#\nline\n")) tokens_.resize(directive_);
    }
    in_directive_ = false;
    at_line_start_ = true;
    follows_blank_ = true;
    if (!done()) ++at_;
  }

  void take_token() {
    const char c = source_[at_];
    if (c == '#' && at_line_start_) {
      in_directive_ = true;
      directive_ = tokens_.size();
      tokens_in_directive_ = 0;
    }
    // "#define F(x)" has parameters, "#define F (x)" has none.
    if (c == '(' && in_directive_ && tokens_in_directive_ == 3 && follows_blank_ && defines()) tokens_ += ' ';
    at_line_start_ = false;
    if (c == '"' || c == '\'')
      take_literal();
    else if (is_digit(c) || (c == '.' && is_digit(next(1))))
      take_number();
    else if (is_name_start(c))
      take_name();
    else
      take_operator();
    tokens_ += '\n';
    ++tokens_in_directive_;
    follows_blank_ = false;
  }

  bool defines() const { return std::string_view(tokens_).substr(directive_).starts_with("#\ndefine\n"); }

  void take(std::size_t length) {
    tokens_ += source_.substr(at_, length);
    at_ += length;
  }

  /// Takes characters while `belongs` accepts them, joined over line continuations.
  template <typename Belongs>
  void take_while(const Belongs& belongs) {
    while (!done()) {
      if (const std::size_t spliced = continuation(at_); spliced > 0)
        at_ += spliced;
      else if (belongs(source_[at_]))
        take(1);
      else
        return;
    }
  }

  void take_name() {
    const std::size_t start = tokens_.size();
    take_while(is_name);
    if (done() || (source_[at_] != '"' && source_[at_] != '\'')) return;
    const std::string_view name = std::string_view(tokens_).substr(start);
    const bool is_raw = name == "R" || std::ranges::find(raw_prefixes, name) != raw_prefixes.end();
    if (is_raw && source_[at_] == '"')
      take_raw_literal();
    else if (name == "L" || name == "u" || name == "U" || name == "u8")
      take_literal();
  }

  /// A preprocessing number: 1e-5f, 0x1p+3, 1'000.
  void take_number() {
    char last = '\0';
    take_while([&](char c) {
      const bool is_sign = (c == '+' || c == '-') && (last == 'e' || last == 'E' || last == 'p' || last == 'P');
      const bool belongs = is_name(c) || c == '.' || c == '\'' || is_sign;
      last = c;
      return belongs;
    });
  }

  void take_literal() {
    const char quote = source_[at_];
    take(1);
    while (!done() && source_[at_] != '\n') {
      if (const std::size_t spliced = continuation(at_); spliced > 0) {
        at_ += spliced;
      } else if (source_[at_] == '\\') {
        take(2);
      } else {
        const bool is_end = source_[at_] == quote;
        take(1);
        if (is_end) break;
      }
    }
    // A suffix such as "x"sv belongs to the literal.
    take_while(is_name);
  }

  void take_raw_literal() {
    const std::size_t open = source_.find('(', at_);
    if (open == std::string_view::npos) return take(source_.size() - at_);
    const std::string end = ")" + std::string(source_.substr(at_ + 1, open - at_ - 1)) + "\"";
    const std::size_t close = source_.find(end, open);
    take(close == std::string_view::npos ? source_.size() - at_ : close + end.size() - at_);
    take_while(is_name);
  }

  void take_operator() {
    for (const std::string_view text : operators)
      if (starts_with(text)) return take(text.size());
    take(1);
  }

  const std::string_view source_;
  std::size_t at_ = 0;
  std::string tokens_;
  bool at_line_start_ = true, follows_blank_ = true, in_directive_ = false;
  std::size_t directive_ = 0;    // where the current directive starts in tokens_
  int tokens_in_directive_ = 0;  // so far
};

}  // namespace

std::string tokens_of(std::string_view source) { return Lexer(source).run(); }

std::string token_digest(std::string_view source) { return hash_hex(tokens_of(source)); }

}  // namespace tunesmith
