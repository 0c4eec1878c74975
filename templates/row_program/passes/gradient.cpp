#include "templates/row_program/passes/gradient.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <utility>
#include <vector>

#include "templates/row_program/evaluate/evaluate_row.h"
#include "templates/row_program/language/copy_nodes.h"
#include "templates/row_program/language/parse.h"
#include "templates/row_program/language/text_of.h"
#include "templates/row_program/passes/sum_of_columns.h"
#include "tunesmith/error.h"

namespace tunesmith::row_program {
namespace {

bool is_floating_point(const std::optional<Type>& type) { return !type || *type <= Type::e5m2; }
bool is_wide(const std::optional<Type>& type) { return !type || *type <= Type::bf16; }

/// Values and their derivatives, by reverse mode: each node's derivative is the sum of its uses' contributions.
class Gradient {
 public:
  explicit Gradient(const Program& program)
      : program_(program), derivatives_(program.nodes.size()), active_(program.nodes.size()) {
    made_.inputs = program.inputs;
    made_.numbers = program.numbers;
    made_.monoids = program.monoids;
    made_.group = program.group;
    made_.top = program.top;
  }

  std::string text() {
    for (const Input& input : program_.inputs) names_.insert(input.name);
    for (const Number& number : program_.numbers) names_.insert(number.name);
    values_ = copy_nodes(program_, std::nullopt, graph_);
    simplify_softmax();
    find_active();
    start_from_outputs();
    for (int n = static_cast<int>(program_.nodes.size()) - 1; n >= 0; --n)
      if (active_[index(n)] && !derivatives_[index(n)].empty()) visit(n);
    graph_.finish(made_);
    drop_unused();
    check_limits();
    return text_of(made_);
  }

 private:
  const Node& node(int n) const { return program_.nodes[index(n)]; }
  int value(int n) const { return values_[index(n)]; }
  int constant(double x) { return graph_.constant(x); }
  int add(int a, int b) { return graph_.apply(Operation::add, a, b); }
  int subtract(int a, int b) { return graph_.apply(Operation::subtract, a, b); }
  int multiply(int a, int b) { return graph_.apply(Operation::multiply, a, b); }
  int divide(int a, int b) { return graph_.apply(Operation::divide, a, b); }
  int select(int c, int a, int b) { return graph_.apply(Operation::select, c, a, b); }

  /// exp(x - m) / s and (x - m) - log(s), of the maximum and the sum of one lse, are exp(x - lse) and x - lse: without a
  /// derivative through the maximum, which cancels.
  void simplify_softmax() {
    const auto part_of = [&](int n, int part) {
      const Node& found = node(n);
      const bool is = found.operation == Operation::reduced && found.part == part &&
                      program_.reductions[index(found.index)].reducer == Reducer::lse;
      return is ? found.index : -1;
    };
    replaced_.assign(program_.nodes.size(), {-1, -1});
    for (int n = 0; n < static_cast<int>(program_.nodes.size()); ++n) {
      const auto [a, b, c] = node(n).operands;
      int difference = -1, sum = -1;
      if (node(n).operation == Operation::divide && node(a).operation == Operation::exp) {
        difference = node(a).operands[0];
        sum = b;
      } else if (node(n).operation == Operation::subtract && node(b).operation == Operation::log) {
        difference = a;
        sum = node(b).operands[0];
      }
      if (difference < 0 || node(difference).operation != Operation::subtract) continue;
      const int reduction = part_of(sum, 2), maximum = node(difference).operands[1];
      if (reduction < 0 || part_of(maximum, 1) != reduction) continue;
      const Node& copied_sum = graph_[value(sum)];
      const int lse = graph_.result(copied_sum.index, 0), x = node(difference).operands[0];
      const int shifted = subtract(value(x), lse);
      values_[index(n)] = node(n).operation == Operation::divide ? graph_.apply(Operation::exp, shifted) : shifted;
      replaced_[index(n)] = {x, reduction};
    }
  }

  bool is_replaced(int n) const { return replaced_[index(n)].first >= 0; }

  void find_active() {
    for (int n = 0; n < static_cast<int>(program_.nodes.size()); ++n) {
      const Node& here = node(n);
      const auto any = [&](const auto& operands) {
        return std::ranges::any_of(operands, [&](int operand) { return operand >= 0 && active_[index(operand)]; });
      };
      bool active = false;
      if (here.operation == Operation::input) {
        const Input& input = program_.inputs[index(here.index)];
        active = is_floating_point(input.type) && input.kind != Kind::scalar;
      } else if (here.operation == Operation::reduced) {
        active = value_type(here.type) == Type::f32 && any(program_.reductions[index(here.index)].operands);
      } else {
        active = value_type(here.type) == Type::f32 && here.operation != Operation::floor &&
                 here.operation != Operation::round && any(here.operands);
      }
      active_[index(n)] = active;
    }
  }

  std::string name_of_derivative(const std::string& name) {
    std::string made = "d" + name;
    while (!names_.insert(made).second) made += '_';
    return made;
  }

  void start_from_outputs() {
    std::optional<Type> wide = Type::f32;
    for (const Input& input : program_.inputs)
      if (is_wide(input.type)) {
        wide = input.type;
        break;
      }
    bool any = false;
    for (const Output& output : program_.outputs) {
      if (!active_[index(output.node)]) continue;
      any = true;
      const std::optional<Type> type = is_wide(output.type) ? output.type : wide;
      const auto number = static_cast<int>(made_.inputs.size());
      made_.inputs.push_back({name_of_derivative(output.name), type, output.kind, output.place});
      const int derivative = graph_.leaf(Operation::input, output.kind, Type::f32, number);
      const Kind of_terms = output.kind == Kind::scalar ? node(output.node).kind : Kind::full;
      contribute(output.node, derivative, output.sum_over_rows ? of_terms : output.kind);
    }
    if (!any)
      throw Error(
          ErrorCode::invalid_argument,
          "no output of the program has a gradient; one must depend on a floating-point array by other functions than "
          "comparisons, floor, round, argmax and count");
  }

  /// Adds a derivative to node n's. `from`: kind of the use, which has as many elements.
  void contribute(int n, int derivative, Kind from) {
    if (n < 0 || !active_[index(n)]) return;
    const Kind to = node(n).kind;
    const bool of_columns = from == Kind::full || from == Kind::col;
    if ((to == Kind::row || to == Kind::group) && of_columns) {
      column_terms(n).push_back(derivative);
    } else if (to == Kind::row && from == Kind::top) {
      derivatives_[index(n)].push_back(sum_of_top(derivative));
    } else if (to == Kind::row && from == Kind::group) {
      derivatives_[index(n)].push_back(sum_of_groups(graph_, derivative, program_.group));
    } else if (to != Kind::scalar) {
      derivatives_[index(n)].push_back(derivative);
    }
  }

  /// Returns the sum over the chosen columns.
  int sum_of_top(int value) {
    if (graph_[value].kind != Kind::top) return multiply(value, constant(program_.top));
    return graph_.result(graph_.reduce(Reducer::sum, {value}, false));
  }

  std::vector<int>& column_terms(int n) {
    if (derivatives_[index(n)].empty()) derivatives_[index(n)].push_back(-1);  // replaced by the sum
    column_terms_.resize(program_.nodes.size());
    return column_terms_[index(n)];
  }

  int derivative_of(int n) {
    std::vector<int> all = derivatives_[index(n)];
    std::erase(all, -1);
    if (!column_terms_.empty() && !column_terms_[index(n)].empty())
      all.push_back(sum_of_columns(graph_, column_terms_[index(n)], node(n).kind == Kind::group));
    int sum = all[0];
    for (std::size_t i = 1; i < all.size(); ++i) sum = add(sum, all[i]);
    return sum;
  }

  void visit(int n) {
    const int d = derivative_of(n);
    const Node& here = node(n);
    if (here.operation == Operation::input) return store(here, d);
    if (here.operation == Operation::reduced) return reduced(n, d);
    if (!here.name.empty()) graph_.set_name(d, "d_" + here.name);
    const auto [a, b, c] = here.operands;
    const auto give = [&](int operand, int derivative) { contribute(operand, derivative, here.kind); };
    if (is_replaced(n)) return softmax(n, d);
    const int y = value(n), x = a < 0 ? -1 : value(a);
    switch (here.operation) {
      case Operation::negate: return give(a, graph_.apply(Operation::negate, d));
      case Operation::absolute:
        return give(a, select(graph_.apply(Operation::less, constant(0), x), d,
                              select(graph_.apply(Operation::less, x, constant(0)), graph_.apply(Operation::negate, d),
                                     constant(0))));
      case Operation::exp: return give(a, multiply(d, y));
      case Operation::exp2: return give(a, multiply(multiply(d, y), constant(std::numbers::ln2)));
      case Operation::log: return give(a, divide(d, x));
      case Operation::log1p: return give(a, divide(d, add(constant(1), x)));
      case Operation::tanh: return give(a, multiply(d, subtract(constant(1), multiply(y, y))));
      case Operation::erf:
        return give(a, multiply(multiply(d, constant(2 / std::sqrt(std::numbers::pi))),
                                graph_.apply(Operation::exp, graph_.apply(Operation::negate, multiply(x, x)))));
      case Operation::sqrt: return give(a, divide(multiply(d, constant(0.5)), y));
      case Operation::rsqrt: return give(a, multiply(multiply(multiply(d, constant(-0.5)), multiply(y, y)), y));
      case Operation::sigmoid: return give(a, multiply(d, multiply(y, subtract(constant(1), y))));
      case Operation::round_to: return give(a, d);
      case Operation::add: give(a, d); return give(b, d);
      case Operation::subtract: give(a, d); return give(b, graph_.apply(Operation::negate, d));
      case Operation::multiply: give(a, multiply(d, value(b))); return give(b, multiply(d, x));
      case Operation::divide:
        give(a, divide(d, value(b)));
        return give(b, graph_.apply(Operation::negate, divide(multiply(d, y), value(b))));
      case Operation::minimum:
      case Operation::maximum: return extreme(n, d);
      case Operation::select: give(b, select(x, d, constant(0))); return give(c, select(x, constant(0), d));
      case Operation::scatter: return contribute(b, at_chosen(here, d), Kind::top);
      default: return;
    }
  }

  /// The values of d at the columns of a scatter: the topk that chose them carries d along.
  int at_chosen(const Node& scatter, int d) {
    const Node& column = node(scatter.operands[0]);
    const bool chosen = column.operation == Operation::reduced &&
                        program_.reductions[index(column.index)].reducer == Reducer::topk && column.part == 1;
    if (!active_[index(scatter.operands[1])]) return -1;
    if (!chosen)
      throw Error(ErrorCode::invalid_argument, "'scatter', line ", scatter.place.line,
                  ", has no gradient; its columns must be those of a topk");
    const int x = value(program_.reductions[index(column.index)].operands[0]);
    return graph_.result(graph_.reduce(Reducer::topk, {x, d}, false), 2);
  }

  /// The first operand gets the derivative where it is the result and differs from the second.
  void extreme(int n, int d) {
    const Node& here = node(n);
    auto [a, b, c] = here.operands;
    if (!active_[index(a)]) std::swap(a, b);  // at equal values a constant is the result
    const bool is_maximum = here.operation == Operation::maximum;
    const int takes =
        is_maximum ? graph_.apply(Operation::less, value(b), value(a)) : graph_.apply(Operation::less, value(a), value(b));
    contribute(a, select(takes, d, constant(0)), here.kind);
    contribute(b, select(takes, constant(0), d), here.kind);
  }

  /// exp(x - lse) and x - lse.
  void softmax(int n, int d) {
    const auto [x, reduction] = replaced_[index(n)];
    const int shifted = node(n).operation == Operation::divide ? multiply(d, value(n)) : d;
    contribute(x, shifted, node(n).kind);
    const Reduction& lse = program_.reductions[index(reduction)];
    // The derivative with respect to lse, which has no node of its own.
    const int copied = graph_[value(first_result_of(reduction))].index;
    const int negated = graph_.apply(Operation::negate, shifted);
    const int total = lse.of_top ? sum_of_top(negated) : sum_of_columns(graph_, {negated}, lse.grouped);
    const int weight = graph_.apply(Operation::exp, subtract(value(lse.operands[0]), graph_.result(copied, 0)));
    contribute(lse.operands[0], multiply(total, weight), Kind::full);
  }

  int first_result_of(int reduction) const {
    for (int n = 0; n < static_cast<int>(program_.nodes.size()); ++n)
      if (node(n).operation == Operation::reduced && node(n).index == reduction) return n;
    return -1;
  }

  void reduced(int n, int d) {
    const Node& here = node(n);
    const Reduction& reduction = program_.reductions[index(here.index)];
    const int operand = reduction.operands[0], x = value(operand);
    if (!here.name.empty()) graph_.set_name(d, "d_" + here.name);
    switch (reduction.reducer) {
      case Reducer::sum: return contribute(operand, d, Kind::full);
      case Reducer::mean: return contribute(operand, divide(d, count_of(reduction)), Kind::full);
      case Reducer::max:
      case Reducer::min: return contribute(operand, at_argument(reduction, d), Kind::full);
      case Reducer::moments: {
        const int share = divide(d, count_of(reduction));
        if (here.part == 0) return contribute(operand, share, Kind::full);
        const int mean = graph_.result(graph_[value(n)].index, 0);
        return contribute(operand, multiply(multiply(constant(2), share), subtract(x, mean)), Kind::full);
      }
      case Reducer::lse: {
        const int copied = graph_[value(n)].index;
        if (here.part == 0)
          return contribute(operand, multiply(d, graph_.apply(Operation::exp, subtract(x, graph_.result(copied, 0)))),
                            Kind::full);
        if (here.part == 1) return contribute(operand, at_argument(reduction, d), Kind::full);
        // The sum of exp(x - m): each term, and the maximum.
        contribute(operand, multiply(d, graph_.apply(Operation::exp, subtract(x, graph_.result(copied, 1)))), Kind::full);
        return contribute(operand, at_argument(reduction, graph_.apply(Operation::negate, multiply(d, value(n)))),
                          Kind::full);
      }
      case Reducer::topk: {
        const int column = graph_.result(graph_[value(n)].index, 1);
        return contribute(reduction.operands[here.part == 0 ? 0 : index(here.part) - 1], graph_.scatter(column, d),
                          Kind::full);
      }
      case Reducer::custom: {
        const Monoid& monoid = program_.monoids[index(reduction.monoid)];
        throw Error(ErrorCode::invalid_argument, "the result of monoid '", monoid.name, "', line ", reduction.place.line,
                    ", has no gradient; write the reduction with sum, mean, max, min, lse or moments");
      }
      default: return;
    }
  }

  int count_of(const Reduction& reduction) {
    return reduction.of_top ? constant(program_.top) : count_of_columns(graph_, reduction.grouped);
  }

  /// d at the column of the extreme value, 0 elsewhere.
  int at_argument(const Reduction& reduction, int d) {
    const Reducer argument = reduction.reducer == Reducer::min ? Reducer::argmin : Reducer::argmax;
    const int place = graph_.result(graph_.reduce(argument, {value(reduction.operands[0])}, reduction.grouped));
    const int column = reduction.of_top ? graph_.leaf(Operation::rank, Kind::top, Type::i32)
                                        : graph_.leaf(Operation::col_index, Kind::col, Type::i32);
    return select(graph_.apply(Operation::equal, column, place), d, constant(0));
  }

  void store(const Node& here, int d) {
    const Input& input = program_.inputs[index(here.index)];
    Output output{name_of_derivative(input.name), is_wide(input.type) ? input.type : Type::f32, input.kind, -1, input.place,
                  input.kind == Kind::col};
    if (output.sum_over_rows)
      output.node = d;
    else
      output.node = output.type ? graph_.round_to(d, *output.type) : graph_.round_to_problem_dtype(d);
    made_.outputs.insert(made_.outputs.begin(), std::move(output));  // visited from the last input to the first
  }

  void drop_unused() {
    std::vector<int> inputs(made_.inputs.size(), -1), numbers(made_.numbers.size(), -1);
    for (const Node& n : made_.nodes) {
      if (n.operation == Operation::input) inputs[index(n.index)] = 0;
      if (n.operation == Operation::number) numbers[index(n.index)] = 0;
    }
    const auto keep = [](auto& all, std::vector<int>& used) {
      int kept = 0;
      for (std::size_t i = 0; i < used.size(); ++i) {
        if (used[i] < 0) continue;
        all[index(kept)] = all[i];
        used[i] = kept++;
      }
      all.resize(index(kept));
    };
    keep(made_.inputs, inputs);
    keep(made_.numbers, numbers);
    made_.monoids.clear();
    for (const Reduction& r : made_.reductions)
      if (r.monoid >= 0) made_.monoids = program_.monoids;
    for (Node& n : made_.nodes) {
      if (n.operation == Operation::input) n.index = inputs[index(n.index)];
      if (n.operation == Operation::number) n.index = numbers[index(n.index)];
    }
  }

  void check_limits() const {
    const auto check = [](auto count, int most, const char* what) {
      if (static_cast<int>(count) > most)
        throw Error(ErrorCode::invalid_argument, "the gradient has ", count, " ", what, "; allowed: up to ", most,
                    "; split the program in two");
    };
    const auto full = [](const auto& array) { return array.kind == Kind::full; };
    check(std::ranges::count_if(made_.inputs, full), Limits::full_inputs, "inputs [row, col]");
    check(std::ranges::count_if(made_.outputs, full), Limits::full_outputs, "outputs [row, col]");
    check(made_.stages, Limits::stages, "reductions in a chain");
    check(made_.nodes.size(), static_cast<int>(Graph::max_nodes), "operations");
    for (const Kind kind : {Kind::scalar, Kind::row, Kind::top, Kind::col, Kind::group}) {
      const auto same = [&](const auto& array) { return array.kind == kind; };
      check(std::ranges::count_if(made_.inputs, same) + std::ranges::count_if(made_.outputs, same), Limits::other_arrays,
            "arrays of one kind");
    }
  }

  const Program& program_;
  Graph graph_;
  Program made_;
  std::vector<int> values_;                     // copies of the program's nodes
  std::vector<std::vector<int>> derivatives_;   // contributions of a node's own kind
  std::vector<std::vector<int>> column_terms_;  // contributions to sum over columns
  std::vector<std::pair<int, int>> replaced_;   // x and the lse of nodes that simplify_softmax() replaced
  std::vector<bool> active_;
  std::set<std::string> names_;
};

}  // namespace

std::string gradient_text(const Program& program) { return Gradient(program).text(); }

}  // namespace tunesmith::row_program
