#include "templates/row_program/problem.h"

#include <algorithm>

#include "core/hash.h"
#include "templates/row/columns.h"
#include "templates/row/empty_rows.h"
#include "templates/row_program/emit/device_text.h"
#include "templates/row_program/emit/kernel_params.h"
#include "templates/row_program/language/canonical.h"
#include "templates/row_program/language/diagnostic.h"
#include "templates/row_program/language/parse.h"
#include "templates/row_program/passes/separate.h"
#include "tunesmith/error.h"

namespace tunesmith::row_program {
namespace {

template <typename Array>
row::Rows rows_of(const RowProgramProblem& problem, const Array& array) {
  return {stride_of(problem, array.name, array.kind), alignment_of(problem, array.name), dtype_of(*array.type)};
}

}  // namespace

std::int64_t alignment_of(const RowProgramProblem& problem, const std::string& array) {
  const std::int64_t* const given = find_property(problem.alignments, array);
  return given == nullptr ? 16 : *given;
}

std::int64_t stride_of(const RowProgramProblem& problem, const std::string& array, Kind kind) {
  if (const std::int64_t* const given = find_property(problem.row_strides, array)) return *given;
  if (kind == Kind::top) return problem.program.top();
  return kind == Kind::group ? problem.cols / std::max<std::int64_t>(problem.program.group(), 1)
                             : problem.cols * problem.inner;
}

DType dtype_of(Type type) {
  switch (type) {
    case Type::f64: return DType::f64;
    case Type::f32: return DType::f32;
    case Type::f16: return DType::f16;
    case Type::bf16: return DType::bf16;
    case Type::e4m3: return DType::e4m3;
    case Type::e5m2: return DType::e5m2;
    case Type::i8: return DType::i8;
    case Type::i32: return DType::i32;
    case Type::boolean: return DType::u8;
  }
  return DType::f32;
}

Type type_of(DType dtype) {
  switch (dtype) {
    case DType::f64: return Type::f64;
    case DType::f16: return Type::f16;
    case DType::bf16: return Type::bf16;
    default: return Type::f32;
  }
}

RowProgramDims dims_of(Kind kind) {
  switch (kind) {
    case Kind::scalar: return RowProgramDims::scalar;
    case Kind::row: return RowProgramDims::row;
    case Kind::top: return RowProgramDims::top;
    case Kind::col: return RowProgramDims::col;
    case Kind::group: return RowProgramDims::group;
    case Kind::full: return RowProgramDims::full;
  }
  return RowProgramDims::full;
}

Program program_of(const RowProgramProblem& problem) {
  return with_dtype(parse(problem.program.text(), text_name), type_of(problem.dtype));
}

std::vector<double> numbers_of(const RowProgramProblem& problem, const Program& program) {
  std::vector<double> values;
  for (const Number& number : program.numbers) {
    const auto given = std::ranges::find(problem.numbers, number.name, &RowProgramNumber::name);
    values.push_back(given != problem.numbers.end() ? given->value : number.value.value_or(0));
  }
  return values;
}

row::Shape shape_of(const RowProgramProblem& problem, const Program& program) {
  row::Shape shape;
  shape.cost.composed = true;
  shape.computes_in_f64 = computes_in_f64(program);
  shape.rows = problem.rows;
  shape.cols = problem.cols;
  shape = row::without_empty_rows(shape, std::max(program.group, 1));
  shape.in_place = !problem.in_place.empty();
  const auto first_full = [](const auto& arrays) -> std::string {
    const auto found = std::ranges::find(arrays, Kind::full, [](const auto& array) { return array.kind; });
    return found == arrays.end() ? "" : found->name;
  };
  shape.out_is_apart = std::ranges::none_of(problem.in_place, [&](const RowProgramInPlace& pair) {
    return pair.output == first_full(program.outputs) && pair.input == first_full(program.inputs);
  });
  shape.cost.reduces = program.stages > 0;
  std::vector<row::Rows> inputs, outputs;
  for (const Input& input : program.inputs)
    if (input.kind == Kind::full) inputs.push_back(rows_of(problem, input));
  for (const Output& output : program.outputs)
    if (output.kind == Kind::full) outputs.push_back(rows_of(problem, output));
  shape.cost.column_sums = column_sums(program);
  shape.cost.totals = totals(program);
  if (shape.cost.sums_rows()) shape.cost.reduces = true;
  // Programs that read several times gain from resident rows, whatever they write.
  shape.cost.writes = !outputs.empty() || program.stages > 1 || shape.cost.sums_rows();
  if (inputs.empty()) inputs.push_back(outputs.front());
  if (outputs.empty()) outputs.push_back(inputs.front());
  const auto widest = [](const std::vector<row::Rows>& arrays) {
    DType dtype = *arrays.front().dtype;
    for (const row::Rows& array : arrays)
      if (size_of(*array.dtype) > size_of(dtype)) dtype = *array.dtype;
    return dtype;
  };
  shape.input = widest(inputs);
  shape.output = widest(outputs);
  shape.inputs = static_cast<int>(inputs.size());
  std::ranges::copy(inputs, shape.in.begin());
  shape.out = outputs.front();
  shape.more_outputs = static_cast<int>(outputs.size()) - 1;
  std::copy(outputs.begin() + 1, outputs.end(), shape.more_out.begin());

  // A thread adds up the same columns of each row, and neighbouring threads hold a group.
  if (program.group > 0 || shape.cost.sums_rows())
    while (shape.shifted()) shape.widest = std::min(shape.vector(), shape.widest) / 2;
  if (program.group > 0) {
    const int vector = shape.vector(), lanes = program.group / vector;
    if (program.group % vector != 0 || lanes > 32 || (lanes & (lanes - 1)) != 0)
      throw Error(ErrorCode::unsupported, "groups have ", program.group,
                  " columns and rows of these arrays are read in vectors of ", vector, "; allowed: groups of ", vector,
                  " times a power of two up to 32");
    shape.cost.lanes_of_group = lanes;
  }
  const auto columns = std::ranges::count(program.inputs, Kind::col, &Input::kind);
  // A vector of each array of columns, and the partial results.
  shape.cost.more_registers = static_cast<int>(columns) * 8 + 4 * (shape.inputs - 1) + 2 * shape.more_outputs;
  constexpr std::int64_t kept_as_float = 4;
  for (const Input& input : program.inputs)
    if (input.kind == Kind::col) {
      const std::int64_t size = size_of(dtype_of(*input.type));
      shape.cost.column_bytes += static_cast<int>(size == 1 ? kept_as_float : size);
    }
  const Program separate = with_separate_stages(program);
  const Program at_once = with_separate_stages(program, {.moments_at_once = true});
  shape.cost.exchanged_floats = max_exchanged_floats(separate);
  shape.cost.more_registers += shape.cost.exchanged_floats;
  int stage_floats = shape.cost.exchanged_floats * std::max(separate.stages, 1);
  // A grid exchanges no more; kernels keep the separate stages then.
  if (const int floats = max_exchanged_floats(at_once); floats <= row::max_floats_of_grid) {
    shape.cost.exchanged_floats = std::max(shape.cost.exchanged_floats, floats);
    stage_floats = std::max(stage_floats, floats * at_once.stages);
  }
  shape.cost.stages = std::max(separate.stages, 1);
  shape.cost.sorted_columns = program.top;
  // A thread has two lists of chosen columns, and keeps the values that are computed of them. Beyond the limit they spill.
  constexpr int max_registers = 150;
  if (program.top > 0)
    shape.cost.more_registers =
        std::min(shape.cost.more_registers + shape.cost.exchanged_floats + 2 * program.top, max_registers);
  constexpr int warps = 32, float_bytes = 4, slots = 2, usual_bytes = 1024;
  shape.cost.more_smem_bytes = std::max(0, warps * float_bytes * slots * stage_floats - usual_bytes);
  if (shape.cost.totals > 0)
    shape.cost.more_smem_bytes += warps * 2 * float_bytes * shape.words_of_value();  // ThreadTotals::store()
  return shape;
}

row::OwnParams params_of(const RowProgramProblem& problem, const Program& program) {
  row::OwnParams params("RowProgramParams");
  const int first = first_full_array(program);
  int at = 0;
  const auto add = [&](const std::string& name, Kind kind) {
    if (at++ == first) {
      params.first_input(name);
      return;
    }
    params.address(name, address_member(name));
    if (kind == Kind::full || kind == Kind::group || kind == Kind::top)
      params.integer(stride_member(name), stride_of(problem, name, kind));
  };
  for (const Input& input : program.inputs) add(input.name, input.kind);
  for (const Output& output : program.outputs) add(output.name, output.kind);
  const std::vector<double> values = numbers_of(problem, program);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const Number& number = program.numbers[i];
    if (number.type == Type::i32)
      params.integer(number_member(number.name), static_cast<std::int64_t>(values[i]));
    else
      params.real(number_member(number.name), values[i], computes_in_f64(program));
  }
  return params;
}

std::string problem_class_of(const RowProgramProblem& problem, const Program& program) {
  std::string text = ",program=" + hash_hex(canonical_text(program)).substr(0, 16);
  for (const std::string& type : column_types(problem, program, shape_of(problem, program))) text += "," + type;
  return text;
}

std::vector<std::string> column_types(const RowProgramProblem& problem, const Program& program, const row::Shape& shape) {
  std::vector<std::string> types;
  for (const Input& input : program.inputs) {
    if (input.kind != Kind::col) continue;
    const row::Columns columns{true, dtype_of(*input.type), alignment_of(problem, input.name)};
    types.push_back(column_type(*input.type, columns.vector(shape)));
  }
  return types;
}

std::string column_type(Type type, int vector) {
  return "Columns<" + element_type(type) + ", " + std::to_string(vector) + ">";
}

std::string arrays_text(const Program& program, std::int64_t cols, std::int64_t min_cols) {
  const std::string least = min_cols > 0 ? std::to_string(min_cols) + " to " : "";
  std::string text = "cols = " + least + std::to_string(cols) + ", reads";
  const auto add = [&](const auto& arrays) {
    const char* separator = " ";
    for (const auto& array : arrays) {
      text += separator + array.name + ":" + std::string(enum_name(*array.type)) + std::string(enum_name(array.kind));
      separator = ", ";
    }
  };
  add(program.inputs);
  text += "; writes";
  add(program.outputs);
  return text;
}

void check_supported(const Program& program, std::string_view text) {
  const SourceText source{text, text_name};
  const auto reject = [&](Place place, const std::string& message) { source.fail(place, message, ErrorCode::unsupported); };
  for (const Output& output : program.outputs)
    if (output.kind == Kind::group && program.nodes[static_cast<std::size_t>(output.node)].stage == 0)
      reject(output.place, "the output '" + output.name +
                               "' follows from inputs alone; outputs [row, col/N] follow from reductions of groups");
  for (const Reduction& reduction : program.reductions)
    for (const int operand : reduction.operands)
      if (!reduction.grouped && program.nodes[static_cast<std::size_t>(operand)].kind == Kind::group)
        reject(reduction.place, "a reduction over values [row, col/N]; expected values [row, col]");
}

}  // namespace tunesmith::row_program
