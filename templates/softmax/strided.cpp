// softmax, log_softmax and their gradients over a strided dimension: problems, kernels and references.

#include "templates/softmax/strided.h"

#include <array>

#include "templates/row/empty_rows.h"
#include "templates/softmax/reference.h"
#include "tunesmith/error.h"

namespace tunesmith {
namespace {

/// Returns the shape without the arrays.
template <typename Problem>
strided::Shape shape_without_arrays(const Problem& p) {
  strided::Shape shape;
  shape.rows = p.rows;
  shape.cols = p.cols;
  shape.inner = p.inner;
  shape.in_place = p.in_place;
  shape.scale = p.options.scale;
  if (p.dtype == DType::f64) {
    shape.reduction_bytes *= 2;
    shape.part_bytes *= 2;
  }
  shape.logarithm = p.logarithm;
  shape.safe = p.options.safe;
  return row::without_empty_rows(shape);
}

strided::Shape strided_shape_of(const SoftmaxProblem& p) {
  strided::Shape shape = shape_without_arrays(p);
  shape.in[0] = {"x", p.dtype, *p.x_row_stride, *p.x_col_stride, p.x_inner_stride, p.x_alignment};
  shape.out = {"y", p.output(), *p.y_row_stride, *p.y_col_stride, p.y_inner_stride, p.y_alignment};
  // The number of maxima and the logarithm, next to the elements as float32.
  if (p.logarithm && size_of(p.dtype) == 2) shape.more_registers = 5;
  return shape;
}

strided::Shape strided_shape_of(const SoftmaxBackwardProblem& p) {
  strided::Shape shape = shape_without_arrays(p);
  shape.inputs = 2;
  shape.in[0] = {"dy", p.dtype, *p.dy_row_stride, *p.dy_col_stride, p.dy_inner_stride, p.dy_alignment};
  shape.in[1] = {"y", p.dtype, *p.y_row_stride, *p.y_col_stride, p.y_inner_stride, p.y_alignment};
  shape.out = {"dx", p.output(), *p.dx_row_stride, *p.dx_col_stride, p.dx_inner_stride, p.dx_alignment};
  return shape;
}

void check_options(const SoftmaxOptions& options, std::int64_t inner) {
  const char* const unsupported = options.causal                                 ? "causal"
                                  : options.valid_cols                           ? "valid_cols"
                                  : options.mask.kind != SoftmaxMask::Kind::none ? "mask"
                                                                                 : nullptr;
  if (unsupported != nullptr)
    throw Error(ErrorCode::invalid_argument, unsupported, " is set, but columns are not adjacent (inner is ", inner,
                "); allowed: scale and safe");
}

template <typename Problem>
void complete_arrays(Problem& p, std::int64_t& input_alignment, std::int64_t& output_alignment) {
  check_options(p.options, p.inner);
  const strided::Shape shape = strided_shape_of(p);
  strided::check_output(shape.out, p.rows, p.cols, p.inner);
  if (p.in_place) strided::complete_in_place(shape.in[0], input_alignment, shape.out, output_alignment);
}

}  // namespace

void complete_strided(SoftmaxProblem& p) { complete_arrays(p, p.x_alignment, p.y_alignment); }
void complete_strided(SoftmaxBackwardProblem& p) { complete_arrays(p, p.dy_alignment, p.dx_alignment); }

ParsedStridedSoftmax::ParsedStridedSoftmax(const Op& op, const SoftmaxProblem& problem)
    : StridedProblem(op, problem, strided_shape_of(problem)) {}
ParsedStridedSoftmax::ParsedStridedSoftmax(const Op& op, const SoftmaxBackwardProblem& problem)
    : StridedProblem(op, problem, strided_shape_of(problem)) {}

Cost ParsedStridedSoftmax::cost() const {
  const strided::Shape& shape = this->shape();
  const double elements =
      static_cast<double>(shape.rows) * static_cast<double>(shape.cols) * static_cast<double>(shape.inner);
  Cost cost;
  cost.bytes_read = elements * static_cast<double>(shape.inputs * size_of(shape.input()));
  cost.bytes_written = elements * static_cast<double>(size_of(shape.output()));
  cost.flops = (shape.backward() ? 4 : 5) * elements;  // as for rows of adjacent columns
  return cost;
}

strided::Kernels ParsedStridedSoftmax::kernels() const {
  const strided::Shape& shape = this->shape();
  strided::Kernels kernels;
  kernels.features = {{"Arithmetic", std::string(arithmetic_of(shape.output()))}};
  if (shape.backward()) {
    kernels.file = "softmax/strided_backward.cuh";
    kernels.function = "softmax_backward_strided";
    kernels.steps = shape.logarithm ? "the sum of dy and the gradient" : "the sum of dy * y and the gradient";
    return kernels;
  }
  kernels.file = "softmax/strided.cuh";
  kernels.function = "softmax_strided";
  kernels.steps = "the maximum, the sum of exponentials and the result";
  kernels.features.emplace_back("Function", shape.logarithm ? "LogSoftmaxFunction" : "SoftmaxFunction");
  return kernels;
}

row::Shape ParsedStridedSoftmax::rows() const {
  const strided::Shape& shape = this->shape();
  row::Shape rows;
  rows.rows = shape.rows * shape.inner;
  rows.cols = shape.cols;
  rows.input = shape.input();
  rows.output = shape.output();
  rows.inputs = shape.inputs;
  rows.cost.logarithm = shape.logarithm;
  rows.options.scale = shape.scale;
  rows.options.safe = shape.safe;
  return rows;
}

void ParsedStridedSoftmax::fill_inputs(std::uint64_t seed, InputKind kind, std::span<const HostArray> arrays) const {
  fill_softmax_inputs(rows(), seed, kind, arrays);
}

CheckResult ParsedStridedSoftmax::check(std::span<const HostArray> arrays, std::int64_t max_rows) const {
  return check_softmax(rows(), arrays, max_rows);
}

}  // namespace tunesmith
