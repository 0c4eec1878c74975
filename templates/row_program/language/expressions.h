#pragma once
// Checks expressions and adds them to a graph. Internal to templates/.

#include <map>
#include <string_view>

#include "templates/row_program/language/graph.h"
#include "templates/row_program/language/symbols.h"

namespace tunesmith::row_program {

/// Checks the expressions of one program or of one monoid.
class Expressions {
 public:
  using Locals = std::map<std::string_view, int>;
  static constexpr const char* mixed_kinds =
      "values [row, k] and values of columns do not combine; reduce one of them, or write scatter(column, value)";

  /// In a monoid, `globals` is false: values of the program and built-in values that vary are not allowed.
  Expressions(const SourceText& source, const Syntax& syntax, Symbols& symbols, Graph& graph, bool globals)
      : source_(source), syntax_(syntax), symbols_(symbols), graph_(graph), globals_(globals) {}

  /// Adds the expression and returns its node. Throws Error(invalid_argument) for unknown names and wrong types.
  int make(int expression, const Locals* locals = nullptr);
  /// Does the same for an expression that must not be a boolean.
  int make_number(int expression, const std::string& what, const Locals* locals = nullptr);

 private:
  int name(const Expression& e, const Locals* locals);
  int call(const Expression& e, const Locals* locals);
  int user_function(const Expression& e, const Locals* locals);
  int cast(const Expression& e, const Locals* locals);
  int choose(const Expression& e, const Locals* locals, const std::string& what);
  int uniform(const Expression& e, const Locals* locals);
  int scatter(const Expression& e, const Locals* locals);
  int operation(const Expression& e, const Locals* locals);
  bool is_boolean(int node) const { return graph_[node].type == Type::boolean; }
  const Expression& at(int expression) const { return syntax_.expressions[static_cast<std::size_t>(expression)]; }
  void check_arguments(const Expression& e, std::size_t expected) const;
  void check_number(int node, int expression, const std::string& what) const;
  void check_condition(int node, int expression, const std::string& what) const;

  const SourceText& source_;
  const Syntax& syntax_;
  Symbols& symbols_;
  Graph& graph_;
  bool globals_;
  int visited_ = 0, calls_ = 0;
};

}  // namespace tunesmith::row_program
