#pragma once
// Finds the function in a user source, and mistakes that the compiler would report badly. Internal to templates/.

#include <cstddef>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace tunesmith::attention {

/// A source that defines a function. Both strings must outlive it.
class SourceReader {
 public:
  /// `function`: its name; `signature`: for messages. Throws Error(invalid_argument) for a comment that is not closed.
  SourceReader(std::string_view function, std::string_view signature, const std::string& text);

  /// Returns the line of the function's first declaration. Throws Error(invalid_argument) if there is none.
  int line_of_function() const;
  /// Throws Error(invalid_argument) for brackets that do not match.
  void check_brackets() const;
  /// Returns whether the function may use its int parameter number `index` of `count`. False is certain: the name does not
  /// occur again, the function is declared once, there are no directives, ...
  bool may_use(std::size_t index, std::size_t count) const;
  /// Returns whether the word occurs in code.
  bool has_word(std::string_view word) const { return count_of(word) > 0; }
  /// Returns the names that follow a word "define" or "undef": all macros that the source may change.
  std::set<std::string> macros() const;
  /// Returns whether there is a cast to a pointer or a reference to integers, such as "(unsigned&)".
  bool has_cast_of_address() const;

 private:
  int line_at(std::size_t at) const;
  [[noreturn]] void fail(std::size_t at, const std::string& what) const;
  void blank_from(std::size_t begin, std::size_t end);
  void blank();
  /// Returns the offsets of the function's name before a bracket.
  std::vector<std::size_t> places_of_function() const;
  /// Counts whole words.
  std::size_t count_of(std::string_view word) const;
  /// Returns whether the compiler may see words that are not visible here.
  bool may_hide_words() const;

  const std::string_view function_, signature_;
  const std::string& text_;
  std::string code_;  ///< comments and literals are blank
};

}  // namespace tunesmith::attention
