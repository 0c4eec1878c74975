#include "templates/row_program/language/parse.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "templates/row_program/evaluate/associativity.h"
#include "templates/row_program/language/expressions.h"

namespace tunesmith::row_program {
namespace {

std::string kind_name(Kind kind) { return std::string(enum_name(kind)); }

class Checker {
 public:
  explicit Checker(const SourceText& source)
      : source_(source),
        syntax_(syntax_of(source)),
        symbols_(source_, syntax_),
        expressions_(source_, syntax_, symbols_, graph_, true) {}

  Program check() {
    for (std::size_t i = 0; i < syntax_.statements.size(); ++i) check(syntax_.statements[i], static_cast<int>(i));
    check_whole();
    graph_.finish(program_);
    check_stages();
    return std::move(program_);
  }

 private:
  void check(const Statement& s, int index) {
    switch (s.form) {
      case Statement::Form::definition: return definition(s);
      case Statement::Form::input: return input(s);
      case Statement::Form::number: return number(s);
      case Statement::Form::function: return function(s, index);
      case Statement::Form::monoid: return monoid(s);
      case Statement::Form::reduction: return reduction(s);
      case Statement::Form::output: return output(s);
    }
  }

  /// Returns the type; empty for `float`.
  std::optional<Type> type(const Name& name) const {
    if (name.text == "float") return std::nullopt;
    const std::optional<Type> found = type_of(name.text);
    if (found) return found;
    std::vector<std::string_view> known(enum_names<Type>.begin(), enum_names<Type>.end());
    known.emplace_back("float");
    const std::string nearest = did_you_mean(name.text, known);
    source_.fail(name.place, quoted(name.text) + " is not a type" + nearest +
                                 (nearest.empty() ? "; allowed: " : " Allowed: ") + type_list());
  }

  void set_group(const Dimensions& dimensions) {
    if (dimensions.group == 0) return;
    if (dimensions.kind == Kind::top) {
      if (program_.top != 0 && program_.top != dimensions.group)
        source_.fail(dimensions.place, std::to_string(dimensions.group) + " chosen columns in a program with " +
                                           std::to_string(program_.top) + "; a program has one number k");
      program_.top = dimensions.group;
      return;
    }
    if (program_.group != 0 && program_.group != dimensions.group)
      source_.fail(dimensions.place, "groups of " + std::to_string(dimensions.group) +
                                         " columns in a program with groups of " + std::to_string(program_.group) +
                                         "; all groups of a program have one size");
    program_.group = dimensions.group;
  }

  /// Rounds a value to the type of an array or a definition.
  int rounded(int node, const std::optional<Type>& to, Place place) {
    const bool boolean = graph_[node].type == Type::boolean;
    if (boolean && to != Type::boolean)
      source_.fail(place, "the value is a boolean and its type is not; write select(condition, 1, 0)");
    if (!boolean && to == Type::boolean)
      source_.fail(place, "the value is a number and its type is bool; write a comparison such as x != 0");
    return to ? graph_.round_to(node, *to) : graph_.round_to_problem_dtype(node);
  }

  void definition(const Statement& s) {
    int node = expressions_.make(s.expressions[0]);
    if (s.type) {
      graph_.set_place(s.type->place);
      node = rounded(node, type(*s.type), s.value_place);
    }
    define_value(s.names[0], node);
  }

  void define_value(const Name& name, int node) {
    symbols_.define(name, Symbol::Form::value, node);
    graph_.set_name(node, name.text);
  }

  void input(const Statement& s) {
    const std::optional<Type> element = type(*s.type);
    set_group(*s.dimensions);
    for (const Name& name : s.names) {
      graph_.set_place(name.place);
      const int node = graph_.leaf(Operation::input, s.dimensions->kind, element ? value_type(*element) : Type::f32,
                                   static_cast<int>(program_.inputs.size()));
      symbols_.define(name, Symbol::Form::value, node);
      program_.inputs.push_back({std::string(name.text), element, s.dimensions->kind, name.place});
      count_array(s.dimensions->kind, name.place, true);
    }
  }

  void count_array(Kind kind, Place place, bool is_input) {
    if (kind == Kind::full) {
      int& count = is_input ? full_inputs_ : full_outputs_;
      const int most = is_input ? Limits::full_inputs : Limits::full_outputs;
      if (++count > most)
        source_.fail(place, "more than " + std::to_string(most) + (is_input ? " inputs" : " outputs") +
                                " [row, col]; allowed: up to " + std::to_string(most));
      return;
    }
    if (++others_[static_cast<std::size_t>(kind)] > Limits::other_arrays)
      source_.fail(place, "more than " + std::to_string(Limits::other_arrays) + " arrays " + kind_name(kind) +
                              "; allowed: up to " + std::to_string(Limits::other_arrays) + " inputs and outputs");
  }

  void number(const Statement& s) {
    std::optional<Type> of = Type::f32;
    if (s.type) of = type(*s.type);
    if (of != Type::f64 && of != Type::f32 && of != Type::i32)
      source_.fail(s.type->place, "a number is " + std::string(s.type->text) + "; allowed: f64, f32, i32");
    if (of == Type::f64) of = Type::f32;  // the type of arithmetic
    std::optional<double> value;
    if (!s.expressions.empty()) {
      const auto constant = graph_.constant_value(expressions_.make_number(s.expressions[0], "a default"));
      if (!constant) source_.fail(s.value_place, "a default is a constant; allowed: an expression of constants");
      if (const double of_i32 = constant->wide_value;
          of == Type::i32 && (of_i32 != std::floor(of_i32) || std::fabs(of_i32) > 0x1p31 - 1))
        source_.fail(s.value_place, "the default of an i32 is not an integer of 32 bits");
      value = constant->wide_value;
    }
    for (const Name& name : s.names) {
      if (program_.numbers.size() == Limits::numbers)
        source_.fail(name.place, "more than " + std::to_string(Limits::numbers) + " numbers; allowed: up to " +
                                     std::to_string(Limits::numbers));
      graph_.set_place(name.place);
      symbols_.define(name, Symbol::Form::value,
                      graph_.leaf(Operation::number, Kind::scalar, *of, static_cast<int>(program_.numbers.size())));
      program_.numbers.push_back({std::string(name.text), *of, value, name.place});
    }
  }

  void check_parameters(const Statement& s) const {
    for (std::size_t i = 0; i < s.parameters.size(); ++i) {
      const Name& name = s.parameters[i];
      if (is_reserved(name.text))
        source_.fail(name.place, quoted(name.text) + " has a meaning in the language; choose another name");
      for (std::size_t j = 0; j < i; ++j)
        if (s.parameters[j].text == name.text) source_.fail(name.place, "two parameters have the name " + quoted(name.text));
    }
  }

  /// A function is checked where it is defined, with parameters in place of arguments, and again wherever it is called.
  void function(const Statement& s, int index) {
    check_parameters(s);
    check_names(s.expressions[0], s);
    symbols_.define(s.names[0], Symbol::Form::function, index);
  }

  void check_names(int expression, const Statement& s) {
    const Expression& e = syntax_.expressions[static_cast<std::size_t>(expression)];
    const bool parameter = std::ranges::any_of(s.parameters, [&](const Name& name) { return name.text == e.text; });
    const bool call = e.form == Expression::Form::call;
    if (call && parameter) source_.fail(e.place, quoted(e.text) + " is a parameter, not a function");
    if (call && e.text == s.names[0].text) source_.fail(e.place, "a function cannot call itself");
    if (e.form == Expression::Form::name && !parameter && !is_reserved(e.text)) symbols_.use({e.text, e.place});
    if (call && !parameter && (!is_reserved(e.text) || is_declaration(e.text))) symbols_.use({e.text, e.place}, true);
    for (const int operand : e.operands) check_names(operand, s);
  }
  static bool is_declaration(std::string_view word) { return is_keyword(word) && word != "min" && word != "max"; }

  void monoid(const Statement& s) {
    check_parameters(s);
    const std::size_t count = s.expressions.size();
    if (count > Limits::components)
      source_.fail(s.names[0].place, "a monoid has " + std::to_string(count) + " components; allowed: up to " +
                                         std::to_string(Limits::components));
    Graph graph;
    Expressions expressions(source_, syntax_, symbols_, graph, false);
    Expressions::Locals locals;
    for (std::size_t i = 0; i < s.parameters.size(); ++i)
      locals.emplace(s.parameters[i].text, graph.leaf(Operation::parameter, Kind::scalar, Type::f32, static_cast<int>(i)));
    Monoid made;
    made.name = s.names[0].text;
    made.place = s.names[0].place;
    for (const int expression : s.expressions)
      made.results.push_back(graph.to_f32(expressions.make_number(expression, "a component of a monoid", &locals)));
    for (const int expression : s.identity) {
      const auto constant = graph_.constant_value(expressions_.make_number(expression, "an identity"));
      if (!constant)
        source_.fail(syntax_.expressions[static_cast<std::size_t>(expression)].place, "an identity is a constant");
      made.identity.push_back(constant->value);
      made.wide_identity.push_back(constant->wide_value);
    }
    made.nodes = graph.nodes();
    symbols_.define(s.names[0], Symbol::Form::monoid, static_cast<int>(program_.monoids.size()));
    program_.monoids.push_back(std::move(made));
  }

  void reduction(const Statement& s) {
    const auto reducer =
        static_cast<Reducer>(std::ranges::find(enum_names<Reducer>, s.keyword.text) - enum_names<Reducer>.begin());
    const std::string what = quoted(s.keyword.text);
    if (s.dimensions) set_group(*s.dimensions);
    int monoid = -1;
    std::size_t results = 1, least = 1;
    if (reducer == Reducer::moments) results = least = 2;
    if (reducer == Reducer::lse) results = 3;
    if (reducer == Reducer::topk) {
      results = least = s.expressions.size() + 1;
      if (s.expressions.size() > 1 + Limits::carried)
        source_.fail(s.value_place, "topk has " + std::to_string(s.expressions.size()) + " values; allowed: up to " +
                                        std::to_string(1 + Limits::carried));
      if (s.expressions.size() == 1) least = 1;
    }
    if (reducer == Reducer::custom) {
      monoid = monoid_of(s);
      results = least = program_.monoids[static_cast<std::size_t>(monoid)].identity.size();
      if (s.expressions.size() != results)
        source_.fail(s.called.place, quoted(s.called.text) + " combines " + std::to_string(results) + " components, not " +
                                         std::to_string(s.expressions.size()));
    }
    if (s.names.size() < least || s.names.size() > results)
      source_.fail(s.names[0].place, what + " has " + std::to_string(results) + " result" + (results == 1 ? "" : "s") +
                                         ", not " + std::to_string(s.names.size()));
    std::vector<int> operands;
    Kind kind = Kind::scalar;
    for (const int expression : s.expressions) {
      operands.push_back(reduced_value(reducer, expression, what));
      if (!combine(kind, graph_[operands.back()].kind)) fail_mixed(expression);
      kind = joined(kind, graph_[operands.back()].kind);
    }
    const bool of_top = kind == Kind::top && reducer != Reducer::topk && !s.dimensions;
    if (!varies_along_columns(kind) && !of_top)
      source_.fail(s.value_place, what + " takes values that vary along columns; this one is " + kind_name(kind));
    graph_.set_place(s.keyword.place);
    const int made = graph_.reduce(reducer, std::move(operands), s.dimensions && s.dimensions->kind == Kind::group, monoid);
    for (std::size_t part = 0; part < s.names.size(); ++part) {
      graph_.set_place(s.names[part].place);
      define_value(s.names[part], graph_.result(made, static_cast<int>(part)));
    }
  }

  [[noreturn]] void fail_mixed(int expression) const {
    source_.fail(syntax_.expressions[static_cast<std::size_t>(expression)].place, Expressions::mixed_kinds);
  }

  int monoid_of(const Statement& s) {
    const Symbol& symbol = symbols_.use(s.called, false);
    if (symbol.form != Symbol::Form::monoid)
      source_.fail(s.called.place, quoted(s.called.text) + " is not a monoid; write 'monoid " + std::string(s.called.text) +
                                       "(a, b) = ... identity ...' before this line");
    return symbol.index;
  }

  int reduced_value(Reducer reducer, int expression, const std::string& what) {
    const bool boolean = reducer == Reducer::any || reducer == Reducer::all || reducer == Reducer::count;
    if (!boolean) return expressions_.make_number(expression, what);
    const int node = expressions_.make(expression);
    if (graph_[node].type != Type::boolean)
      source_.fail(syntax_.expressions[static_cast<std::size_t>(expression)].place,
                   what + " takes a boolean, not a number; write a comparison such as x != 0");
    return node;
  }

  void output(const Statement& s) {
    const bool column_sum = s.keyword.text == "colsum";
    Output made{std::string(s.names[0].text), type(*s.type), s.dimensions->kind, -1, s.names[0].place, column_sum};
    set_group(*s.dimensions);
    if (column_sum && made.kind != Kind::col && made.kind != Kind::scalar)
      source_.fail(s.dimensions->place, "a sum over rows is " + kind_name(made.kind) + "; allowed: [col], []");
    if (!column_sum && (made.kind == Kind::col || made.kind == Kind::scalar))
      source_.fail(s.dimensions->place,
                   "an output is " + kind_name(made.kind) +
                       "; allowed: [row, col], [row], [row, col/N], [row, k], and 'colsum' for sums over rows");
    if (column_sum && made.type && *made.type > Type::bf16)
      source_.fail(s.type->place,
                   "a sum over rows is " + std::string(s.type->text) + "; allowed: float, f64, f32, f16, bf16");
    const int value = expressions_.make(s.expressions[0]);
    const Kind kind = graph_[value].kind;
    if (kind == Kind::top && made.kind >= Kind::col)
      source_.fail(s.value_place, quoted(made.name) + " is " + kind_name(made.kind) +
                                      ", and its value is [row, k]; write scatter(column, value) for values of columns");
    if (!column_sum && !broadcasts(kind, made.kind))
      source_.fail(s.value_place, quoted(made.name) + " is " + kind_name(made.kind) + ", and its value is " +
                                      kind_name(kind) + "; reduce the value first (sum, max, ...)");
    graph_.set_place(s.value_place);
    const int stored = rounded(value, made.type, s.value_place);
    // A sum is rounded, and not its terms.
    made.node = column_sum ? graph_.to_f32(value) : stored;
    if (column_sum)
      symbols_.define(s.names[0], Symbol::Form::sum_over_rows, -1);
    else
      symbols_.define(s.names[0], Symbol::Form::value, stored);
    count_array(made.kind, made.place, false);
    program_.outputs.push_back(std::move(made));
  }

  /// Without an array of f64, arithmetic is f32, and the name f64 would promise too much.
  void check_f64() const {
    if (computes_in_f64(program_)) return;
    const std::string message = "'f64' in a program without arrays of f64, which computes in f32; declare an array as f64";
    for (const Statement& s : syntax_.statements)
      if (s.type && s.type->text == enum_name(Type::f64)) source_.fail(s.type->place, message);
    for (const Expression& e : syntax_.expressions)
      if (e.form == Expression::Form::call && e.text == enum_name(Type::f64)) source_.fail(e.place, message);
  }

  void check_whole() const {
    const Place end{syntax_.statements.empty() ? 1 : syntax_.statements.back().names[0].place.line, 1};
    if (program_.outputs.empty()) source_.fail(end, "the program has no output; write 'out y : bf16[row, col] = ...'");
    if (full_inputs_ + full_outputs_ == 0)
      source_.fail(end, "the program has no array [row, col]; at least one input or output must be one");
    for (const Input& input : program_.inputs)
      if (!symbols_.is_used(input.name)) source_.fail(input.place, "the input " + quoted(input.name) + " is not used");
    for (const Number& number : program_.numbers)
      if (!symbols_.is_used(number.name)) source_.fail(number.place, "the number " + quoted(number.name) + " is not used");
    check_f64();
    if (graph_.nodes().size() > Graph::max_nodes)
      source_.fail(end, "the program has more than " + std::to_string(Graph::max_nodes) + " operations");
  }

  /// Inputs that only unused values need are unused, too.
  void check_stages() const {
    for (const Node& node : program_.nodes)
      if (node.operation == Operation::rank && program_.top == 0)
        source_.fail(node.place,
                     "'rank' counts the columns that topk chooses, and the program has no topk and no array [row, k]");
    for (const Reduction& reduction : program_.reductions)
      if (reduction.stage > Limits::stages)
        source_.fail(reduction.place, "this reduction depends on " + std::to_string(reduction.stage - 1) +
                                          " others, one after the other; allowed: up to " + std::to_string(Limits::stages) +
                                          " reductions in a chain");
    std::vector<bool> inputs(program_.inputs.size()), numbers(program_.numbers.size());
    for (const Node& node : program_.nodes) {
      if (node.operation == Operation::input) inputs[static_cast<std::size_t>(node.index)] = true;
      if (node.operation == Operation::number) numbers[static_cast<std::size_t>(node.index)] = true;
    }
    for (std::size_t i = 0; i < inputs.size(); ++i)
      if (!inputs[i])
        source_.fail(program_.inputs[i].place, "no output depends on the input " + quoted(program_.inputs[i].name));
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (!numbers[i])
        source_.fail(program_.numbers[i].place, "no output depends on the number " + quoted(program_.numbers[i].name));
  }

  SourceText source_;
  Syntax syntax_;
  Symbols symbols_;
  Graph graph_;
  Expressions expressions_;
  Program program_;
  int full_inputs_ = 0, full_outputs_ = 0;
  std::array<int, 6> others_{};
};

}  // namespace

Program parse(std::string_view text, std::string_view file) {
  Program program = Checker(SourceText{text, file}).check();
  check_associativity(program, text, file);
  return program;
}

}  // namespace tunesmith::row_program
