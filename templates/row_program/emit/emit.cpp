#include "templates/row_program/emit/emit.h"

#include <algorithm>
#include <bit>

#include "templates/row_program/emit/device_text.h"
#include "templates/row_program/emit/emit_functions.h"
#include "templates/row_program/emit/kernel_params.h"
#include "templates/row_program/emit/value_texts.h"
#include "templates/row_program/passes/gather.h"
#include "templates/row_program/passes/keep.h"

namespace tunesmith::row_program {
namespace {

/// Writes the struct Program: its types, constants and accessors, and, with ProgramFunctions, its functions.
class Writer {
 public:
  Writer(const Program& program, bool any_strides)
      : program_(program),
        value_texts_(program),
        kept_(kept_nodes(program)),
        gathers_(gathers_of(program)),
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
    text += "  static constexpr int uniform_calls = " + std::to_string(value_texts_.uniform_calls()) + ";\n";
    text += "  static constexpr int sums = " + std::to_string(sums()) + ";\n";
    if (totals(program_) > 0) text += "  static constexpr int totals = " + std::to_string(totals(program_)) + ";\n";
    text += "  static constexpr int columns_of_group = " + std::to_string(std::max(program_.group, 1)) + ";\n";
    if (program_.top > 0) text += "  static constexpr int columns_chosen = " + std::to_string(program_.top) + ";\n";
    text += reductions("RowReductions", false) + reductions("GroupReductions", true);
    text += members("Values", true) + members("Groups", false) + "\n" + uses() + accessors();
    const ProgramFunctions functions(program_, value_texts_, kept_);
    for (int stage = 0; stage <= program_.stages; ++stage) {
      if (stage > 0) text += functions.terms(stage, false);
      for (std::size_t g = 0; g < gathers_.size(); ++g)
        if (gathered(g).stage == stage) text += functions.gather(g);
      text += functions.derive(stage);
      if (stage > 0 && has_values_of_groups()) text += functions.terms(stage, true) + functions.derive_group(stage);
    }
    text += functions.outputs(false) + (kept_.empty() ? "" : functions.outputs(true));
    text += functions.store_row() + functions.store_groups();
    if (sums() > 0) text += functions.store_sum();
    return text + "};\n";
  }

 private:
  const Node& node(int index) const { return program_.nodes[static_cast<std::size_t>(index)]; }
  const Reduction& gathered(std::size_t number) const { return program_.reductions[gathers_[number]]; }
  int sums() const { return column_sums(program_) + totals(program_); }

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
        text += "    " + value_texts_.divisor_type_of(index) + " " + value_texts_.divisor_name(index) + ";\n";
    for (const int index : value_texts_.exponentials())
      if (of_rows) text += "    ExponentialOfDifference " + value_texts_.exponential_name(index) + ";\n";
    return text.empty() ? "  struct " + std::string(name) + " {};\n"
                        : "  struct " + std::string(name) + " {\n" + text + "  };\n";
  }

  std::string reducers(int stage, bool grouped) const {
    std::string text;
    for (const Reduction& reduction : program_.reductions) {
      if (reduction.stage != stage || reduction.grouped != grouped || !reduction.is_exchanged()) continue;
      text += (text.empty() ? "" : ", ") + reduction_type(reduction, is_precise(program_));
    }
    return text;
  }
  /// Reports whether a stage chooses columns, for which lanes have a reduction of their own (row/reductions/top_lists.cuh).
  bool has_list(int stage, bool grouped) const {
    return std::ranges::any_of(program_.reductions, [&](const Reduction& reduction) {
      return reduction.reducer == Reducer::topk && reduction.stage == stage && reduction.grouped == grouped;
    });
  }
  std::string reductions_of(const std::string& list) const {
    if (!wide_) return "Reductions<" + list + ">";
    return "ReductionsOf<double" + (list.empty() ? "" : ", " + list) + ">";
  }
  /// Returns the alias that maps a stage to its reductions.
  std::string reductions(const char* name, bool grouped) const {
    std::string list;
    bool some = false;
    for (int stage = 1; stage <= program_.stages; ++stage) {
      list += std::string(", ") + (has_list(stage, grouped) ? "List" : "") + reductions_of(reducers(stage, grouped));
      some = some || !reducers(stage, grouped).empty();
    }
    return "  template <int stage>\n  using " + std::string(name) +
           (some ? " = typename TypeAt<stage - 1" + list + ">::type;\n" : " = " + reductions_of("") + ";\n");
  }

  /// Returns PassUses::maximum_of for a stage whose only reduction is the maximum of an input of 16 bits; otherwise nothing.
  /// `inputs`: what the pass reads, as bits.
  std::string maximum_of(int pass, unsigned inputs) const {
    const Reduction* only = nullptr;
    int count = 0;
    for (const Reduction& reduction : program_.reductions)
      if (reduction.stage == pass && reduction.gathered_at < 0) only = (++count, &reduction);
    if (pass == program_.stages && !kept_.empty()) return "";  // its terms are kept
    if (wide_ || count != 1 || only->reducer != Reducer::max || only->grouped || only->of_top) return "";
    const Node& operand = node(only->operands[0]);
    if (operand.operation != Operation::input || operand.kind != Kind::full) return "";
    const Type type = *program_.inputs[static_cast<std::size_t>(operand.index)].type;
    if (type != Type::f16 && type != Type::bf16) return "";
    return ", .maximum_of = " + std::to_string(std::countr_zero(inputs));
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
              ", .groups = " + std::to_string(needs.groups) + maximum_of(pass, inputs) + gathers_of_pass(pass) + "};\n";
    }
    return text + "  }\n" + uses_of_gathers();
  }

  /// Returns PassUses::first_gather and gathers, if there are any.
  std::string gathers_of_pass(int pass) const {
    const auto of_pass = [&](std::size_t reduction) { return program_.reductions[reduction].stage == pass; };
    const auto first = std::ranges::find_if(gathers_, of_pass);
    if (first == gathers_.end()) return "";
    const auto before = first - gathers_.begin();
    return (before > 0 ? ", .first_gather = " + std::to_string(before) : "") +
           ", .gathers = " + std::to_string(std::ranges::count_if(gathers_, of_pass));
  }
  std::string uses_of_gathers() const {
    if (gathers_.empty()) return "";
    std::string text =
        "  template <int number>\n  static __device__ __forceinline__ constexpr PassUses uses_of_gather() {\n";
    for (std::size_t g = 0; g < gathers_.size(); ++g) {
      const Needs needs = needs_of(program_, gathered(g).operands);
      text += "    if constexpr (number == " + std::to_string(g) + ") return {.inputs = " + std::to_string(needs.inputs) +
              ", .columns = " + std::to_string(needs.columns) + ", .groups = 0};\n";
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
  const std::vector<std::size_t> gathers_;
  const bool wide_, any_strides_;
};

}  // namespace

std::string program_type(const Program& program) {
  return totals(program) > 0 ? "tunesmith::WithTotals<tunesmith::Program>" : "tunesmith::Program";
}

std::string program_definition(const Program& program, const std::vector<std::string>& column_types, bool any_strides) {
  return Writer(program, any_strides).definition(column_types);
}

}  // namespace tunesmith::row_program
