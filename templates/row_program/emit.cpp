#include "templates/row_program/emit.h"

#include <algorithm>

#include "templates/row_program/device_text.h"
#include "templates/row_program/keep.h"
#include "templates/row_program/value_texts.h"

namespace tunesmith::row_program {
namespace {

/// Writes the struct Program.
class Writer {
 public:
  Writer(const Program& program, bool any_strides)
      : program_(program),
        value_texts_(program),
        kept_(kept_nodes(program)),
        wide_(computes_in_f64(program)),
        any_strides_(any_strides) {}

  std::string definition(const std::vector<std::string>& column_types) {
    std::string monoids;
    for (std::size_t i = 0; i < program_.monoids.size(); ++i)
      monoids += monoid_definition(program_.monoids[i], static_cast<int>(i), wide_);
    std::string text = monoids + "/// The program: each of its lines is a line of these functions.\nstruct Program {\n";
    text += "  using Params = RowProgramParams;\n  using First = " + first_type() + ";\n";
    text += "  using Inputs = TypeList<" + types(program_.inputs) + ">;\n";
    text += "  using Outputs = TypeList<" + types(program_.outputs) + ">;\n";
    std::string columns;
    for (const std::string& type : column_types) columns += (columns.empty() ? "" : ", ") + type;
    text += "  using ColumnArrays = ColumnList<" + columns + ">;\n";
    text += "  static constexpr int stages = " + std::to_string(program_.stages) + ";\n";
    text += "  static constexpr int kept = " + std::to_string(kept_.size()) + ";\n";
    text += "  static constexpr int sums = " + std::to_string(sums()) + ";\n";
    if (totals(program_) > 0) text += "  static constexpr int totals = " + std::to_string(totals(program_)) + ";\n";
    text += "  static constexpr int columns_of_group = " + std::to_string(std::max(program_.group, 1)) + ";\n";
    if (program_.top > 0) text += "  static constexpr int columns_chosen = " + std::to_string(program_.top) + ";\n";
    text += reductions("RowReductions", false) + reductions("GroupReductions", true);
    text += members("Values", true) + members("Groups", false) + "\n" + uses() + accessors();
    for (int stage = 0; stage <= program_.stages; ++stage) {
      if (stage > 0) text += terms(stage, false);
      text += derive(stage);
      if (stage > 0 && has_values_of_groups()) text += terms(stage, true) + derive_group(stage);
    }
    text += outputs(false) + (kept_.empty() ? "" : outputs(true));
    text += function("store_row(const Params& params, int64 row, const Values& values)", store_row());
    text += function("store_groups(const Params& params, int64 row, int64 group, const Groups& groups)", store_groups());
    if (sums() > 0)
      text += "  template <int which>\n" +
              function("store_sum(const Params& params, int64 column, " + number_type(wide_) + " sum)", store_sum());
    return text + "};\n";
  }

 private:
  const Node& node(int index) const { return program_.nodes[static_cast<std::size_t>(index)]; }
  std::string expression(FunctionBody& body, int index) const { return value_texts_.expression(body, index); }
  void count_uses(FunctionBody& body, int index) const { value_texts_.count_uses(body, index); }

  /// Reports whether values [row, col/N] depend on reductions, of groups or of rows.
  bool has_values_of_groups() const {
    return std::ranges::any_of(program_.nodes, [](const Node& of) { return of.kind == Kind::group && of.stage > 0; });
  }

  template <typename Array>
  static std::string types(const std::vector<Array>& arrays) {
    std::string text;
    for (const Array& array : arrays)
      if (array.kind == Kind::full) text += (text.empty() ? "" : ", ") + element_type(*array.type);
    return text;
  }

  std::string first_type() const {
    const int first = first_full_array(program_);
    const auto inputs = static_cast<int>(program_.inputs.size());
    if (first < 0) return "float";
    return element_type(first < inputs ? *program_.inputs[static_cast<std::size_t>(first)].type
                                       : *program_.outputs[static_cast<std::size_t>(first - inputs)].type);
  }

  std::string members(const char* name, bool of_rows) const {
    std::string text;
    for (const int index : value_texts_.members())
      if (is_rowwise(node(index).kind) == of_rows)
        text += "    " + value_type_text(node(index).type, wide_) + " " + value_texts_.name(index) +
                (node(index).kind == Kind::top ? "[columns_chosen]" : "") + ";\n";
    for (const int index : value_texts_.divisors())
      if (is_rowwise(node(index).kind) == of_rows)
        text += "    " + divisor_type() + " " + value_texts_.divisor_name(index) + ";\n";
    for (const int index : value_texts_.exponentials())
      if (of_rows) text += "    ExponentialOfDifference " + value_texts_.exponential_name(index) + ";\n";
    return text.empty() ? "  struct " + std::string(name) + " {};\n"
                        : "  struct " + std::string(name) + " {\n" + text + "  };\n";
  }

  std::string reducers(int stage, bool grouped) const {
    std::string text;
    for (const Reduction& reduction : program_.reductions) {
      if (reduction.stage != stage || reduction.grouped != grouped || reduction.of_top) continue;
      text += (text.empty() ? "" : ", ") + reduction_type(reduction, is_precise(program_));
    }
    return text;
  }
  /// Reports whether a list of chosen columns needs a merge of its own (row_program/top_lists.cuh).
  bool has_long_list(int stage, bool grouped) const {
    constexpr int most_in_registers = 32;
    return program_.top > most_in_registers && std::ranges::any_of(program_.reductions, [&](const Reduction& reduction) {
             return reduction.reducer == Reducer::topk && reduction.stage == stage && reduction.grouped == grouped;
           });
  }
  std::string divisor_type() const { return wide_ ? "DoubleDivisor" : "Divisor"; }
  std::string reductions_of(const std::string& list) const {
    if (!wide_) return "Reductions<" + list + ">";
    return "ReductionsOf<double" + (list.empty() ? "" : ", " + list) + ">";
  }
  /// Returns the alias that maps a stage to its reductions.
  std::string reductions(const char* name, bool grouped) const {
    std::string list;
    bool some = false;
    for (int stage = 1; stage <= program_.stages; ++stage) {
      list += std::string(", ") + (has_long_list(stage, grouped) ? "List" : "") + reductions_of(reducers(stage, grouped));
      some = some || !reducers(stage, grouped).empty();
    }
    return "  template <int stage>\n  using " + std::string(name) +
           (some ? " = typename TypeAt<stage - 1" + list + ">::type;\n" : " = " + reductions_of("") + ";\n");
  }

  static std::string function(const std::string& signature, const std::string& lines) {
    return "  static __device__ __forceinline__ void " + signature + (lines.empty() ? " {}\n" : " {\n" + lines + "  }\n");
  }

  std::string terms(int stage, bool grouped) {
    FunctionBody body;
    std::vector<std::pair<int, Type>> operands;
    for (const Reduction& reduction : program_.reductions)
      if (reduction.stage == stage && reduction.grouped == grouped && !reduction.of_top)
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
        stores +=
            "    v.input[" + std::to_string(k) + "][j] = " + expression(body, kept_[k]) + ";  // kept for the outputs\n";
    return "  template <typename Vector, int vector>\n" +
           function(std::string(grouped ? "group_terms" : "terms") + "(OfStage<" + std::to_string(stage) +
                        ">, const Params& params, const Values& values, const Groups& groups,\n" +
                        (grouped ? "      const " : "      ") +
                        std::string("Vector& v, int j, " + number_type(wide_) + " (*terms)[vector])"),
                    body.lines + stores);
  }

  std::string store_value_of_row(FunctionBody& body, int index) const {
    const bool top = node(index).kind == Kind::top;
    const std::string value = expression(body, index);
    return loop_over(node(index).kind) + "values." + value_texts_.name(index) + (top ? "[rank]" : "") + " = " + bare(value) +
           ";\n";
  }

  std::string derive(int stage) {
    FunctionBody body;
    body.place = FunctionBody::Place::of_row;
    body.stage = stage;
    std::vector<int> own, own_divisors, own_exponentials;
    for (const int index : value_texts_.members())
      if (is_rowwise(node(index).kind) && node(index).stage == stage) own.push_back(index);
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
      stores += "    values." + value_texts_.divisor_name(index) + " = " + divisor_type() + "(" +
                as_number(expression(body, index), node(index).type, wide_) + ");\n";
    for (const int index : own_exponentials)
      stores += "    values." + value_texts_.exponential_name(index) + " = ExponentialOfDifference(" +
                bare(expression(body, index)) + ");\n";
    const std::string partial = stage == 0 ? "" : ", const RowReductions<" + std::to_string(stage) + ">::Value& partial";
    return function("derive(OfStage<" + std::to_string(stage) + ">, const Params& params, int64 row" + partial +
                        (stage == 0 ? ", " : ",\n      ") + "Values& values)",
                    body.lines + stores);
  }

  std::string derive_group(int stage) {
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
      stores += "    groups." + value_texts_.divisor_name(index) + " = " + divisor_type() + "(" +
                bare(expression(body, index)) + ");\n";
    const std::string number = std::to_string(stage);
    return "  template <typename Vector>\n" +
           function("derive_group(OfStage<" + number + ">, const Params& params, const Values& values, const Vector& v,\n" +
                        "      const GroupReductions<" + number + ">::Value& partial, Groups& groups)",
                    body.lines + stores);
  }

  /// Returns the value that a store rounds: rounding it before would change nothing.
  int stored_node(const Output& output) const {
    const Node& of = node(output.node);
    if (output.sum_over_rows) return output.node;
    const bool rounds = of.operation == Operation::round_to && of.type == *output.type && of.type != Type::i32;
    return rounds && of.name.empty() ? of.operands[0] : output.node;
  }

  /// `of_kept`: from the values that replaced the inputs.
  std::string outputs(bool of_kept) {
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
    const int results = full_outputs() + sums();
    return "  template <typename Vector, int vector>\n" +
           function(std::string(of_kept ? "outputs_of_kept" : "outputs") +
                        "(const Params& params, const Values& values, const Groups& groups, const Vector& v, int j,\n" +
                        "      " + number_type(wide_) + " (&results)[" + std::to_string(std::max(1, results)) + "][vector])",
                    body.lines + stores);
  }

  int sums() const { return column_sums(program_) + totals(program_); }
  /// Position of an output among the sums.
  int sum_position(std::size_t output) const {
    return position(program_.outputs, output) + (program_.outputs[output].kind == Kind::col ? 0 : column_sums(program_));
  }

  int full_outputs() const { return static_cast<int>(std::ranges::count(program_.outputs, Kind::full, &Output::kind)); }

  std::string store_of(const Output& output, const std::string& position_text, const std::string& value) const {
    const Type type = node(output.node).type;
    const std::string place = "(params." + address_member(output.name) + ", " + position_text + ", ";
    if (*output.type == Type::i32)
      return "    store_integer" + place + (type == Type::f32 ? "integer_of(" + value + ")" : value) + ");\n";
    return "    store_value<" + element_type(*output.type) + ">" + place + as_number(value, type, wide_) + ");\n";
  }

  /// `value`: at one rank.
  std::string store_of_top(const Output& output, const std::string& value) const {
    const std::string first = "row * params." + stride_member(output.name), rank = "[rank]";
    const bool same_type =
        *output.type != Type::boolean && (*output.type == Type::i32) == (node(output.node).type == Type::i32);
    if (value.ends_with(rank) && same_type)
      return "    store_chosen<" + element_type(*output.type) + ">(params." + address_member(output.name) + ", " + first +
             ", " + value.substr(0, value.size() - rank.size()) + ");\n";
    return loop_over(output.kind) + store_of(output, first + " + rank", value).substr(4);
  }

  std::string store_row() {
    std::string text;
    FunctionBody body;
    body.place = FunctionBody::Place::of_row;
    body.stage = -1;
    for (const Output& output : program_.outputs)
      if (is_rowwise(output.kind) && !output.sum_over_rows)
        text += output.kind == Kind::top ? store_of_top(output, expression(body, output.node))
                                         : store_of(output, "row", expression(body, output.node));
    return text;
  }

  std::string store_groups() {
    std::string text;
    FunctionBody body;
    body.place = FunctionBody::Place::element;
    for (const Output& output : program_.outputs)
      if (output.kind == Kind::group)
        text += store_of(output, "row * params." + stride_member(output.name) + " + group", expression(body, output.node));
    return text;
  }

  std::string store_sum() const {
    std::string text;
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      const Output& output = program_.outputs[i];
      if (output.sum_over_rows)
        text += "    if constexpr (which == " + std::to_string(sum_position(i)) + ") store_value<" +
                element_type(*output.type) + ">(params." + address_member(output.name) + ", column, sum);\n";
    }
    return text;
  }

  std::string uses() const {
    std::string text = "  template <int pass>\n  static __device__ __forceinline__ constexpr PassUses uses() {\n";
    const int passes = program_.stages + (kept_.empty() ? 1 : 2);
    for (int pass = 1; pass <= passes; ++pass) {
      const bool of_kept = pass == program_.stages + 2;
      const Needs needs = of_kept ? needs_of_pass(program_, program_.stages + 1, {kept_.begin(), kept_.end()})
                                  : needs_of_pass(program_, pass);
      const unsigned inputs = of_kept ? (1U << kept_.size()) - 1 : needs.inputs;
      text += "    " + (pass < passes ? "if constexpr (pass == " + std::to_string(pass) + ") " : std::string()) +
              "return {.inputs = " + std::to_string(inputs) + ", .columns = " + std::to_string(needs.columns) +
              ", .groups = " + std::to_string(needs.groups) + "};\n";
    }
    return text + "  }\n";
  }

  /// Returns the initializer of an array [row, col].
  std::string full_array(const std::string& name, bool is_first) const {
    const std::string rows = is_first ? "params.row.input[0], params.row.input_stride[0]"
                                      : "params." + address_member(name) + ", params." + stride_member(name);
    return "{" + rows + (any_strides_ ? ", params." + columns_member(name) + ", params." + vectors_member(name) : "") +
           "};\n";
  }

  std::string accessors() const {
    std::string inputs, outputs_text, columns;
    const auto condition = [](int which) { return "    if constexpr (which == " + std::to_string(which) + ") return "; };
    const int first = first_full_array(program_);
    for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
      const Input& input = program_.inputs[i];
      const int which = position(program_.inputs, i);
      if (input.kind == Kind::col) columns += condition(which) + "params." + address_member(input.name) + ";\n";
      if (input.kind != Kind::full) continue;
      inputs += condition(which) + full_array(input.name, static_cast<int>(i) == first);
    }
    const auto begin = static_cast<int>(program_.inputs.size());
    for (std::size_t i = 0; i < program_.outputs.size(); ++i) {
      const Output& output = program_.outputs[i];
      if (output.kind != Kind::full) continue;
      outputs_text +=
          condition(position(program_.outputs, i)) + full_array(output.name, begin + static_cast<int>(i) == first);
    }
    const auto accessor = [](const char* type, const char* name, const std::string& lines) {
      return lines.empty() ? std::string()
                           : "  template <int which>\n  static __device__ __forceinline__ " + std::string(type) + " " +
                                 name + "(const Params& params) {\n" + lines + "  }\n";
    };
    const char* const full = any_strides_ ? "StridedArray" : "RowsOfArray";
    return accessor(full, "input", inputs) + accessor(full, "output", outputs_text) +
           accessor("const void*", "column_array", columns) + "\n";
  }

  const Program& program_;
  const ValueTexts value_texts_;
  const std::vector<int> kept_;
  const bool wide_, any_strides_;
};

}  // namespace

std::string address_member(const std::string& array) { return array + "_address"; }
std::string stride_member(const std::string& array) { return array + "_stride"; }
std::string columns_member(const std::string& array) { return array + "_cols"; }
std::string vectors_member(const std::string& array) { return array + "_vectors"; }
std::string number_member(const std::string& number) { return number + "_number"; }

int first_full_array(const Program& program) {
  for (std::size_t i = 0; i < program.inputs.size(); ++i)
    if (program.inputs[i].kind == Kind::full) return static_cast<int>(i);
  for (std::size_t i = 0; i < program.outputs.size(); ++i)
    if (program.outputs[i].kind == Kind::full) return static_cast<int>(program.inputs.size() + i);
  return -1;
}

row::RowAddresses addresses_of_rows(const Program& program) {
  const int first = first_full_array(program);
  row::RowAddresses addresses;
  int at = 0;
  const auto add = [&](const auto& arrays, std::vector<std::string>& list) {
    for (const auto& array : arrays) {
      if (array.kind == Kind::full) list.push_back(at == first ? "row.input[0]" : address_member(array.name));
      ++at;
    }
  };
  add(program.inputs, addresses.inputs);
  add(program.outputs, addresses.outputs);
  return addresses;
}

int exchanged_floats(const Program& program, int stage) {
  int floats = 0;
  for (const Reduction& reduction : program.reductions)
    if (reduction.stage == stage && !reduction.grouped && !reduction.of_top) floats += floats_of(reduction, program);
  return computes_in_f64(program) ? 2 * floats : floats;
}

int column_sums(const Program& program) {
  return static_cast<int>(std::ranges::count(program.outputs, Kind::col, &Output::kind));
}

int totals(const Program& program) {
  return static_cast<int>(std::ranges::count(program.outputs, Kind::scalar, &Output::kind));
}

std::string params_definition(const Program& program) {
  std::string text = "/// The kernels' only argument.\nstruct RowProgramParams {\n  RowParams row;\n";
  const int first = first_full_array(program);
  const bool wide = computes_in_f64(program);
  int at = 0;
  const auto add = [&](const std::string& name, Kind kind, bool output) {
    if (at++ == first) return;
    text += std::string("  ") + (output ? "void* " : "const void* ") + address_member(name) + ";\n";
    if (kind == Kind::full || kind == Kind::group || kind == Kind::top) text += "  int64 " + stride_member(name) + ";\n";
  };
  for (const Input& input : program.inputs) add(input.name, input.kind, false);
  for (const Output& output : program.outputs) add(output.name, output.kind, true);
  for (const Number& number : program.numbers)
    text += std::string(number.type == Type::i32 ? "  int64 "
                        : wide                   ? "  double "
                                                 : "  float ") +
            number_member(number.name) + ";\n";
  return text + "};\n\n";
}

std::string program_type(const Program& program) {
  return totals(program) > 0 ? "tunesmith::WithTotals<tunesmith::Program>" : "tunesmith::Program";
}

std::string program_definition(const Program& program, const std::vector<std::string>& column_types, bool any_strides) {
  return Writer(program, any_strides).definition(column_types);
}

}  // namespace tunesmith::row_program
