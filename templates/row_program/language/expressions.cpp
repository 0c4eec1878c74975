#include "templates/row_program/language/expressions.h"

#include <cmath>
#include <numbers>
#include <string>

#include "templates/row_program/language/functions.h"

namespace tunesmith::row_program {
namespace {

constexpr int max_visited = 100000;

std::string count_of(std::size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

int Expressions::make(int expression, const Locals* locals) {
  const Expression& e = at(expression);
  if (++visited_ > max_visited || graph_.nodes().size() > Graph::max_nodes)
    source_.fail(e.place, "the program has more than " + std::to_string(Graph::max_nodes) + " operations");
  int node = -1;
  switch (e.form) {
    case Expression::Form::number: return graph_.constant(e.number);
    case Expression::Form::name: return name(e, locals);
    case Expression::Form::call: node = call(e, locals); break;
    case Expression::Form::operation: node = operation(e, locals); break;
  }
  if (graph_.has_mixed_kinds()) source_.fail(e.place, mixed_kinds);
  return node;
}

int Expressions::make_number(int expression, const std::string& what, const Locals* locals) {
  const int node = make(expression, locals);
  check_number(node, expression, what);
  return node;
}

void Expressions::check_number(int node, int expression, const std::string& what) const {
  if (!is_boolean(node)) return;
  const Expression& e = at(expression);
  const bool compares = e.form == Expression::Form::operation && (e.text[0] == '<' || e.text[0] == '>');
  if (compares && (what == "'<'" || what == "'<='" || what == "'>'" || what == "'>='"))
    source_.fail(e.place, "comparisons cannot be chained; write a < b && b < c");
  source_.fail(e.place, what + " takes a number, not a boolean; write select(condition, 1, 0)");
}

void Expressions::check_condition(int node, int expression, const std::string& what) const {
  if (!is_boolean(node))
    source_.fail(at(expression).place, what + " takes a boolean, not a number; write a comparison such as x != 0");
}

int Expressions::name(const Expression& e, const Locals* locals) {
  if (locals != nullptr)
    if (const auto found = locals->find(e.text); found != locals->end()) return found->second;
  if (e.text == "inf") return graph_.constant(HUGE_VAL);
  if (e.text == "nan") return graph_.constant(std::nan(""));
  if (e.text == "pi") return graph_.constant(std::numbers::pi);
  if (e.text == "true" || e.text == "false") return graph_.constant(e.text == "true" ? 1 : 0, Type::boolean);
  const bool built_in = e.text == "row" || e.text == "col" || e.text == "rows" || e.text == "cols" || e.text == "rank";
  if (built_in && !globals_) source_.fail(e.place, "a monoid uses only its parameters and constants, not " + quoted(e.text));
  if (e.text == "row") return graph_.leaf(Operation::row_index, Kind::row, Type::i32);
  if (e.text == "col") return graph_.leaf(Operation::col_index, Kind::col, Type::i32);
  if (e.text == "rows") return graph_.leaf(Operation::rows, Kind::scalar, Type::i32);
  if (e.text == "cols") return graph_.leaf(Operation::cols, Kind::scalar, Type::i32);
  if (e.text == "rank") {
    graph_.set_place(e.place);
    return graph_.leaf(Operation::rank, Kind::top, Type::i32);
  }
  if (find_function(e.text) != nullptr || e.text == "select" || e.text == "uniform" || e.text == "scatter" ||
      e.text == "float" || type_of(e.text))
    source_.fail(e.place, quoted(e.text) + " is a function; its arguments follow in parentheses");
  const Symbol& symbol = symbols_.use({e.text, e.place});
  if (symbol.form == Symbol::Form::function)
    source_.fail(e.place, quoted(e.text) + " is a function; its arguments follow in parentheses");
  if (symbol.form == Symbol::Form::monoid)
    source_.fail(e.place, quoted(e.text) + " is a monoid; write 'reduce name = " + std::string(e.text) + "(...)'");
  if (!globals_) source_.fail(e.place, "a monoid uses only its parameters and constants, not " + quoted(e.text));
  return symbol.index;
}

void Expressions::check_arguments(const Expression& e, std::size_t expected) const {
  if (e.operands.size() != expected)
    source_.fail(e.place, quoted(e.text) + " has " + count_of(e.operands.size(), "argument") + "; expected " +
                              std::to_string(expected));
}

int Expressions::call(const Expression& e, const Locals* locals) {
  if (type_of(e.text) || e.text == "float") return cast(e, locals);
  if (e.text == "select") {
    check_arguments(e, 3);
    return choose(e, locals, "'select'");
  }
  if (e.text == "uniform") return uniform(e, locals);
  if (e.text == "scatter") return scatter(e, locals);
  if (locals != nullptr && locals->contains(e.text))
    source_.fail(e.place, quoted(e.text) + " is a parameter, not a function");
  const Function* const function = find_function(e.text);
  if (function == nullptr) return user_function(e, locals);
  check_arguments(e, function->arguments);
  std::vector<int> arguments;
  for (const int operand : e.operands) arguments.push_back(make_number(operand, quoted(e.text), locals));
  graph_.set_place(e.place);
  return function->make(graph_, arguments);
}

int Expressions::user_function(const Expression& e, const Locals* locals) {
  const Symbol& symbol = symbols_.use({e.text, e.place}, true);
  if (symbol.form == Symbol::Form::value) source_.fail(e.place, quoted(e.text) + " is a value, not a function");
  if (symbol.form == Symbol::Form::monoid)
    source_.fail(e.place, quoted(e.text) + " is a monoid; write 'reduce name = " + std::string(e.text) + "(...)'");
  const Statement& definition = syntax_.statements[static_cast<std::size_t>(symbol.index)];
  check_arguments(e, definition.parameters.size());
  Locals arguments;
  for (std::size_t i = 0; i < e.operands.size(); ++i)
    arguments.emplace(definition.parameters[i].text, make(e.operands[i], locals));
  if (++calls_ > 64) source_.fail(e.place, "calls are nested more than 64 deep");
  const int result = make(definition.expressions[0], &arguments);
  --calls_;
  return result;
}

int Expressions::cast(const Expression& e, const Locals* locals) {
  check_arguments(e, 1);
  const int value = make(e.operands[0], locals);
  graph_.set_place(e.place);
  if (e.text == "float") return graph_.round_to_problem_dtype(graph_.cast(value, Type::f32));
  const Type type = *type_of(e.text);
  if (type == Type::boolean && !is_boolean(value))
    source_.fail(e.place, "a number cannot be cast to bool; write a comparison such as x != 0");
  return graph_.cast(value, type);
}

int Expressions::choose(const Expression& e, const Locals* locals, const std::string& what) {
  const int condition = make(e.operands[0], locals), yes = make(e.operands[1], locals), no = make(e.operands[2], locals);
  if (!is_boolean(condition)) check_condition(condition, e.operands[0], "the condition of " + what);
  if (is_boolean(yes) != is_boolean(no))
    source_.fail(e.place, what + " chooses between a number and a boolean; both must be of one type");
  graph_.set_place(e.place);
  return graph_.apply(Operation::select, condition, yes, no);
}

int Expressions::uniform(const Expression& e, const Locals* locals) {
  check_arguments(e, 2);
  if (!globals_) source_.fail(e.place, "a monoid cannot use 'uniform'");
  int seed = make(e.operands[0], locals);
  const Node& node = graph_[seed];
  const bool whole =
      node.operation == Operation::constant && node.value == std::floor(node.value) && std::fabs(node.value) < 0x1p24;
  if (node.kind != Kind::scalar || (value_type(node.type) != Type::i32 && !whole))
    source_.fail(at(e.operands[0]).place,
                 "the seed of 'uniform' is not an integer that all elements share; write 'num seed : i32'");
  seed = graph_.round_to(seed, Type::i32);
  const Node& index = graph_[make(e.operands[1], locals)];
  if (index.operation != Operation::constant || index.value != std::floor(index.value) || index.value < 0 ||
      index.value > 65535)
    source_.fail(at(e.operands[1]).place,
                 "the second argument of 'uniform' numbers its random numbers; allowed: constants 0 to 65535");
  graph_.set_place(e.place);
  return graph_.uniform(seed, static_cast<int>(index.value));
}

int Expressions::scatter(const Expression& e, const Locals* locals) {
  check_arguments(e, 2);
  if (!globals_) source_.fail(e.place, "a monoid cannot use 'scatter'");
  const int column = make(e.operands[0], locals), value = make_number(e.operands[1], "'scatter'", locals);
  if (graph_[column].type != Type::i32 || graph_[column].kind != Kind::top)
    source_.fail(at(e.operands[0]).place,
                 "the first argument of 'scatter' is not an i32 [row, k], such as a column of topk");
  if (graph_[value].kind >= Kind::col)
    source_.fail(at(e.operands[1]).place,
                 "the second argument of 'scatter' varies along columns; allowed: [row, k], [row], []");
  graph_.set_place(e.place);
  return graph_.scatter(column, value);
}

int Expressions::operation(const Expression& e, const Locals* locals) {
  const std::string what = quoted(e.text);
  if (e.text == "?") return choose(e, locals, what);
  const int a = make(e.operands[0], locals);
  if (e.text == "!") {
    check_condition(a, e.operands[0], what);
    graph_.set_place(e.place);
    return graph_.apply(Operation::logical_not, a);
  }
  if (e.operands.size() == 1) {
    check_number(a, e.operands[0], what);
    graph_.set_place(e.place);
    return graph_.apply(Operation::negate, a);
  }
  const int b = make(e.operands[1], locals);
  if (e.text == "&&" || e.text == "||") {
    check_condition(a, e.operands[0], what);
    check_condition(b, e.operands[1], what);
    graph_.set_place(e.place);
    return graph_.apply(e.text == "&&" ? Operation::logical_and : Operation::logical_or, a, b);
  }
  const bool equality = e.text == "==" || e.text == "!=";
  if (equality && is_boolean(a) != is_boolean(b))
    source_.fail(e.place, what + " compares a number and a boolean; both must be of one type");
  if (!equality) {
    check_number(a, e.operands[0], what);
    check_number(b, e.operands[1], what);
  }
  graph_.set_place(e.place);
  if (e.text == "+") return graph_.apply(Operation::add, a, b);
  if (e.text == "-") return graph_.apply(Operation::subtract, a, b);
  if (e.text == "*") return graph_.apply(Operation::multiply, a, b);
  if (e.text == "/") return graph_.apply(Operation::divide, a, b);
  if (e.text == "==") return graph_.apply(Operation::equal, a, b);
  if (e.text == "!=") return graph_.apply(Operation::not_equal, a, b);
  if (e.text == "<") return graph_.apply(Operation::less, a, b);
  if (e.text == "<=") return graph_.apply(Operation::less_equal, a, b);
  return graph_.apply(e.text == ">" ? Operation::less : Operation::less_equal, b, a);
}

}  // namespace tunesmith::row_program
