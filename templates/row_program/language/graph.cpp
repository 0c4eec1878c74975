#include "templates/row_program/language/graph.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <optional>

#include "templates/row_program/evaluate/operations.h"
#include "templates/row_program/evaluate/rounding.h"

namespace tunesmith::row_program {
namespace {

bool is_comparison(Operation operation) { return operation >= Operation::less && operation <= Operation::not_equal; }
bool is_logical(Operation operation) {
  return operation == Operation::logical_not || operation == Operation::logical_and || operation == Operation::logical_or;
}
/// Of two f32 or two i32.
bool takes_integers(Operation operation) {
  return is_comparison(operation) || operation == Operation::minimum || operation == Operation::maximum ||
         operation == Operation::select;
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::fabs(std::frexp(value, &exponent)) == 0.5 && exponent > -126 && exponent < 126;
}

}  // namespace

Kind joined(Kind a, Kind b) noexcept {
  if (a == b) return a;
  const Kind low = std::min(a, b), high = std::max(a, b);
  if (low == Kind::scalar) return high;
  if (low == Kind::row && (high == Kind::group || high == Kind::top)) return high;
  return Kind::full;  // of a row or a group, and columns
}

bool broadcasts(Kind from, Kind to) noexcept { return combine(from, to) && joined(from, to) == to; }

bool Graph::is_constant(int node, double value) const {
  return node >= 0 && (*this)[node].operation == Operation::constant && (*this)[node].value == value &&
         (*this)[node].wide_value == value;
}

void Graph::set_name(int node, std::string_view name) {
  Node& named = nodes_[static_cast<std::size_t>(node)];
  if (named.name.empty() && operand_count(named.operation) + (named.operation == Operation::reduced ? 1 : 0) > 0)
    named.name = name;
}

int Graph::add(Node node) {
  node.place = place_;
  auto [a, b, c] = node.operands;
  if (is_commutative(node.operation) && a > b) std::swap(a, b);
  const Key key{node.operation,
                node.type,
                node.to_problem_dtype,
                a,
                b,
                c,
                node.index,
                node.part,
                std::bit_cast<std::uint64_t>(node.value),
                std::bit_cast<std::uint64_t>(node.wide_value)};
  const auto [found, is_new] = known_.try_emplace(key, static_cast<int>(nodes_.size()));
  if (is_new) nodes_.push_back(std::move(node));
  return found->second;
}

int Graph::constant(double value, double wide_value, Type type) {
  Node node;
  node.type = type;
  const auto rounded = [&](Type to, double number) { return std::isnan(number) ? std::nan("") : round_to_type(to, number); };
  node.wide_value = rounded(type == Type::f32 ? Type::f64 : type, wide_value);
  node.value = wide_ ? node.wide_value : rounded(type, value);
  return add(node);
}

/// Returns -1 where f32 and f64 give two constants: they are folded when one of both is chosen (with_dtype()), so that the
/// text of a program needs one number.
int Graph::folded_constant(double value, double wide_value, Type type) {
  const double wide = type == Type::boolean ? wide_value : round_to_type(type, wide_value);
  const double narrow = type == Type::boolean ? value : round_to_type(type, value);
  const bool agree = wide == narrow || (std::isnan(wide) && std::isnan(narrow));
  return wide_ || agree ? constant(value, wide_value, type) : -1;
}

std::optional<Constant> Graph::constant_value(int node) const {
  if (node < 0) return Constant{};
  const Node& of = (*this)[node];
  if (of.operation == Operation::constant) return Constant{of.value, of.wide_value};
  if (of.operation < Operation::negate || of.operation == Operation::uniform || of.operation == Operation::scatter)
    return std::nullopt;
  std::array<double, 3> values{}, wide_values{};
  for (std::size_t i = 0; i < 3; ++i) {
    const std::optional<Constant> operand = constant_value(of.operands[i]);
    if (!operand) return std::nullopt;
    values[i] = operand->value;
    wide_values[i] = operand->wide_value;
  }
  if (of.operation == Operation::round_to)
    return Constant{round_to_type(of.type, values[0]),
                    of.type == Type::f32 ? wide_values[0] : round_to_type(of.type, wide_values[0])};
  const Type type = value_type(of.type);
  const double value = row_program::apply(of.operation, values);
  return Constant{type == Type::boolean ? value : round_to_type(type, value), row_program::apply(of.operation, wide_values)};
}

int Graph::leaf(Operation operation, Kind kind, Type type, int index, int part) {
  Node node;
  node.operation = operation;
  node.kind = kind;
  node.type = type;
  node.index = index;
  node.part = part;
  return add(node);
}

/// Returns the node that a function is equal to in f32, or -1.
int Graph::simplified(const Node& node) const {
  const auto [a, b, c] = node.operands;
  switch (node.operation) {
    case Operation::negate:
    case Operation::logical_not: return (*this)[a].operation == node.operation ? (*this)[a].operands[0] : -1;
    case Operation::multiply:
      if (is_constant(a, 1)) return b;
      return is_constant(b, 1) ? a : -1;
    case Operation::divide: return is_constant(b, 1) ? a : -1;
    case Operation::subtract: return is_constant(b, 0) && !std::signbit((*this)[b].value) ? a : -1;
    case Operation::minimum:
    case Operation::maximum: return a == b ? a : -1;
    case Operation::logical_and:
      if (a == b || is_constant(a, 0) || is_constant(b, 1)) return a;
      return is_constant(b, 0) || is_constant(a, 1) ? b : -1;
    case Operation::logical_or:
      if (a == b || is_constant(a, 1) || is_constant(b, 0)) return a;
      return is_constant(b, 1) || is_constant(a, 0) ? b : -1;
    case Operation::select:
      if ((*this)[a].operation == Operation::constant) return (*this)[a].value != 0 ? b : c;
      return b == c ? b : -1;
    default: return -1;
  }
}

void Graph::match_integers(int& a, int& b) {
  const auto is_integer = [&](int node) { return (*this)[node].type == Type::i32; };
  const auto to_integer = [&](int node) {
    const double value = (*this)[node].wide_value;  // as it was written
    if ((*this)[node].operation != Operation::constant || round_to_type(Type::i32, value) != value) return node;
    return constant(value, Type::i32);
  };
  if (is_integer(a) && !is_integer(b)) b = to_integer(b);
  if (is_integer(b) && !is_integer(a)) a = to_integer(a);
  if (is_integer(a) == is_integer(b)) return;
  a = to_f32(a);
  b = to_f32(b);
}

int Graph::apply(Operation operation, int a, int b, int c) {
  if (operation == Operation::scatter) return scatter(a, b);
  if (operation == Operation::select) {
    if ((*this)[b].type != Type::boolean) match_integers(b, c);
  } else if (takes_integers(operation)) {
    if ((*this)[a].type != Type::boolean) match_integers(a, b);
  } else if (!is_logical(operation)) {
    a = to_f32(a);
    if (b >= 0) b = to_f32(b);
  }
  // Exact rewriting to cheaper operations.
  if (operation == Operation::divide && (*this)[b].operation == Operation::constant && is_power_of_two((*this)[b].value) &&
      (*this)[b].value == (*this)[b].wide_value) {
    b = constant(1 / (*this)[b].value, 1 / (*this)[b].wide_value);
    operation = Operation::multiply;
  }
  if (operation == Operation::multiply && is_constant(a, -1)) std::swap(a, b);
  if (operation == Operation::multiply && is_constant(b, -1)) {
    operation = Operation::negate;
    b = -1;
  }
  const auto is_negated = [&](int node) { return node >= 0 && (*this)[node].operation == Operation::negate; };
  if (operation == Operation::multiply || operation == Operation::divide) {
    const bool left = is_negated(a), right = is_negated(b);
    if (left) a = (*this)[a].operands[0];
    if (right) b = (*this)[b].operands[0];
    if (left != right) return apply(Operation::negate, apply(operation, a, b));
  }
  if (operation == Operation::subtract && is_negated(b)) {
    operation = Operation::add;
    b = (*this)[b].operands[0];
  }
  if (operation == Operation::add && (is_negated(a) || is_negated(b))) {
    if (!is_negated(b)) std::swap(a, b);
    operation = Operation::subtract;
    b = (*this)[b].operands[0];
  }

  Node node;
  node.operation = operation;
  node.operands = {a, b, c};
  node.type = value_type((*this)[operation == Operation::select ? b : a].type);
  if (is_comparison(operation)) node.type = Type::boolean;
  bool all_constant = true;
  std::array<double, 3> values{}, wide_values{};
  for (std::size_t i = 0; i < 3; ++i) {
    if (node.operands[i] < 0) continue;
    const Node& operand = (*this)[node.operands[i]];
    mixed_ = mixed_ || !combine(node.kind, operand.kind);
    node.kind = joined(node.kind, operand.kind);
    all_constant = all_constant && operand.operation == Operation::constant;
    values[i] = operand.value;
    wide_values[i] = operand.wide_value;
  }
  if (all_constant)
    if (const int folded =
            folded_constant(row_program::apply(operation, values), row_program::apply(operation, wide_values), node.type);
        folded >= 0)
      return folded;
  const int equal = simplified(node);
  return equal >= 0 ? equal : add(node);
}

int Graph::round_to(int value, Type type) {
  const Node& operand = (*this)[value];
  const bool is_number = type == Type::f32 || type == Type::f64;
  if (is_number) type = Type::f32;
  if (operand.type == type || (is_number && value_type(operand.type) == Type::f32)) return value;
  if (operand.operation == Operation::constant) {
    const double wide = is_number ? operand.wide_value : round_to_type(type, operand.wide_value);
    // An integer is converted from the number as written.
    const double value_of_it = type == Type::i32 ? wide : round_to_type(type, operand.value);
    if (const int folded = folded_constant(value_of_it, wide, value_type(type)); folded >= 0) return folded;
  }
  Node node;
  node.operation = Operation::round_to;
  node.kind = operand.kind;  // before to_f32(), which may move the nodes
  node.type = type;
  node.operands[0] = value_type(type) == Type::f32 && type != Type::f32 ? to_f32(value) : value;
  return add(node);
}

int Graph::round_to_problem_dtype(int value) {
  if ((*this)[value].to_problem_dtype) return value;
  Node node;
  node.operation = Operation::round_to;
  node.kind = (*this)[value].kind;
  node.operands[0] = to_f32(value);
  node.to_problem_dtype = true;
  return add(node);
}

int Graph::to_f32(int value) { return (*this)[value].type == Type::i32 ? round_to(value, Type::f32) : value; }

int Graph::cast(int value, Type type) {
  if ((*this)[value].type == Type::boolean && type != Type::boolean)
    value = apply(Operation::select, value, constant(1), constant(0));
  return round_to(value, type);
}

int Graph::uniform(int seed, int index) {
  Node node;
  node.operation = Operation::uniform;
  node.kind = Kind::full;
  node.operands[0] = seed;
  node.index = index;
  return add(node);
}

int Graph::scatter(int column, int value) {
  Node node;
  node.operation = Operation::scatter;
  node.kind = Kind::full;
  node.operands = {column, to_f32(value), -1};
  return add(node);
}

int Graph::reduce(Reducer reducer, std::vector<int> operands, bool grouped, int monoid) {
  for (int& operand : operands) operand = to_f32(operand);
  for (std::size_t i = 0; i < reductions_.size(); ++i) {
    const Reduction& r = reductions_[i];
    if (r.reducer == reducer && r.operands == operands && r.grouped == grouped && r.monoid == monoid)
      return static_cast<int>(i);
  }
  Reduction reduction;
  reduction.reducer = reducer;
  reduction.operands = std::move(operands);
  reduction.grouped = grouped;
  reduction.monoid = monoid;
  Kind kind = Kind::scalar;
  for (const int operand : reduction.operands) kind = joined(kind, (*this)[operand].kind);
  reduction.of_top = kind == Kind::top;
  reduction.place = place_;
  reductions_.push_back(std::move(reduction));
  return static_cast<int>(reductions_.size()) - 1;
}

int Graph::result(int reduction, int part) {
  const Reduction& r = reductions_[static_cast<std::size_t>(reduction)];
  Type type = Type::f32;
  if (r.reducer == Reducer::argmax || r.reducer == Reducer::argmin || r.reducer == Reducer::count) type = Type::i32;
  if (r.reducer == Reducer::topk && part == 1) type = Type::i32;
  if (r.reducer == Reducer::any || r.reducer == Reducer::all) type = Type::boolean;
  const Kind kind = r.grouped ? Kind::group : r.reducer == Reducer::topk ? Kind::top : Kind::row;
  return leaf(Operation::reduced, kind, type, reduction, part);
}

void Graph::finish(Program& program) const {
  std::vector<bool> used(nodes_.size()), reduced(reductions_.size());
  const auto use = [&](int node) { used[static_cast<std::size_t>(node)] = true; };
  for (const Output& output : program.outputs) use(output.node);
  // Operands precede a node, so one pass from the end finds all of them.
  for (std::size_t n = nodes_.size(); n-- > 0;) {
    if (!used[n]) continue;
    for (const int operand : nodes_[n].operands)
      if (operand >= 0) use(operand);
    if (nodes_[n].operation != Operation::reduced) continue;
    const auto r = static_cast<std::size_t>(nodes_[n].index);
    reduced[r] = true;
    for (const int operand : reductions_[r].operands) use(operand);
  }

  std::vector<int> stages(nodes_.size()), reduction_stages(reductions_.size());
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    for (const int operand : nodes_[n].operands)
      if (operand >= 0) stages[n] = std::max(stages[n], stages[static_cast<std::size_t>(operand)]);
    if (nodes_[n].operation != Operation::reduced) continue;
    const auto r = static_cast<std::size_t>(nodes_[n].index);
    for (const int operand : reductions_[r].operands)
      stages[n] = std::max(stages[n], stages[static_cast<std::size_t>(operand)]);
    if (!reductions_[r].of_top) ++stages[n];
    reduction_stages[r] = stages[n];
  }

  std::vector<std::size_t> order;
  for (std::size_t r = 0; r < reductions_.size(); ++r)
    if (reduced[r]) order.push_back(r);
  std::ranges::stable_sort(order, {}, [&](std::size_t r) { return reduction_stages[r]; });
  std::vector<int> new_reduction(reductions_.size(), -1), new_node(nodes_.size(), -1);
  for (std::size_t i = 0; i < order.size(); ++i) new_reduction[order[i]] = static_cast<int>(i);

  const auto renamed = [&](int node) { return node < 0 ? -1 : new_node[static_cast<std::size_t>(node)]; };
  program.nodes.clear();
  program.reductions.clear();
  program.stages = 0;
  for (std::size_t n = 0; n < nodes_.size(); ++n) {
    if (!used[n]) continue;
    new_node[n] = static_cast<int>(program.nodes.size());
    Node node = nodes_[n];
    node.stage = stages[n];
    for (int& operand : node.operands) operand = renamed(operand);
    if (node.operation == Operation::reduced) node.index = new_reduction[static_cast<std::size_t>(node.index)];
    program.nodes.push_back(std::move(node));
  }
  for (const std::size_t r : order) {
    Reduction reduction = reductions_[r];
    reduction.stage = reduction_stages[r];
    program.stages = std::max(program.stages, reduction.stage);
    for (int& operand : reduction.operands) operand = renamed(operand);
    program.reductions.push_back(std::move(reduction));
  }
  for (Output& output : program.outputs) output.node = renamed(output.node);
}

}  // namespace tunesmith::row_program
