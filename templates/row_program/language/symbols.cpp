#include "templates/row_program/language/symbols.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "core/nearest.h"
#include "templates/row_program/language/functions.h"

namespace tunesmith::row_program {
namespace {

constexpr std::array<std::string_view, 10> values{"row", "col", "rows", "cols", "rank", "inf", "nan", "pi", "true", "false"};
constexpr std::array<std::string_view, 4> more_functions{"select", "uniform", "scatter", "float"};

// Names of other languages.
constexpr std::array<std::pair<std::string_view, std::string_view>, 26> synonyms{{
    {"int8", "i8"},      {"int32", "i32"},    {"int", "i32"},        {"half", "f16"},      {"float16", "f16"},
    {"float32", "f32"},  {"double", "f64"},   {"float64", "f64"},    {"bfloat16", "bf16"}, {"fp8", "e4m3"},
    {"e4m3fn", "e4m3"},  {"boolean", "bool"}, {"maximum", "max"},    {"minimum", "min"},   {"fabs", "abs"},
    {"where", "select"}, {"rand", "uniform"}, {"random", "uniform"}, {"infinity", "inf"},  {"NaN", "nan"},
    {"INFINITY", "inf"}, {"NAN", "nan"},      {"PI", "pi"},          {"True", "true"},     {"False", "false"},
    {"swish", "silu"},
}};

bool contains(const auto& names, std::string_view name) { return std::ranges::find(names, name) != names.end(); }

}  // namespace

std::optional<Type> type_of(std::string_view name) {
  const auto found = std::ranges::find(enum_names<Type>, name);
  if (found == enum_names<Type>.end()) return std::nullopt;
  return static_cast<Type>(found - enum_names<Type>.begin());
}

std::string type_list() {
  std::string all = "float";
  for (const std::string_view type : enum_names<Type>) all += ", " + std::string(type);
  return all;
}

std::string did_you_mean(std::string_view word, std::span<const std::string_view> known) {
  std::string_view nearest = nearest_name(word, known);
  for (const auto& [other, own] : synonyms)
    if (other == word && contains(known, own)) nearest = own;
  if (nearest.empty() || (word.size() == 1 && nearest.size() == 1)) return "";
  return "; did you mean '" + std::string(nearest) + "'?";
}

bool is_reserved(std::string_view word) {
  return is_keyword(word) || contains(values, word) || contains(more_functions, word) || type_of(word) ||
         find_function(word) != nullptr || word == "identity" || word == "and" || word == "or" || word == "not";
}

std::vector<std::string_view> words_of_the_language() {
  std::vector<std::string_view> words = keywords();
  for (const Function& function : functions()) words.push_back(function.name);
  words.insert(words.end(), more_functions.begin(), more_functions.end());
  words.insert(words.end(), values.begin(), values.end());
  words.insert(words.end(), enum_names<Type>.begin(), enum_names<Type>.end());
  words.emplace_back("identity");
  return words;
}

Symbols::Symbols(const SourceText& source, const Syntax& syntax) : source_(source) {
  for (const Statement& statement : syntax.statements)
    for (const Name& name : statement.names) later_.try_emplace(name.text, name.place);
}

void Symbols::define(const Name& name, Symbol::Form form, int index) {
  const std::string quoted = "'" + std::string(name.text) + "'";
  if (is_reserved(name.text)) source_.fail(name.place, quoted + " has a meaning in the language; choose another name");
  const auto [found, is_new] = defined_.try_emplace(name.text, Symbol{form, index, name.place});
  if (!is_new)
    source_.fail(name.place, quoted + " is defined already, in line " + std::to_string(found->second.place.line) +
                                 "; choose another name");
}

void Symbols::fail_unknown(const Name& name, bool as_function) const {
  const std::string quoted = "'" + std::string(name.text) + "'";
  if (const auto later = later_.find(name.text); later != later_.end())
    source_.fail(name.place, quoted + " is used before its definition in line " + std::to_string(later->second.line));
  if (is_keyword(name.text) && !as_function) source_.fail(name.place, quoted + " starts a statement and is not a value");
  if (as_function && contains(values, name.text)) source_.fail(name.place, quoted + " is a value, not a function");
  std::vector<std::string_view> known;
  for (const auto& [defined, symbol] : defined_) known.push_back(defined);
  if (as_function) {
    for (const Function& function : functions()) known.push_back(function.name);
    known.insert(known.end(), more_functions.begin(), more_functions.end());
    known.insert(known.end(), enum_names<Type>.begin(), enum_names<Type>.end());
    if (is_keyword(name.text))
      source_.fail(name.place, quoted + " is a statement, not a function; write '" + std::string(name.text) +
                                   " name = expression' in a line of its own");
  } else {
    known.insert(known.end(), values.begin(), values.end());
  }
  const std::string nearest = did_you_mean(name.text, known);
  std::string message = quoted + " is not defined" + nearest;
  if (nearest.empty() && as_function) {
    message += "; functions: ";
    for (const Function& function : functions()) message += std::string(function.name) + ", ";
    message += "select, uniform, scatter, and casts to a type";
  }
  source_.fail(name.place, message);
}

const Symbol& Symbols::use(const Name& name, bool as_function) {
  const auto found = defined_.find(name.text);
  if (found == defined_.end()) fail_unknown(name, as_function);
  if (found->second.form == Symbol::Form::sum_over_rows)
    source_.fail(name.place,
                 "'" + std::string(name.text) +
                     "' is a sum over rows, which is known after the last row; a value can only depend on its row");
  found->second.used = true;
  return found->second;
}

}  // namespace tunesmith::row_program
