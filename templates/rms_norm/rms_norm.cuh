// Device functions shared by the RMS normalization kernels.
//
//   y = x * rstd * (weight + weight_offset),  rstd = 1 / sqrt(mean(x^2) + eps)
//
// All arithmetic is float32, rounded once to y's type; of f64 it is double. The squares of a vector are added in a chain;
// sums over vectors and threads are compensated, so long rows are as accurate as short ones.
//
// Reference: Zhang and Sennrich, "Root mean square layer normalization" (arXiv:1910.07467).
#pragma once

#include "device/exponential.cuh"
#include "device/reciprocal_sqrt.cuh"
#include "row/columns.cuh"

namespace tunesmith {

/// The kernels' only argument: x is row.input[0], y is row.output.
template <typename Number>
struct RmsNormParamsOf {
  RowParams row;
  const void* weight;  ///< [cols]
  Number* rstd;        ///< [rows], or nullptr
  Number eps, weight_offset;
};
using RmsNormParams = RmsNormParamsOf<float>;
using RmsNormDoubleParams = RmsNormParamsOf<double>;

template <typename Sum, typename Number, int count>
__device__ __forceinline__ void include_squares(Sum& sum, const Number (&values)[count]) {
  Number squares = 0.0f;
#pragma unroll
  for (int j = 0; j < count; ++j) squares = fused_multiply_add(values[j], values[j], squares);
  sum.include(squares);
}

/// Returns the rstd of a row from its sum of squares, an unevaluated sum of two numbers; 0 if the sum overflows.
template <const RowShape& shape>
__device__ __forceinline__ Number<shape> rstd_of(const RmsNormParamsOf<Number<shape>>& params,
                                                 PairOf<Number<shape>> squares) {
  const auto columns = static_cast<Number<shape>>(columns_of<shape>(params.row));
  return reciprocal_sqrt(add(divide(rounded(squares), columns), params.eps));
}

/// Normalizes the vector at `column` and stores its elements that are in the row.
template <typename Types, const RowShape& shape, StoreHint hint>
__device__ __forceinline__ void store_normalized(const RmsNormParamsOf<Number<shape>>& params, const Row<shape>& row,
                                                 int64 column, bool inside, Number<shape> rstd,
                                                 Number<shape> (&values)[shape.vector]) {
  using Output = typename Types::Output;
  using Weight = typename RowFeatures<shape>::Weight;
#pragma unroll
  for (int j = 0; j < shape.vector; ++j) values[j] = multiply(values[j], rstd);
  if constexpr (Weight::present) {
    typename Weight::Value weight[shape.vector];
    Weight::template load<shape>(params.weight, row, column, inside, weight);
#pragma unroll
    for (int j = 0; j < shape.vector; ++j)
      values[j] = multiply(values[j], add(Number<shape>(weight[j]), params.weight_offset));
  }
  RowFeatures<shape>::Edges::template store<Output, shape.vector, hint>(row.template output<Output>(params.row), column,
                                                                        row.all, inside, values);
}

}  // namespace tunesmith
