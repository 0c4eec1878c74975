#pragma once
// A user's text as far as it must be understood on the host: where its function is, and what the compiler would not say
// well. Internal to templates/.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace tunesmith::attention {

/// Text that defines a function. Both strings must outlive it.
class SourceReader {
 public:
  /// `function`: its name; `signature`: for messages. Throws Error(invalid_argument) where a comment is never closed.
  SourceReader(std::string_view function, std::string_view signature, const std::string& text);

  /// The line in which the function is declared first. Throws Error(invalid_argument) when it is not.
  int line_of_function() const;
  /// Throws Error(invalid_argument) for brackets that would end in the wrong place.
  void check_brackets() const;
  /// Whether the function may look at its int parameter number `index` of `count`. What is not certain is taken for so: the
  /// parameter's name occurs in the code again, the function is declared twice, there are directives, ...
  bool may_use(std::size_t index, std::size_t count) const;

 private:
  int line_at(std::size_t at) const;
  [[noreturn]] void fail(std::size_t at, const std::string& what) const;
  void blank_from(std::size_t begin, std::size_t end);
  void blank();
  /// Where the function's name stands before a bracket.
  std::vector<std::size_t> places_of_function() const;
  /// How often it occurs as a word.
  std::size_t count_of(std::string_view word) const;
  /// Whether words may be there, or come to be there, that cannot be seen.
  bool may_hide_words() const;

  const std::string_view function_, signature_;
  const std::string& text_;
  std::string code_;  ///< with blanks for comments and literals
};

}  // namespace tunesmith::attention
