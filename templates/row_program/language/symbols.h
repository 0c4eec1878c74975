#pragma once
// The names that a program defines. Internal to templates/.

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "templates/row_program/language/syntax.h"

namespace tunesmith::row_program {

/// Returns a name as messages show it.
inline std::string quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

struct Symbol {
  enum class Form : std::uint8_t { value, function, monoid, sum_over_rows };
  Form form = Form::value;
  int index = -1;  ///< a node, a statement, or a monoid; of an output `colsum`, which is no value: -1
  Place place;
  bool used = false;
};

class Symbols {
 public:
  explicit Symbols(const SourceText& source, const Syntax& syntax);

  /// Throws if the name is reserved or defined already.
  void define(const Name& name, Symbol::Form form, int index);
  /// Returns the symbol and marks it as used. Throws for a name that is not defined, with the nearest one, and for a sum
  /// over rows.
  const Symbol& use(const Name& name, bool as_function = false);
  bool is_used(std::string_view name) const { return defined_.at(name).used; }

 private:
  [[noreturn]] void fail_unknown(const Name& name, bool as_function) const;

  const SourceText& source_;
  std::map<std::string_view, Symbol> defined_;
  std::map<std::string_view, Place> later_;  ///< first definition of each name of the text
};

/// Returns the element type of this name; empty for other words, "float" included.
std::optional<Type> type_of(std::string_view name);
/// Reports whether the language gives the word a meaning, so that a program cannot define it.
bool is_reserved(std::string_view word);
/// Returns every word that has a meaning: keywords, functions, values and types. Some occur twice, such as max.
std::vector<std::string_view> words_of_the_language();
/// Returns all types, comma-separated, for messages.
std::string type_list();
/// Returns `; did you mean 'sqrt'?` with the known name that is nearest, or that means the same in other languages; empty if
/// there is none.
std::string did_you_mean(std::string_view word, std::span<const std::string_view> known);

}  // namespace tunesmith::row_program
