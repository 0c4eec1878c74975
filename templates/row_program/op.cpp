#include "templates/row_program/op.h"

#include <algorithm>
#include <utility>

#include "templates/row/columns.h"
#include "templates/row_program/column_sums.h"
#include "templates/row_program/emit/emit.h"
#include "templates/row_program/emit/kernel_params.h"
#include "templates/row_program/language/canonical.h"
#include "templates/row_program/passes/gather.h"
#include "templates/row_program/passes/keep.h"
#include "templates/row_program/passes/plain_sums.h"
#include "templates/row_program/passes/separate.h"
#include "templates/row_program/strided_op.h"
#include "templates/source_text.h"

namespace tunesmith {
namespace {

using row_program::Kind;
using row_program::Node;
using row_program::Program;

/// Returns the program for rows on the chip. Between blocks an exchange takes longer than the arithmetic of moments at once,
/// 0.91 to 0.99 of the time; within a block it does not, 0.96 to 1.07 (NOTES.md, "Mean and variance in one exchange, between
/// blocks only").
Program program_on_chip(const Program& program, const row::TypedConfig& config, const row::Shape& shape) {
  const bool few_columns = config.vectors_per_thread(shape) <= row_program::few_vectors;
  row_program::OnChip kernel;
  // A grid has any number of blocks.
  kernel.plain_sums = few_columns && config.variant != row::Variant::grid && row_program::allows_plain_sums(program);
  if (few_columns && config.blocks_per_row > 1 && !shape.wide()) {  // not measured in f64
    kernel.moments_at_once = true;
    Program at_once = row_program::with_separate_stages(program, kernel);
    if (row_program::max_exchanged_floats(at_once) <= shape.cost.exchanged_floats) return at_once;
    kernel.moments_at_once = false;
  }
  return row_program::with_separate_stages(program, kernel);
}

}  // namespace

std::string_view summary_of(const RowProgramProblem&) noexcept {
  return "a user program for every row: elementwise expressions and reductions over columns";
}

std::vector<FieldInfo> config_fields_of(const RowProgramProblem&) { return row::config_field_infos(); }

ParsedProblemPtr ParsedRowProgram::of(const Op& op, const RowProgramProblem& problem) {
  if (problem.strided()) return std::make_shared<const ParsedStridedRowProgram>(op, problem);
  return std::make_shared<const ParsedRowProgram>(op, problem);
}

KeyParts ParsedRowProgram::key() const {
  KeyParts parts = RowProblem::key();
  parts.related_class = shape().problem_class() + "," + row_program::cost_class(program_);
  return parts;
}

Cost ParsedRowProgram::cost() const {
  double operations = 0;
  for (const Node& node : program_.nodes)
    if (node.kind == Kind::full && node.operation > row_program::Operation::parameter) ++operations;
  for (const row_program::Reduction& reduction : program_.reductions)
    operations += static_cast<double>(reduction.operands.size());
  return cost_of_arrays(operations * static_cast<double>(typed_.rows) * static_cast<double>(typed_.cols));
}

row::Kernels ParsedRowProgram::kernels(const row::TypedConfig& config, const row::Shape& shape) const {
  Program program = config.holds_row() ? program_on_chip(program_, config, shape) : program_;
  if (config.access != row::Access::staged)  // those rows are short, and in shared memory
    program = row_program::with_gathers(
        program, {.cols = shape.min_cols > 0 ? shape.min_cols : shape.cols, .max_cols = shape.cols}, typed_.in_place);
  row::Kernels kernels;
  kernels.files = "row/schedules/";
  kernels.function = shape.cost.sums_rows() ? "program_sums" : "program";
  if (shape.cost.totals > 0) kernels.overloads = {"row/schedules/totals.cuh"};
  kernels.for_double = {"row/double_functions.cuh"};
  kernels.steps = "the stages of the program";
  kernels.types = row_program::program_type(program);
  std::vector<std::string> columns = row_program::column_types(typed_, program_, shape);
  // Vectors that wait for the result of their group overlap, too.
  const bool has_groups = row_program::needs_of_pass(program, program.stages + 1).groups > 0;
  if (row::loads_columns_early(config, shape, has_groups))
    for (std::string& type : columns) type = row::loaded_early(type);
  kernels.definitions = "namespace tunesmith {\n\n" + row_program::params_definition(program) +
                        row_program::program_definition(program, columns) + "\n}  // namespace tunesmith\n\n";
  kernels.addresses = row_program::addresses_of_rows(program);
  return kernels;
}

SourceParts ParsedRowProgram::parts_of(const row::TypedConfig& config) const {
  SourceParts parts = RowProblem::parts_of(config);
  const row::Shape seen = config.view(shape());
  parts.specialized_for.front().second = row_program::arrays_text(program_, seen.cols, seen.min_cols);
  const std::string reads = program_.stages == 0 ? "one read" : std::to_string(program_.stages + 1) + " reads";
  if (config.reads_twice())
    parts.algorithm = reads + " of each input: a pass for every stage of reductions, and one that writes";
  if (shape().cost.sums_rows()) row_program::add_column_sums(parts, config, shape());
  return parts;
}

LaunchPlan ParsedRowProgram::plan_of(const row::TypedConfig& config, const DeviceInfo& device) const {
  LaunchPlan plan = RowProblem::plan_of(config, device);
  if (shape().cost.sums_rows() && typed_.cols > 0) row_program::add_column_sums(plan, config, config.view(shape()), device);
  return plan;
}

void ParsedRowProgram::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  fill_row_program_inputs(typed_, shape().cost.sums_rows(), seed, kind, in_program_order(arrays));
}

CheckResult ParsedRowProgram::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  return check_row_program(typed_, program_, in_program_order(arrays), max_rows);
}

std::vector<HostArray> ParsedRowProgram::in_program_order(std::span<const HostArray> arrays) const {
  std::vector<HostArray> ordered;
  for (const RowProgramArray& declared : typed_.program.arrays())
    ordered.push_back(*std::ranges::find(arrays, declared.name, [](const HostArray& array) { return array.info.name; }));
  return ordered;
}

}  // namespace tunesmith
