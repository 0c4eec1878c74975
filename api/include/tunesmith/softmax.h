#pragma once
// Row-wise softmax as a typed problem.

#include <cstdint>

#include "tunesmith/problem.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// y[r,c] = exp(x[r,c] - max_c x[r,:]) / sum_c exp(x[r,:] - max), for every row r; accumulated in float32 whatever the
/// dtypes. A row that holds NaN or +inf, or nothing but -inf, gives NaN in every column, as PyTorch does.
struct SoftmaxProblem {
  std::int64_t rows = 0;          ///< >= 0
  std::int64_t cols = 1;          ///< >= 1; a tuned kernel is specialized for it
  DType dtype = DType::f32;       ///< of x
  DType out_dtype = DType::f32;   ///< of y
  std::int64_t x_row_stride = 0;  ///< elements between rows of x; 0: cols
  std::int64_t y_row_stride = 0;  ///< elements between rows of y; 0: cols
  std::int64_t x_alignment = 16;  ///< bytes x's address is promised to be a multiple of: a power of two, element size to 16
  std::int64_t y_alignment = 16;  ///< the same for y
  bool in_place = false;          ///< y is x: equal dtypes and strides

  static SoftmaxProblem contiguous(std::int64_t rows, std::int64_t cols, DType dtype) {
    SoftmaxProblem problem;
    problem.rows = rows;
    problem.cols = cols;
    problem.dtype = problem.out_dtype = dtype;
    return problem;
  }

  bool operator==(const SoftmaxProblem&) const = default;
};

/// The generic form. Checks nothing: Engine::prepare does.
Problem to_problem(const SoftmaxProblem& problem);

}  // namespace tunesmith
