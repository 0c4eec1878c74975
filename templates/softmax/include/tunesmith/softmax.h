#pragma once
// Row-wise softmax, log-softmax and their gradients as typed problems.

#include <cstdint>

#include "tunesmith/problem.h"
#include "tunesmith/softmax_options.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// y[r,c] = exp(x[r,c] - max_c x[r,:]) / sum_c exp(x[r,:] - max), for every row r; with `logarithm` its natural logarithm,
/// x[r,c] - max - log(sum). Accumulated in float32 whatever the dtypes. A row that holds NaN or +inf, or nothing but -inf,
/// gives NaN in every column, as PyTorch does; SoftmaxOptions::safe changes the last.
struct SoftmaxProblem {
  std::int64_t rows = 0;          ///< >= 0
  std::int64_t cols = 1;          ///< >= 1; a tuned kernel is specialized for it
  DType dtype = DType::f32;       ///< of x: f32, f16 or bf16
  DType out_dtype = DType::f32;   ///< of y: f32, f16 or bf16
  std::int64_t x_row_stride = 0;  ///< elements between rows of x; 0: cols
  std::int64_t y_row_stride = 0;  ///< elements between rows of y; 0: cols
  std::int64_t x_alignment = 16;  ///< bytes x's address is promised to be a multiple of: a power of two, element size to 16
  std::int64_t y_alignment = 16;  ///< the same for y
  bool in_place = false;          ///< y is x: equal dtypes and strides
  SoftmaxOptions options{};       ///< default: none
  bool logarithm = false;         ///< log_softmax instead of softmax

  static SoftmaxProblem contiguous(std::int64_t rows, std::int64_t cols, DType dtype) {
    SoftmaxProblem problem;
    problem.rows = rows;
    problem.cols = cols;
    problem.dtype = problem.out_dtype = dtype;
    return problem;
  }

  bool operator==(const SoftmaxProblem&) const = default;
};

/// The gradient of a loss with respect to x, from dy (the one with respect to y) and y as the forward operation gave it:
///   softmax:      dx = scale * y * (dy - sum_c dy * y)
///   log_softmax:  dx = scale * (dy - exp(y) * sum_c dy)
/// for every row; accumulated in float32 or better whatever the dtypes. `options` are those of the forward call, but for an
/// add mask, which a gradient knows nothing of (y holds its effect) and refuses. dx of a masked element is 0.
struct SoftmaxBackwardProblem {
  std::int64_t rows = 0;           ///< >= 0
  std::int64_t cols = 1;           ///< >= 1; a tuned kernel is specialized for it
  DType dtype = DType::f32;        ///< of dy and y: f32, f16 or bf16
  DType out_dtype = DType::f32;    ///< of dx: f32, f16 or bf16
  std::int64_t dy_row_stride = 0;  ///< elements between rows of dy; 0: cols
  std::int64_t y_row_stride = 0;   ///< elements between rows of y; 0: cols
  std::int64_t dx_row_stride = 0;  ///< elements between rows of dx; 0: cols
  std::int64_t dy_alignment = 16;  ///< bytes dy's address is promised to be a multiple of, as for SoftmaxProblem
  std::int64_t y_alignment = 16;   ///< the same for y
  std::int64_t dx_alignment = 16;  ///< the same for dx
  bool in_place = false;           ///< dx is dy: equal dtypes and strides
  SoftmaxOptions options{};        ///< default: none
  bool logarithm = false;          ///< the gradient of log_softmax instead of softmax

  static SoftmaxBackwardProblem contiguous(std::int64_t rows, std::int64_t cols, DType dtype) {
    SoftmaxBackwardProblem problem;
    problem.rows = rows;
    problem.cols = cols;
    problem.dtype = problem.out_dtype = dtype;
    return problem;
  }

  bool operator==(const SoftmaxBackwardProblem&) const = default;
};

/// The generic form. Options at their defaults are left out. Checks nothing: Engine::prepare does.
Problem to_problem(const SoftmaxProblem& problem);
Problem to_problem(const SoftmaxBackwardProblem& problem);

}  // namespace tunesmith
