// Problems of the softmax family: checks that concern several fields, and the shape that kernels are made for.

#include <algorithm>

#include "templates/row/empty_rows.h"
#include "templates/row/x_to_y.h"
#include "templates/softmax/op.h"
#include "templates/softmax/reference.h"
#include "templates/softmax/strided.h"

namespace tunesmith {
namespace {

row::Options options_of(const SoftmaxOptions& options, const SoftmaxRows& of) {
  row::Options result;
  result.scale = options.scale;
  result.causal = options.causal;
  result.valid_cols = options.valid_cols;
  result.valid_cols_group = options.valid_cols_group;
  result.safe = options.safe;
  const SoftmaxMask& mask = options.mask;
  if (mask.kind == SoftmaxMask::Kind::none) return result;
  result.mask = mask.kind == SoftmaxMask::Kind::add ? row::Mask::add : row::Mask::keep;
  result.mask_dtype = mask_dtype(mask, of.dtype);
  result.mask_inner = *mask.inner >= of.rows ? 0 : *mask.inner;
  result.mask_middle = mask.middle;
  result.mask_row_stride = *mask.row_stride;
  result.mask_middle_stride = mask.middle_stride;
  result.mask_outer_stride = mask.outer_stride;
  result.mask_alignment = mask.alignment;
  return result;
}

row::Shape launched(row::Shape shape) {
  if (shape.wide()) shape.cost.more_smem_bytes = 1024;  // partials of double
  // The gradient of safe log_softmax needs to know whether a row is empty, too.
  const bool finds_empty = shape.reads_two() && shape.cost.logarithm && shape.options.safe;
  if (!shape.wide() && !shape.ragged() && shape.options.mask == row::Mask::none && !finds_empty)
    shape.cost.streamed_part_bytes = shape.reads_two() ? 8 : 12;
  // Clusters are faster for float32, whose exponentials they compute once, and for log_softmax, without rescaling.
  constexpr std::int64_t long_row = 65536, longer_row = 98304, never = std::int64_t{1} << 62;
  const bool cheap = !shape.cost.logarithm && size_of(shape.output) == 2;
  shape.cost.min_streamed_cols = shape.reads_two() ? long_row : cheap ? longer_row : never;
  return row::without_empty_rows(shape);
}

row::Shape shape_of(const SoftmaxProblem& problem) {
  row::Shape shape = row::x_to_y_shape(problem);
  shape.cost.logarithm = problem.logarithm;
  shape.options = options_of(problem.options, {problem.rows, problem.cols, problem.dtype, false});
  return launched(shape);
}

row::Shape shape_of(const SoftmaxBackwardProblem& problem) {
  row::Shape shape;
  shape.rows = problem.rows;
  shape.cols = problem.cols;
  shape.input = problem.dtype;
  shape.output = problem.output();
  shape.inputs = 2;
  shape.in[0] = {*problem.dy_row_stride, problem.dy_alignment};
  shape.in[1] = {*problem.y_row_stride, problem.y_alignment};
  shape.out = {*problem.dx_row_stride, problem.dx_alignment};
  shape.in_place = problem.in_place;
  shape.cost.logarithm = problem.logarithm;
  shape.options = options_of(problem.options, {problem.rows, problem.cols, problem.dtype, true});
  return launched(shape);
}

void complete_options(SoftmaxOptions& options, std::int64_t rows, DType dtype) {
  // The kernel's factor. The limits themselves are kept: a float32 may lie beyond one, but is the same factor.
  if (dtype != DType::f64)
    options.scale = std::clamp(static_cast<double>(static_cast<float>(options.scale)), min_softmax_scale, max_softmax_scale);
  if (options.mask.dtype == DType::f64) row::check_wide(dtype, "mask_dtype", DType::f64);
  if (std::optional<std::int64_t>& inner = options.mask.inner; inner) inner = std::min(*inner, rows);
}

}  // namespace

std::string_view summary_of(const SoftmaxProblem& problem) noexcept {
  return problem.logarithm ? "y[r,:] = log(softmax(scale * x[r,:])) for every row r"
                           : "y[r,:] = softmax(scale * x[r,:]) for every row r";
}

std::string_view summary_of(const SoftmaxBackwardProblem& problem) noexcept {
  return problem.logarithm ? "dx[r,:] = scale * (dy[r,:] - exp(y[r,:]) * sum(dy[r,:])) for every row r"
                           : "dx[r,:] = scale * y[r,:] * (dy[r,:] - sum(dy[r,:] * y[r,:])) for every row r";
}

void complete(SoftmaxProblem& p) {
  row::check_wide(p.dtype, "out_dtype", p.output());
  if (p.strided())
    complete_strided(p);
  else
    row::complete_x_to_y(p);
  complete_options(p.options, p.rows, p.dtype);
}

void complete(SoftmaxBackwardProblem& p) {
  row::check_wide(p.dtype, "out_dtype", p.output());
  if (p.strided())
    complete_strided(p);
  else if (p.in_place)
    row::complete_in_place({"dy", p.dtype, *p.dy_row_stride, p.dy_alignment},
                           {"dx", p.output(), *p.dx_row_stride, p.dx_alignment});
  complete_options(p.options, p.rows, p.dtype);
}

ParsedSoftmax::ParsedSoftmax(const Op& op, const SoftmaxProblem& problem) : RowProblem(op, problem, shape_of(problem)) {}
ParsedSoftmax::ParsedSoftmax(const Op& op, const SoftmaxBackwardProblem& problem)
    : RowProblem(op, problem, shape_of(problem)) {}

ParsedProblemPtr ParsedSoftmax::of(const Op& op, const SoftmaxProblem& problem) {
  if (problem.strided()) return std::make_shared<const ParsedStridedSoftmax>(op, problem);
  return std::make_shared<const ParsedSoftmax>(op, problem);
}
ParsedProblemPtr ParsedSoftmax::of(const Op& op, const SoftmaxBackwardProblem& problem) {
  if (problem.strided()) return std::make_shared<const ParsedStridedSoftmax>(op, problem);
  return std::make_shared<const ParsedSoftmax>(op, problem);
}

void ParsedSoftmax::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  fill_softmax_inputs(shape(), seed, kind, arrays);
}

CheckResult ParsedSoftmax::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  return check_softmax(shape(), arrays, max_rows);
}

}  // namespace tunesmith
