#include "templates/row_program/emit/emit_functions.h"

#include <algorithm>
#include <utility>

#include "templates/row_program/emit/device_text.h"
#include "templates/row_program/emit/kernel_params.h"
#include "templates/row_program/passes/gather.h"

namespace tunesmith::row_program {
namespace {

/// Returns the text of a member function.
std::string function(const std::string& signature, const std::string& lines) {
  return "  static __device__ __forceinline__ void " + signature + (lines.empty() ? " {}\n" : " {\n" + lines + "  }\n");
}

}  // namespace

ProgramFunctions::ProgramFunctions(const Program& program, const ValueTexts& value_texts, const std::vector<int>& kept)
    : program_(program), value_texts_(value_texts), kept_(kept), wide_(computes_in_f64(program)) {}

int ProgramFunctions::full_outputs() const {
  return static_cast<int>(std::ranges::count(program_.outputs, Kind::full, &Output::kind));
}

int ProgramFunctions::sum_position(std::size_t output) const {
  return position(program_.outputs, output) + (program_.outputs[output].kind == Kind::col ? 0 : column_sums(program_));
}

std::string ProgramFunctions::terms(int stage, bool grouped) const {
  FunctionBody body;
  std::vector<std::pair<int, Type>> operands;
  for (const Reduction& reduction : program_.reductions)
    if (reduction.stage == stage && reduction.grouped == grouped && reduction.is_exchanged())
      for (const int operand : reduction.operands) {
        count_uses(body, operand);
        operands.emplace_back(operand, node(operand).type);
      }
  if (operands.empty()) return {};
  // Values that are kept are used twice, so that they have a line before their inputs are replaced.
  if (!grouped && stage == program_.stages)
    for (const int index : kept_) count_uses(body, index);
  std::string stores;
  for (std::size_t k = 0; k < operands.size(); ++k)
    stores += "    terms[" + std::to_string(k) +
              "][j] = " + bare(as_number(expression(body, operands[k].first), operands[k].second, wide_)) + ";\n";
  if (!grouped && stage == program_.stages)
    for (std::size_t k = 0; k < kept_.size(); ++k)
      stores += "    v.input[" + std::to_string(k) + "][j] = " + expression(body, kept_[k]) + ";  // kept for the outputs\n";
  return "  template <typename Vector, int vector>\n" +
         function(std::string(grouped ? "group_terms" : "terms") + "(OfStage<" + std::to_string(stage) +
                      ">, const Params& params, const Values& values, const Groups& groups,\n" +
                      (grouped ? "      const " : "      ") +
                      std::string("Vector& v, int j, " + number_type(wide_) + " (*terms)[vector])"),
                  body.lines + stores);
}

std::string ProgramFunctions::gather(std::size_t number) const {
  const std::size_t at = gathers_of(program_)[number];
  const Reduction& reduction = program_.reductions[at];
  const std::string tag = "OfGather<" + std::to_string(number) + ">, const Params& params, ";
  FunctionBody column;
  column.place = FunctionBody::Place::of_row;
  column.stage = -1;
  std::string text = "  static __device__ __forceinline__ auto column_to_gather(" + tag +
                     "int64 row, const Values& values) {\n" + "    return " +
                     bare(expression(column, reduction.gathered_at)) + ";\n  }\n";
  FunctionBody body;
  const int term = reduction.operands[0];
  count_uses(body, term);
  const std::string value = as_number(expression(body, term), node(term).type, wide_);
  std::string stores;
  for (std::size_t n = 0; n < program_.nodes.size(); ++n)  // 0 is added, as in the sum, because the term may be -0
    if (program_.nodes[n].operation == Operation::reduced && program_.nodes[n].index == static_cast<int>(at))
      stores +=
          "    values." + value_texts_.name(static_cast<int>(n)) + " = " + value + " + " + number_literal(0, wide_) + ";\n";
  return text + "  template <typename Vector>\n" +
         function("gather(" + tag + "const Vector& v, int j, Values& values)", body.lines + stores);
}

std::string ProgramFunctions::store_value_of_row(FunctionBody& body, int index) const {
  const bool top = node(index).kind == Kind::top;
  const std::string value = expression(body, index);
  return loop_over(node(index).kind) + "values." + value_texts_.name(index) + (top ? "[rank]" : "") + " = " + bare(value) +
         ";\n";
}

std::string ProgramFunctions::derive(int stage) const {
  FunctionBody body;
  body.place = FunctionBody::Place::of_row;
  body.stage = stage;
  std::vector<int> own, own_divisors, own_exponentials;
  for (const int index : value_texts_.members())
    if (is_rowwise(node(index).kind) && node(index).stage == stage && !value_texts_.is_gathered(index)) own.push_back(index);
  for (const int index : value_texts_.divisors())
    if (is_rowwise(node(index).kind) && node(index).stage == stage) own_divisors.push_back(index);
  for (const int index : value_texts_.exponentials())
    if (node(index).stage == stage) own_exponentials.push_back(index);
  for (const int index : own) count_uses(body, index);
  for (const int index : own_divisors) count_uses(body, index);
  for (const int index : own_exponentials) count_uses(body, index);
  std::string stores;
  for (const int index : own) stores += store_value_of_row(body, index);
  for (const int index : own_divisors)
    stores += "    values." + value_texts_.divisor_name(index) + " = " + value_texts_.divisor_type_of(index) + "(" +
              as_number(expression(body, index), node(index).type, wide_) + ");\n";
  for (const int index : own_exponentials)
    stores += "    values." + value_texts_.exponential_name(index) + " = ExponentialOfDifference(" +
              bare(expression(body, index)) + ");\n";
  const std::string partial = stage == 0 ? "" : ", const RowReductions<" + std::to_string(stage) + ">::Value& partial";
  return function("derive(OfStage<" + std::to_string(stage) + ">, const Params& params, int64 row" + partial +
                      (stage == 0 ? ", " : ",\n      ") + "Values& values)",
                  body.lines + stores);
}

std::string ProgramFunctions::derive_group(int stage) const {
  FunctionBody body;
  body.place = FunctionBody::Place::of_group;
  body.stage = stage;
  std::vector<int> own, own_divisors;
  for (const int index : value_texts_.members())
    if (node(index).kind == Kind::group && node(index).stage == stage) own.push_back(index);
  for (const int index : value_texts_.divisors())
    if (node(index).kind == Kind::group && node(index).stage == stage) own_divisors.push_back(index);
  for (const int index : own) count_uses(body, index);
  for (const int index : own_divisors) count_uses(body, index);
  std::string stores;
  for (const int index : own)
    stores += "    groups." + value_texts_.name(index) + " = " + bare(expression(body, index)) + ";\n";
  for (const int index : own_divisors)
    stores += "    groups." + value_texts_.divisor_name(index) + " = " + value_texts_.divisor_type_of(index) +
              (wide_ ? "(" : "::of_group(") + bare(expression(body, index)) + ");\n";
  const std::string number = std::to_string(stage);
  return "  template <typename Vector>\n" +
         function("derive_group(OfStage<" + number + ">, const Params& params, const Values& values, const Vector& v,\n" +
                      "      const GroupReductions<" + number + ">::Value& partial, Groups& groups)",
                  body.lines + stores);
}

int ProgramFunctions::stored_node(const Output& output) const {
  const Node& of = node(output.node);
  if (output.sum_over_rows) return output.node;
  const bool rounds = of.operation == Operation::round_to && of.type == *output.type && of.type != Type::i32;
  return rounds && of.name.empty() ? of.operands[0] : output.node;
}

std::string ProgramFunctions::outputs(bool of_kept) const {
  FunctionBody body;
  std::string stores;
  if (of_kept)
    for (std::size_t k = 0; k < kept_.size(); ++k) {
      const std::string& name = value_texts_.name(kept_[k]);
      body.lines += "    const " + number_type(wide_) + " " + name + " = v.input[" + std::to_string(k) + "][j];\n";
      body.done[kept_[k]] = name;
    }
  for (const Output& output : program_.outputs)
    if (output.kind == Kind::full || output.sum_over_rows) count_uses(body, stored_node(output));
  for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
    const Output& output = program_.outputs[i];
    if (output.kind != Kind::full && !output.sum_over_rows) continue;
    const int stored = stored_node(output),
              at = output.sum_over_rows ? full_outputs() + sum_position(i) : position(program_.outputs, i);
    stores += "    results[" + std::to_string(at) + "][j] = " +
              bare(output.sum_over_rows ? as_number(expression(body, stored), node(stored).type, wide_)
                                        : as_element(expression(body, stored), node(stored).type, *output.type, wide_)) +
              ";  // " + (output.sum_over_rows ? "of " : "") + output.name + "\n";
  }
  const int results = full_outputs() + column_sums(program_) + totals(program_);
  return "  template <typename Vector, int vector>\n" +
         function(std::string(of_kept ? "outputs_of_kept" : "outputs") +
                      "(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,\n" +
                      "      " + number_type(wide_) + " (&results)[" + std::to_string(std::max(1, results)) + "][vector])",
                  body.lines + stores);
}

std::string ProgramFunctions::store_of(const Output& output, const std::string& position_text,
                                       const std::string& value) const {
  const Type type = node(output.node).type;
  const std::string place = "(params." + address_member(output.name) + ", " + position_text + ", ";
  if (*output.type == Type::i32)
    return "    store_integer" + place + (type == Type::f32 ? "integer_of(" + value + ")" : value) + ");\n";
  return "    store_value<" + element_type(*output.type) + ">" + place + as_number(value, type, wide_) + ");\n";
}

std::string ProgramFunctions::store_of_top(const Output& output, const std::string& value) const {
  const std::string first = "row * params." + stride_member(output.name), rank = "[rank]";
  const bool same_type =
      *output.type != Type::boolean && (*output.type == Type::i32) == (node(output.node).type == Type::i32);
  if (value.ends_with(rank) && same_type)
    return "    store_chosen<" + element_type(*output.type) + ">(params." + address_member(output.name) + ", " + first +
           ", " + value.substr(0, value.size() - rank.size()) + ");\n";
  return loop_over(output.kind) + store_of(output, first + " + rank", value).substr(4);
}

std::string ProgramFunctions::store_row() const {
  std::string text;
  FunctionBody body;
  body.place = FunctionBody::Place::of_row;
  body.stage = -1;
  for (const Output& output : program_.outputs)
    if (is_rowwise(output.kind) && !output.sum_over_rows)
      text += output.kind == Kind::top ? store_of_top(output, expression(body, output.node))
                                       : store_of(output, "row", expression(body, output.node));
  return function("store_row(const Params& params, int64 row, const Values& values)", text);
}

std::string ProgramFunctions::store_groups() const {
  std::string text;
  FunctionBody body;
  body.place = FunctionBody::Place::element;
  for (const Output& output : program_.outputs)
    if (output.kind == Kind::group)
      text += store_of(output, "row * params." + stride_member(output.name) + " + group", expression(body, output.node));
  return function("store_groups(const Params& params, int64 row, int64 group, const Groups& groups)", text);
}

std::string ProgramFunctions::store_sum() const {
  std::string text;
  for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
    const Output& output = program_.outputs[i];
    if (output.sum_over_rows)
      text += "    if constexpr (which == " + std::to_string(sum_position(i)) + ") store_value<" +
              element_type(*output.type) + ">(params." + address_member(output.name) + ", column, sum);\n";
  }
  return "  template <int which>\n" +
         function("store_sum(const Params& params, int64 column, " + number_type(wide_) + " sum)", text);
}

}  // namespace tunesmith::row_program
