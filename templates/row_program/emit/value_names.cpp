#include "templates/row_program/emit/value_names.h"

#include <set>

namespace tunesmith::row_program {
namespace {

/// Words that a value must not be named: of C++, and of the generated functions.
const std::set<std::string>& reserved_words() {
  static const std::set<std::string> words{
      "alignas", "alignof", "and", "asm", "auto", "bool", "break", "case", "catch", "char", "class", "const", "constexpr",
      "continue", "decltype", "default", "delete", "do", "double", "else", "enum", "explicit", "export", "extern", "false",
      "float", "for", "friend", "goto", "if", "inline", "int", "long", "mutable", "namespace", "new", "not", "nullptr",
      "operator", "or", "private", "protected", "public", "register", "return", "short", "signed", "sizeof", "static",
      "struct", "switch", "template", "this", "throw", "true", "try", "typedef", "typename", "union", "unsigned", "using",
      "virtual", "void", "volatile", "while", "xor", "concept", "requires", "params", "values", "groups", "partial", "terms",
      "results", "v", "j", "row", "group", "other", "tunesmith", "absolute", "add", "divide", "multiply", "subtract",
      "rounded", "sigmoid", "logarithm", "f16", "bf16", "e4m3", "e5m2", "i8", "i32", "unix", "linux", "signbit", "OfStage",
      "Params", "uint16", "uint32", "int64", "uint64", "Program", "Values", "Groups", "Divisor", "NormalDivisor",
      "ExponentialOfDifference",
      // Functions that the generated code calls, and macros.
      "exponential", "exponential_of_rounded", "exponential_of_difference", "exponential2", "logarithm_of_one_plus",
      "hyperbolic_tangent", "error_function", "square_root", "reciprocal_sqrt", "round_down", "round_to_integer",
      "integer_of", "integer_of_number", "number_with", "DoubleDivisor", "double_of", "minimum_or_nan", "maximum_or_nan",
      "uniform_number", "load_value", "load_integer", "store_value", "store_integer", "float_of", "derive", "outputs",
      "group_terms", "derive_group", "OfGather", "column_to_gather", "gather", "rank", "columns_chosen", "NULL", "NAN",
      "INFINITY", "EOF"};
  return words;
}

}  // namespace

ValueNames names_of(const Program& program) {
  ValueNames names;
  std::set<std::string> taken = reserved_words();
  const auto add = [&](std::vector<std::string>& list, std::string name) {
    while (!taken.insert(name).second) name += '_';
    list.push_back(name);
  };
  for (std::size_t i = 0; i < program.nodes.size(); ++i) {
    const Node& node = program.nodes[i];
    std::string name = node.name;
    if (name.empty() && node.operation == Operation::input) name = program.inputs[static_cast<std::size_t>(node.index)].name;
    add(names.values, name.empty() ? "v" + std::to_string(i) : name);
  }
  for (std::size_t i = 0; i < program.nodes.size(); ++i) add(names.divisors, "by_" + names.values[i]);
  for (std::size_t i = 0; i < program.nodes.size(); ++i) add(names.exponentials, "exp_minus_" + names.values[i]);
  for (std::size_t i = 0; i < program.nodes.size(); ++i) add(names.partials, "chosen_" + names.values[i]);
  return names;
}

}  // namespace tunesmith::row_program
