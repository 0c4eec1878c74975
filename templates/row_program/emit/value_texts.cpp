#include "templates/row_program/emit/value_texts.h"

#include <algorithm>
#include <cmath>

#include "templates/row_program/emit/device_text.h"
#include "templates/row_program/emit/kernel_params.h"
#include "templates/row_program/evaluate/lower_bound.h"

namespace tunesmith::row_program {
namespace {

/// Reports whether `user` divides values of columns by one value of their row or group.
bool is_divisor(const Node& of, const Node& user) {
  if (user.type != Type::f32 || of.operation == Operation::constant) return false;
  if (is_rowwise(of.kind)) return !is_rowwise(user.kind);
  return of.kind == Kind::group && of.stage > 0 && user.kind == Kind::full;
}

}  // namespace

std::string loop_over(Kind kind) {
  return kind == Kind::top ? "#pragma unroll\n    for (int rank = 0; rank < columns_chosen; ++rank)\n      " : "    ";
}

/// Reports whether a node is the difference of a value of columns and a value of their row.
bool ValueTexts::is_from_row(const Node& of) const {
  return of.operation == Operation::subtract && of.kind == Kind::full && of.type == Type::f32 &&
         is_rowwise(node(of.operands[1]).kind) && node(of.operands[1]).type == Type::f32 &&
         node(of.operands[1]).operation != Operation::constant;
}

ValueTexts::ValueTexts(const Program& program)
    : program_(program),
      names_(names_of(program)),
      lower_bounds_(lower_bounds(program)),
      precise_(is_precise(program)),
      wide_(computes_in_f64(program)) {
  const auto refer = [&](int index, bool elsewhere) {
    const Node& of = node(index);
    if (elsewhere && !is_trivial(index) && (is_rowwise(of.kind) || (of.kind == Kind::group && of.stage > 0)))
      members_.insert(index);
  };
  for (const Node& user : program_.nodes)
    for (std::size_t i = 0; i < 3; ++i) {
      if (user.operands[i] < 0 || is_leaf(user.operation)) continue;
      const Node& of = node(user.operands[i]);
      const bool same_level = is_rowwise(of.kind) ? is_rowwise(user.kind) : of.kind == user.kind;
      refer(user.operands[i], !same_level || of.stage != user.stage);
      if (user.operation == Operation::divide && i == 1 && is_divisor(of, user)) divisors_.insert(user.operands[i]);
      if (user.operation == Operation::exp && precise_ && is_from_row(of)) exponentials_.insert(of.operands[1]);
    }
  for (const Reduction& reduction : program_.reductions) {
    for (const int operand : reduction.operands) refer(operand, !reduction.of_top || node(operand).stage != reduction.stage);
    if (reduction.gathered_at >= 0) refer(reduction.gathered_at, true);
  }
  for (int n = 0; n < static_cast<int>(program_.nodes.size()); ++n)
    if (is_gathered(n)) members_.insert(n);
  for (const Output& output : program_.outputs) refer(output.node, true);
}

std::string ValueTexts::divisor_type_of(int node) const {
  return divisor_type(lower_bounds_[static_cast<std::size_t>(node)], wide_);
}

/// Reports whether a leaf is read where it is needed.
bool ValueTexts::is_trivial(int index) const {
  const Node& of = node(index);
  if (of.operation == Operation::round_to && of.type == Type::f32) return is_trivial(of.operands[0]);
  switch (node(index).operation) {
    case Operation::constant:
    case Operation::number:
    case Operation::row_index:
    case Operation::rows:
    case Operation::cols:
    case Operation::rank: return true;
    default: return false;
  }
}

bool ValueTexts::is_uniform_of_column(const Node& of) { return of.operation == Operation::uniform && of.kind >= Kind::col; }

bool ValueTexts::shares_numbers(const FunctionBody& body, const Node& of) {
  return body.place == FunctionBody::Place::element && is_uniform_of_column(of);
}

int ValueTexts::uniform_calls_before(const Node& of) const {
  return static_cast<int>(std::count_if(program_.nodes.data(), &of, is_uniform_of_column));
}

int ValueTexts::uniform_calls() const {
  return static_cast<int>(std::ranges::count_if(program_.nodes, is_uniform_of_column));
}

/// Reports whether the function reads the node from Values or Groups.
bool ValueTexts::is_read(const FunctionBody& body, int index) const {
  const Node& of = node(index);
  if (is_trivial(index)) return false;
  if (is_rowwise(of.kind)) return body.place != FunctionBody::Place::of_row || of.stage != body.stage || is_gathered(index);
  // Values of groups that follow from inputs alone are computed where they are needed.
  if (of.kind == Kind::group && of.stage > 0) return body.place != FunctionBody::Place::of_group || of.stage != body.stage;
  return false;
}

void ValueTexts::count_uses(FunctionBody& body, int index) const {
  if (++body.uses[index] > 1 || is_read(body, index)) return;
  if (node(index).operation == Operation::reduced)
    if (const Reduction& reduction = program_.reductions[static_cast<std::size_t>(node(index).index)]; reduction.of_top)
      for (const int operand : reduction.operands) count_uses(body, operand);
  if (is_leaf(node(index).operation)) return;
  for (const int operand : node(index).operands)
    if (operand >= 0) count_uses(body, operand);
}

std::string ValueTexts::leaf_text(const FunctionBody& body, int index) const {
  const Node& of = node(index);
  const auto at = static_cast<std::size_t>(of.index);
  switch (of.operation) {
    case Operation::constant: return constant_text(of, wide_);
    case Operation::number: {
      const Number& number = program_.numbers[at];
      const std::string member = "params." + number_member(number.name);
      return number.type == Type::i32 ? "static_cast<int>(" + member + ")" : member;
    }
    case Operation::row_index:
      return body.place == FunctionBody::Place::element ? "static_cast<int>(v.row)" : "static_cast<int>(row)";
    case Operation::col_index: return "(static_cast<int>(v.column) + j)";
    case Operation::rows: return "static_cast<int>(params.row.rows)";
    case Operation::cols: return "params.row.cols";
    case Operation::rank: return "rank";
    case Operation::reduced: return reduced_text(of);
    case Operation::input: break;
    default: return {};
  }
  const Input& input = program_.inputs[at];
  const std::string which = std::to_string(position(program_.inputs, at));
  const auto value = [&](const std::string& element) { return as_value(element, *input.type, wide_); };
  if (input.kind == Kind::full) return value("v.input[" + which + "][j]");
  if (input.kind == Kind::col) return value("v.of_column[" + which + "][j]");
  // Operands of a function are double, whatever the array has.
  const bool converts = wide_ && *input.type != Type::f64 && *input.type != Type::i32;
  const auto converted = [&](const std::string& text) { return converts ? "static_cast<double>(" + text + ")" : text; };
  if (input.kind == Kind::group)
    return value(converted("load_of_group<" + element_type(*input.type) + ", columns_of_group>(params." +
                           address_member(input.name) + ", params." + stride_member(input.name) + ", params.row.cols, v)"));
  const std::string element = input.kind == Kind::row   ? "row"
                              : input.kind == Kind::top ? "row * params." + stride_member(input.name) + " + rank"
                                                        : "0";
  const std::string place = "(params." + address_member(input.name) + ", " + element + ")";
  if (*input.type == Type::i32) return "load_integer" + place;
  return value(converted("load_value<" + element_type(*input.type) + ">" + place));
}

std::string ValueTexts::reduced_text(const Node& of) const {
  const Reduction& reduction = program_.reductions[static_cast<std::size_t>(of.index)];
  int offset = 0;
  for (const Reduction& other : program_.reductions) {
    if (&other == &reduction) break;
    if (!other.is_exchanged()) continue;
    if (other.stage == reduction.stage && other.grouped == reduction.grouped) offset += floats_of(other, program_);
  }
  if (reduction.reducer == Reducer::custom) return "partial.value[" + std::to_string(offset + of.part) + "]";
  if (reduction.reducer == Reducer::topk) {
    const std::string function = of.part == 0   ? "value"
                                 : of.part == 1 ? "column"
                                                : "template more<" + std::to_string(of.part - 2) + ">";
    return reduction_type(reduction, precise_) + "::" + function + "(partial.value" +
           (offset > 0 ? " + " + std::to_string(offset) : "") + ", rank)";
  }
  std::string result = reduction_type(reduction, precise_) + "::" + result_function(reduction, of.part) + "(partial.value" +
                       (offset > 0 ? " + " + std::to_string(offset) : "") + ")";
  if (reduction.reducer != Reducer::mean) return result;
  const std::string columns = "static_cast<" + number_type(wide_) + ">(" +
                              (reduction.grouped ? "columns_of_group" : std::string("params.row.cols")) + ")";
  // A reciprocal can be computed while threads wait for the sum.
  return reduction.of_few_columns ? "multiply(" + result + ", reciprocal_approx(" + columns + "))"
                                  : "divide(" + result + ", " + columns + ")";
}

std::string ValueTexts::expression(FunctionBody& body, int index) const {
  if (const auto known = body.done.find(index); known != body.done.end()) return known->second;
  const Node& of = node(index);
  std::string text;
  if (is_read(body, index)) {
    text = (is_rowwise(of.kind) ? "values." : "groups.") + name(index) + (of.kind == Kind::top ? "[rank]" : "");
  } else if (of.operation == Operation::scatter) {
    return body.done[index] = scatter_text(body, index);
  } else if (of.operation == Operation::reduced && program_.reductions[static_cast<std::size_t>(of.index)].of_top) {
    text = reduced_top_text(body, index);
  } else if (is_leaf(of.operation)) {
    text = leaf_text(body, index);
  } else {
    std::array<std::string, 3> operands;
    std::array<const Node*, 3> nodes{};
    for (std::size_t k = 0; k < 3; ++k)
      if (of.operands[k] >= 0) {
        operands[k] = expression(body, of.operands[k]);
        nodes[k] = &node(of.operands[k]);
      }
    text = special_text(of, operands, nodes, body);
    if (text.empty()) text = function_text(of, operands, nodes, wide_);
  }
  const bool short_leaf = is_read(body, index) || is_trivial(index);
  // Elements share random numbers, so that none is computed under a condition.
  const bool has_line = !short_leaf && (!of.name.empty() || body.uses[index] > 1 || shares_numbers(body, of));
  if (has_line && of.kind == Kind::top) {
    body.lines += "    " + value_type_text(of.type, wide_) + " " + name(index) + "[columns_chosen];\n" + loop_over(of.kind) +
                  name(index) + "[rank] = " + bare(text) + ";\n";
    text = name(index) + "[rank]";
  } else if (has_line) {
    body.lines += "    const " + value_type_text(of.type, wide_) + " " + name(index) + " = " + bare(text) + ";\n";
    text = name(index);
  }
  return body.done[index] = text;
}

/// Reduces values that the thread has, one after the other.
std::string ValueTexts::reduced_top_text(FunctionBody& body, int index) const {
  const Node& of = node(index);
  const Reduction& reduction = program_.reductions[static_cast<std::size_t>(of.index)];
  std::string& partial = body.reduced[of.index];
  if (partial.empty()) {
    partial = names_.partials[static_cast<std::size_t>(index)];
    std::string terms;
    for (const int operand : reduction.operands)
      terms += (terms.empty() ? "{" : ", {") + bare(as_number(expression(body, operand), node(operand).type, wide_)) + "}";
    const std::string type =
        std::string(wide_ ? "ReductionsOf<double, " : "Reductions<") + reduction_type(reduction, precise_) + ">";
    body.lines += "    " + type + "::Value " + partial + " = " + type + "::identity();\n#pragma unroll\n" +
                  "    for (int rank = 0; rank < columns_chosen; ++rank) {\n      const " + number_type(wide_) + " terms[" +
                  std::to_string(reduction.operands.size()) + "][1] = {" + terms + "};\n      " + type + "::include(" +
                  partial + ", terms, {0, 1, rank});\n    }\n";
  }
  if (reduction.reducer == Reducer::custom) return partial + ".value[" + std::to_string(of.part) + "]";
  const std::string result =
      reduction_type(reduction, precise_) + "::" + result_function(reduction, of.part) + "(" + partial + ".value)";
  return reduction.reducer == Reducer::mean
             ? "divide(" + result + ", static_cast<" + number_type(wide_) + ">(columns_chosen))"
             : result;
}

/// The values at the columns that are this one.
std::string ValueTexts::scatter_text(FunctionBody& body, int index) const {
  const Node& of = node(index);
  const std::string column = expression(body, of.operands[0]), value = expression(body, of.operands[1]);
  body.lines += "    " + number_type(wide_) + " " + name(index) + (wide_ ? " = 0.0;\n" : " = 0.0f;\n") +
                loop_over(Kind::top) + name(index) + " = " + column + " == static_cast<int>(v.column) + j ? " + name(index) +
                " + " + value + " : " + name(index) + ";\n";
  return name(index);
}

/// Random numbers, differences under an exponential, and divisions by constants and values of the row.
std::string ValueTexts::special_text(const Node& of, const std::array<std::string, 3>& o,
                                     const std::array<const Node*, 3>& nodes, FunctionBody& body) const {
  if (of.operation == Operation::uniform) {
    const bool shares = shares_numbers(body, of);
    const std::string which = shares ? "<" + std::to_string(uniform_calls_before(of)) + ">" : "";
    const std::string row = body.place == FunctionBody::Place::element ? "v.row" : "row",
                      place = shares ? "v, j" : row + ", 0";
    const std::string text = "uniform_number" + which + "(" + o[0] + ", " + place + ", " + std::to_string(of.index) + ")";
    return wide_ ? "static_cast<double>(" + text + ")" : text;
  }
  if (of.operation == Operation::exp && precise_ && nodes[0]->operation == Operation::subtract &&
      !is_read(body, of.operands[0])) {
    if (is_from_row(*nodes[0]))
      return "values." + exponential_name(nodes[0]->operands[1]) + "(" + bare(expression(body, nodes[0]->operands[0])) + ")";
    return "exponential_of_difference(" + expression(body, nodes[0]->operands[0]) + ", " +
           expression(body, nodes[0]->operands[1]) + ")";
  }
  if (of.operation != Operation::divide || of.type != Type::f32 || is_rowwise(of.kind)) return {};
  if (nodes[1]->operation == Operation::constant) {
    const double reciprocal = 1 / nodes[1]->value;
    if (std::isfinite(reciprocal) && std::fabs(reciprocal) > 0x1p-120 && std::fabs(reciprocal) < 0x1p120)
      return "(" + o[0] + " * " + number_literal(reciprocal, wide_) + ")";
  }
  if (is_divisor(*nodes[1], of))
    return (is_rowwise(nodes[1]->kind) ? "values." : "groups.") + divisor_name(of.operands[1]) + ".divide(" + bare(o[0]) +
           ")";
  return {};
}

}  // namespace tunesmith::row_program
