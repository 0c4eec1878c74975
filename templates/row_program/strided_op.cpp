#include "templates/row_program/strided_op.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <set>

#include "core/hash.h"
#include "templates/row/empty_rows.h"
#include "templates/row/params.cuh"
#include "templates/row_program/column_sums.h"
#include "templates/row_program/emit/emit.h"
#include "templates/row_program/emit/kernel_params.h"
#include "templates/row_program/language/canonical.h"
#include "templates/row_program/op.h"
#include "templates/row_program/passes/gather.h"
#include "templates/row_program/passes/separate.h"
#include "templates/strided/source.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

using row_program::Kind;
using row_program::Program;

constexpr const char* params_type = "RowProgramParams";

std::int64_t round_up(std::int64_t value, std::int64_t unit) { return (value + unit - 1) / unit * unit; }

template <typename Body>
void over_full_arrays(const Program& program, const Body& body) {
  for (const row_program::Input& input : program.inputs)
    if (input.kind == Kind::full) body(input.name, row_program::dtype_of(*input.type), false);
  for (const row_program::Output& output : program.outputs)
    if (output.kind == Kind::full) body(output.name, row_program::dtype_of(*output.type), true);
}

/// The floats of the partial results of each stage.
struct Exchanges {
  int largest = 1, sum = 0;

  explicit Exchanges(const Program& program) {
    for (int stage = 1; stage <= program.stages; ++stage) {
      const int floats = exchanged_floats(program, stage);
      largest = std::max(largest, floats);
      sum += floats;
    }
  }
};

/// Returns the registers that a position needs: the partial results of the largest stage (two of them and a merged one if
/// they are lists of columns), the values of a row that its elements use, and an element of each input and output.
int registers_of_position(const Program& program, int floats) {
  const auto node = [&](int index) { return program.nodes[static_cast<std::size_t>(index)]; };
  std::set<int> values;
  for (const row_program::Node& user : program.nodes)
    if (user.kind == Kind::full || user.kind == Kind::top)
      for (const int operand : user.operands)
        if (operand >= 0 && (node(operand).kind == Kind::row || node(operand).kind == Kind::top)) values.insert(operand);
  int registers = program.top > 0 ? 3 * floats : floats;
  const int words = computes_in_f64(program) ? 2 : 1;
  for (const int value : values) registers += words * (node(value).kind == Kind::top ? program.top : 1);
  over_full_arrays(program, [&](const std::string&, DType, bool) { registers += words; });
  return registers + 2;
}

strided::Shape strided_shape_of(const RowProgramProblem& problem, const Program& program) {
  strided::Shape shape;
  shape.is_program = true;
  shape.computes_in_f64 = computes_in_f64(program);
  shape.rows = problem.rows;
  shape.cols = problem.cols;
  shape.inner = problem.inner;
  shape = row::without_empty_rows(shape);
  shape.in_place = !problem.in_place.empty();
  std::vector<strided::Array> inputs, outputs;
  over_full_arrays(program, [&](const std::string& name, DType dtype, bool is_output) {
    (is_output ? outputs : inputs).push_back(row_program::strided_array_of(problem, name, dtype));
  });
  shape.writes = !outputs.empty();
  if (inputs.empty()) inputs.push_back(outputs.front());
  if (outputs.empty()) outputs.push_back(inputs.front());
  shape.inputs = static_cast<int>(inputs.size());
  std::ranges::copy(inputs, shape.in.begin());
  shape.out = outputs.front();
  shape.more_outputs = static_cast<int>(outputs.size()) - 1;
  std::copy(outputs.begin() + 1, outputs.end(), shape.more_out.begin());

  shape.stages = program.stages;
  shape.column_sums = row_program::column_sums(program);
  shape.totals = row_program::totals(program);
  const Exchanges read_again(program), resident(row_program::with_separate_stages(program));
  constexpr int float_bytes = 4;
  shape.program_registers = registers_of_position(program, read_again.largest);
  shape.reduction_bytes = shape.part_bytes = float_bytes * std::max(read_again.sum, resident.sum);
  // A thread has the partial results of all positions of its vector.
  constexpr unsigned max_floats = 32;
  shape.max_vector = static_cast<int>(std::bit_floor(std::max(max_floats / static_cast<unsigned>(read_again.largest), 1U)));
  return shape;
}

/// Reports whether arrays [row, col] have other strides than contiguous rows have.
bool has_any_strides(const RowProgramProblem& problem) {
  return !problem.col_strides.empty() || !problem.inner_strides.empty();
}

/// Returns how neighbouring elements of each array [row, col] follow each other in memory: p, positions are adjacent; c,
/// columns; -, neither.
std::string stride_classes(const RowProgramProblem& problem, const Program& program) {
  std::string classes;
  over_full_arrays(program, [&](const std::string& name, DType dtype, bool) {
    const strided::Array array = row_program::strided_array_of(problem, name, dtype);
    classes += array.adjacent_positions(problem.inner) ? 'p' : array.col_stride == 1 ? 'c' : '-';
  });
  return classes;
}

}  // namespace

strided::Array row_program::strided_array_of(const RowProgramProblem& problem, const std::string& array, DType dtype) {
  const std::int64_t* const col = find_property(problem.col_strides, array);
  const std::int64_t* const inner = find_property(problem.inner_strides, array);
  return {array,
          dtype,
          stride_of(problem, array, Kind::full),
          col == nullptr ? problem.inner : *col,
          inner == nullptr ? 1 : *inner,
          alignment_of(problem, array)};
}

ParsedStridedRowProgram::ParsedStridedRowProgram(const Op& op, const RowProgramProblem& problem)
    : StridedProblem(op, problem, strided_shape_of(problem, row_program::program_of(problem))),
      typed_(problem),
      program_(row_program::program_of(problem)),
      resident_program_(row_program::with_separate_stages(program_)) {}

KeyParts ParsedStridedRowProgram::key() const {
  KeyParts parts = StridedProblem::key();
  parts.problem_class += ",program=" + hash_hex(row_program::canonical_text(program_)).substr(0, 16);
  if (has_any_strides(typed_)) parts.problem_class += ",strides=" + stride_classes(typed_, program_);
  parts.related_class = shape().problem_class() + "," + row_program::cost_class(program_);
  return parts;
}

Cost ParsedStridedRowProgram::cost() const {
  const double elements =
      static_cast<double>(typed_.rows) * static_cast<double>(typed_.cols) * static_cast<double>(typed_.inner);
  Cost cost;
  over_full_arrays(program_, [&](const std::string&, DType dtype, bool output) {
    (output ? cost.bytes_written : cost.bytes_read) += elements * static_cast<double>(size_of(dtype));
  });
  cost.flops = elements * static_cast<double>(program_.nodes.size());
  return cost;
}

strided::TypedConfig ParsedStridedRowProgram::default_of(const DeviceInfo& device) const {
  strided::TypedConfig config = StridedProblem::default_of(device);
  if (const std::string reason = why_invalid_of(device, config); !reason.empty())
    throw Error(ErrorCode::unsupported, "no configuration of ", op().name(), " fits ", problem().text(), ": ", reason);
  return config;
}

strided::Kernels ParsedStridedRowProgram::kernels() const {
  strided::Kernels kernels;
  kernels.file = "strided/schedules.cuh";
  if (shape().totals > 0)
    kernels.overloads = {"strided/position_totals.cuh"};
  else if (shape().column_sums > 0)
    kernels.overloads = {"strided/position_sums.cuh"};
  kernels.for_double = {"row/double_functions.cuh"};
  kernels.function = "program_strided";
  kernels.steps = "the stages of the program";
  return kernels;
}

row::OwnParams ParsedStridedRowProgram::own_params() const {
  row::OwnParams params = row_program::params_of(typed_, program_);
  const std::int64_t vector = shape().vector();
  params.integer("vectors", shape().vectors());
  params.integer("vectors_per_row", typed_.inner / vector);
  params.integer("inner", typed_.inner);
  if (has_any_strides(typed_))
    over_full_arrays(program_, [&](const std::string& name, DType dtype, bool) {
      const strided::Array array = row_program::strided_array_of(typed_, name, dtype);
      params.integer(row_program::columns_member(name), array.col_stride);
      params.integer(row_program::vectors_member(name), array.inner_stride * vector);
    });
  return params;
}

SourceParts ParsedStridedRowProgram::parts_of(const strided::TypedConfig& typed) const {
  const bool twice = typed.reads_twice();
  SourceParts parts = StridedProblem::parts_of(typed);
  parts.specialized_for.front().second = row_program::arrays_text(program_, typed_.cols);
  const std::string blocks = std::to_string(typed.blocks_per_row);
  parts.algorithm = twice ? std::to_string(program_.stages + 1) +
                                " reads of each input: a pass for every stage of reductions, and one that writes"
                          : "one read and one write: columns are resident in registers while the stages are computed";
  if (typed.variant == strided::Variant::cluster)
    parts.algorithm += "; a cluster of " + blocks + " blocks shares the columns and exchanges the results of each stage";
  if (typed.variant == strided::Variant::split)
    parts.algorithm += "; each pass is a kernel, in which " + blocks + " blocks share the columns";
  std::vector<std::string> columns;
  for (const row_program::Input& input : program_.inputs)
    if (input.kind == Kind::col) columns.push_back(row_program::column_type(*input.type, 1));
  const Program program =
      row_program::with_gathers(twice ? program_ : resident_program_,
                                {.cols = typed_.cols, .max_cols = typed_.cols, .keeps_exchanges = true}, typed_.in_place);
  std::string params = row_program::params_definition(program_);
  std::string own = "  int64 vectors;\n  int64 vectors_per_row;\n  int64 inner;\n";
  const bool any_strides = has_any_strides(typed_);
  if (any_strides)
    over_full_arrays(program, [&](const std::string& name, DType, bool) {
      own += "  int64 " + row_program::columns_member(name) + ";\n  int64 " + row_program::vectors_member(name) + ";\n";
    });
  params.insert(params.rfind("};"), own);
  parts.constants = "namespace tunesmith {\n\n" + params + row_program::program_definition(program, columns, any_strides) +
                    "\n}  // namespace tunesmith\n\n" + parts.constants + own_params().assertions();
  const std::string program_type = row_program::program_type(program_);
  const auto kernel = [&](const std::string& entry, const std::string& function, const std::string& last) {
    return strided::kernel(typed.threads, typed.min_blocks, entry, params_type,
                           "program_strided_" + function + "<" + program_type + ", shape, config" + last + ">");
  };
  const bool sums = shape().sums_rows();
  const std::string entry(op().name());
  parts.kernels.clear();
  if (typed.variant == strided::Variant::split)
    for (int stage = 1; const std::string& name : strided::sums_entries(shape(), entry))
      parts.kernels += kernel(name, "split_sums", ", " + std::to_string(stage++)) + "\n";
  const std::string function = typed.variant == strided::Variant::split ? "split" : twice ? "two_pass" : "resident";
  parts.kernel = "program_strided_" + function;
  parts.kernels += kernel(entry, function, sums ? ", tunesmith::PositionSums<" + program_type + ", shape, config>" : "");
  if (sums)
    row_program::add_column_sums(parts, params_type,
                                 {.rows = std::to_string(static_cast<std::int64_t>(typed.lanes) * shape().vector()),
                                  .blocks = typed.blocks_per_row,
                                  .totals = shape().totals > 0,
                                  .of = "tile of positions, which a last kernel adds up"});
  return parts;
}

LaunchPlan ParsedStridedRowProgram::plan_of(const strided::TypedConfig& typed, const DeviceInfo& device) const {
  LaunchPlan plan;
  const row::OwnParams own = own_params();
  const std::span<const ArrayInfo> arrays = array_view();
  for (const ArrayInfo& array : arrays) {
    const auto in_place = std::ranges::find(arrays, array.in_place_of, &ArrayInfo::name);
    plan.pointers.push_back({array.name, own.offset_of(array.name).value(), static_cast<std::uint32_t>(array.alignment),
                             array.extent_bytes(), array.output, false,
                             array.in_place_of.empty() ? -1 : static_cast<int>(in_place - arrays.begin())});
  }
  RowParams params{};
  params.rows = typed_.rows * typed_.inner;
  params.cols = static_cast<std::int32_t>(typed_.cols);
  params.groups = shape().sums_rows() ? typed.tiles(shape()) : 1;
  bool first = true;
  over_full_arrays(program_, [&](const std::string& name, DType, bool) {
    if (first) params.input_stride[0] = row_program::stride_of(typed_, name, Kind::full);
    first = false;
  });
  plan.params.resize(sizeof params);
  std::memcpy(plan.params.data(), &params, sizeof params);
  plan.params.insert(plan.params.end(), own.bytes().begin(), own.bytes().end());
  plan.workspace_offset = offsetof(RowParams, workspace);
  strided::add_kernels(typed, shape(), std::string(op().name()), plan);
  if (typed.variant == strided::Variant::split) {
    // The partial results of each stage begin at a multiple of 16 bytes (StoredPartials).
    const std::int64_t partials = typed.tiles(shape()) * typed.blocks_per_row * typed.lanes * shape().vector();
    plan.workspace_bytes = 0;
    for (int stage = 1; stage <= program_.stages; ++stage)
      plan.workspace_bytes += round_up(partials * exchanged_floats(program_, stage) * std::int64_t{sizeof(float)}, 16);
  }
  if (shape().sums_rows() && typed_.cols > 0) {
    // StoredPartials follow the sums of tiles.
    plan.workspace_bytes += typed.column_sums_bytes(shape());
    plan.workspace_use = WorkspaceUse::scratch;
    row_program::add_column_sums_kernel(plan, shape().column_sums > 0 ? typed_.cols : 0, device);
  }
  return plan;
}

Problem ParsedStridedRowProgram::verification_problem() const {
  Problem small = StridedProblem::verification_problem();
  // With fewer positions, explicit strides may describe contiguous rows, for which there is another kernel.
  const auto has = [&](const char* field) { return small.fields.contains(field); };
  const Problem normal = op().normalize(small);
  if (has("col_strides") != normal.fields.contains("col_strides") ||
      has("inner_strides") != normal.fields.contains("inner_strides"))
    return problem();
  return small;
}

void ParsedStridedRowProgram::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  fill_row_program_inputs(typed_, shape().sums_rows(), seed, kind, arrays);
}

CheckResult ParsedStridedRowProgram::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  return check_row_program(typed_, program_, arrays, max_rows);
}

}  // namespace tunesmith
