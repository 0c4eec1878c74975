// Problems of the softmax family: fields, their checks, and the typed forms.

#include <algorithm>
#include <limits>

#include "templates/row/fields.h"
#include "templates/softmax/op.h"
#include "tunesmith/error.h"
#include "tunesmith/softmax.h"

namespace tunesmith {
namespace {

constexpr std::int64_t any = std::numeric_limits<std::int64_t>::max();

struct RowArrayFields {
  std::string_view array, stride, alignment;
};
constexpr RowArrayFields x_fields{"x", "x_row_stride", "x_alignment"}, y_fields{"y", "y_row_stride", "y_alignment"},
    dy_fields{"dy", "dy_row_stride", "dy_alignment"}, dx_fields{"dx", "dx_row_stride", "dx_alignment"};

/// Inputs first, the output last.
std::vector<RowArrayFields> fields_of_arrays(bool backward) {
  if (backward) return {dy_fields, y_fields, dx_fields};
  return {x_fields, y_fields};
}

}  // namespace

std::string_view SoftmaxOp::name() const noexcept {
  if (backward_) return logarithm_ ? "log_softmax_backward" : "softmax_backward";
  return logarithm_ ? "log_softmax" : "softmax";
}

std::string_view SoftmaxOp::summary() const noexcept {
  if (backward_)
    return logarithm_ ? "dx[r,:] = scale * (dy[r,:] - exp(y[r,:]) * sum(dy[r,:])) for every row r"
                      : "dx[r,:] = scale * y[r,:] * (dy[r,:] - sum(dy[r,:] * y[r,:])) for every row r";
  return logarithm_ ? "y[r,:] = log(softmax(scale * x[r,:])) for every row r"
                    : "y[r,:] = softmax(scale * x[r,:]) for every row r";
}

std::vector<std::string_view> SoftmaxOp::row_arrays() const {
  std::vector<std::string_view> names;
  for (const RowArrayFields& fields : fields_of_arrays(backward_)) names.push_back(fields.array);
  return names;
}

std::vector<FieldInfo> SoftmaxOp::problem_fields() const {
  const std::vector<std::string_view> dtypes{"f32", "f16", "bf16"};
  std::vector<FieldInfo> fields{
      {"rows", "number of rows, from 0", "", {}},
      {"cols", "number of columns, from 1; kernels are specialized for it", "", {}},
      {"dtype", backward_ ? "element type of dy and y" : "element type of x", "f32", dtypes},
      {"out_dtype", backward_ ? "element type of dx" : "element type of y", backward_ ? "that of dy" : "that of x", dtypes}};
  if (backward_) {
    fields.push_back({"dy_row_stride", "elements from one row of dy to the next", "cols", {}});
    fields.push_back({"y_row_stride", "elements from one row of y to the next", "cols", {}});
    fields.push_back({"dx_row_stride", "elements from one row of dx to the next", "cols", {}});
    fields.push_back({"dy_alignment", "bytes that the address of dy is a multiple of", "16", {}});
    fields.push_back({"y_alignment", "bytes that the address of y is a multiple of", "16", {}});
    fields.push_back({"dx_alignment", "bytes that the address of dx is a multiple of", "16", {}});
    fields.push_back({"in_place", "1: dx is dy", "0", {}});
  } else {
    fields.push_back({"x_row_stride", "elements from one row of x to the next", "cols", {}});
    fields.push_back({"y_row_stride", "elements from one row of y to the next", "cols", {}});
    fields.push_back({"x_alignment", "bytes that the address of x is a multiple of", "16", {}});
    fields.push_back({"y_alignment", "bytes that the address of y is a multiple of", "16", {}});
    fields.push_back({"in_place", "1: y is x", "0", {}});
  }
  for (FieldInfo& option : row::option_fields(backward_)) fields.push_back(std::move(option));
  return fields;
}

Problem SoftmaxOp::normalize(const Problem& problem) const {
  row::check_names({std::string(name()), problem.fields}, problem_fields(), {"rows", "cols"});
  const std::int64_t rows = row::integer_between(problem, "rows", 0, 0, any);
  const std::int64_t cols = row::integer_between(problem, "cols", 1, 1, row::max_cols);
  const DType input = row::float_dtype_field(problem, "dtype", DType::f32);
  const DType output = row::float_dtype_field(problem, "out_dtype", input);
  const std::vector<RowArrayFields> arrays = fields_of_arrays(backward_);
  const auto dtype_of = [&](std::size_t i) { return i + 1 == arrays.size() ? output : input; };

  std::vector<std::int64_t> strides, alignments;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    std::int64_t stride = row::integer_between(problem, arrays[i].stride, cols, 0, any);
    if (stride == 0) stride = cols;
    if (stride < cols)
      throw Error(ErrorCode::invalid_argument, arrays[i].stride, " is ", stride, "; allowed: at least cols, ", cols);
    row::check_extent(arrays[i].array, rows, stride, dtype_of(i));
    strides.push_back(stride);
    alignments.push_back(row::alignment_field(problem, arrays[i].alignment, dtype_of(i)));
  }
  const std::int64_t in_place = row::integer_between(problem, "in_place", 0, 0, 1);
  if (in_place == 1) {
    if (input != output || strides.front() != strides.back())
      throw Error(ErrorCode::invalid_argument, "in_place is 1, but ", arrays.front().array, " (", tunesmith::name(input),
                  ", row stride ", strides.front(), ") and ", arrays.back().array, " (", tunesmith::name(output),
                  ", row stride ", strides.back(), ") differ; both must agree");
    alignments.front() = alignments.back() = std::min(alignments.front(), alignments.back());
  }

  Problem normal{std::string(name()),
                 {{"rows", rows},
                  {"cols", cols},
                  {"dtype", std::string(tunesmith::name(input))},
                  {"out_dtype", std::string(tunesmith::name(output))}}};
  for (std::size_t i = 0; i < arrays.size(); ++i) normal.fields.set(arrays[i].stride, strides[i]);
  for (std::size_t i = 0; i < arrays.size(); ++i) normal.fields.set(arrays[i].alignment, alignments[i]);
  normal.fields.set("in_place", in_place);
  row::append_options(row::parse_options(problem, rows, cols, input, backward_), cols, normal.fields);
  return normal;
}

row::Shape SoftmaxOp::shape_of(const Problem& problem) const {
  row::Shape shape;
  shape.rows = problem.fields.integer("rows");
  shape.cols = problem.fields.integer("cols");
  shape.input = parse_float_dtype(problem.fields.word("dtype"));
  shape.output = parse_float_dtype(problem.fields.word("out_dtype"), "out_dtype");
  shape.inputs = backward_ ? 2 : 1;
  shape.in_place = problem.fields.integer("in_place") != 0;
  shape.logarithm = logarithm_;
  const std::vector<RowArrayFields> arrays = fields_of_arrays(backward_);
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    row::Rows& rows = i + 1 == arrays.size() ? shape.out : shape.in[i];
    rows.stride = problem.fields.integer(arrays[i].stride);
    rows.alignment = problem.fields.integer(arrays[i].alignment);
  }
  shape.options = row::parse_options(problem, shape.rows, shape.cols, shape.input, backward_);
  return shape;
}

std::vector<ArrayInfo> SoftmaxOp::arrays(const Problem& problem) const {
  const row::Shape shape = shape_of(problem);
  const std::vector<std::string_view> names = row_arrays();
  std::vector<ArrayInfo> arrays;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const bool output = i + 1 == names.size();
    const row::Rows& rows = output ? shape.out : shape.in[i];
    arrays.push_back({.name = std::string(names[i]),
                      .input = !output,
                      .output = output,
                      .dtype = output ? shape.output : shape.input,
                      .shape = {shape.rows, shape.cols},
                      .strides = {rows.stride, 1},
                      .alignment = rows.alignment});
    if (output && shape.in_place) arrays.back().in_place_of = names.front();
  }
  row::append_arrays(shape.options, shape.rows, shape.cols, arrays);
  return arrays;
}

Problem SoftmaxOp::verification_problem(const Problem& problem) const {
  const row::Shape shape = shape_of(problem);
  // About a million elements, but enough rows for every awkward one, and a number that no block size divides.
  Problem small = problem;
  small.fields.set("rows", std::clamp<std::int64_t>((std::int64_t{1} << 20) / shape.cols, 16, 512) + 1);
  return small;
}

namespace {

void append_options(const SoftmaxOptions& options, std::int64_t cols, Fields& fields) {
  static const SoftmaxOptions plain;
  if (options == plain) return;
  const auto integer = [&](std::string_view field, std::int64_t value, std::int64_t fallback) {
    if (value != fallback) fields.set(field, value);
  };
  if (options.scale != 1) fields.set("scale", options.scale);
  integer("causal", options.causal ? 1 : 0, 0);
  integer("valid_cols", options.valid_cols ? 1 : 0, 0);
  if (options.valid_cols) integer("valid_cols_group", options.valid_cols_group, 1);
  if (const SoftmaxMask& mask = options.mask; mask.kind != SoftmaxMask::Kind::none) {
    const bool add = mask.kind == SoftmaxMask::Kind::add;
    fields.set("mask", std::string(add ? "add" : "keep"));
    if (add) fields.set("mask_dtype", std::string(name(mask.dtype)));
    integer("mask_inner", mask.inner, 0);
    integer("mask_middle", mask.middle, 1);
    if (mask.row_stride != -1) integer("mask_row_stride", mask.row_stride, cols);
    integer("mask_middle_stride", mask.middle_stride, 0);
    integer("mask_outer_stride", mask.outer_stride, 0);
    integer("mask_alignment", mask.alignment, 16);
  }
  integer("safe", options.safe ? 1 : 0, 0);
}

}  // namespace

Problem to_problem(const SoftmaxProblem& problem) {
  Problem general{problem.logarithm ? "log_softmax" : "softmax",
                  {{"rows", problem.rows},
                   {"cols", problem.cols},
                   {"dtype", std::string(name(problem.dtype))},
                   {"out_dtype", std::string(name(problem.out_dtype))},
                   {"x_row_stride", problem.x_row_stride},
                   {"y_row_stride", problem.y_row_stride},
                   {"x_alignment", problem.x_alignment},
                   {"y_alignment", problem.y_alignment},
                   {"in_place", std::int64_t{problem.in_place}}}};
  append_options(problem.options, problem.cols, general.fields);
  return general;
}

Problem to_problem(const SoftmaxBackwardProblem& problem) {
  Problem general{problem.logarithm ? "log_softmax_backward" : "softmax_backward",
                  {{"rows", problem.rows},
                   {"cols", problem.cols},
                   {"dtype", std::string(name(problem.dtype))},
                   {"out_dtype", std::string(name(problem.out_dtype))},
                   {"dy_row_stride", problem.dy_row_stride},
                   {"y_row_stride", problem.y_row_stride},
                   {"dx_row_stride", problem.dx_row_stride},
                   {"dy_alignment", problem.dy_alignment},
                   {"y_alignment", problem.y_alignment},
                   {"dx_alignment", problem.dx_alignment},
                   {"in_place", std::int64_t{problem.in_place}}}};
  append_options(problem.options, problem.cols, general.fields);
  return general;
}

}  // namespace tunesmith
