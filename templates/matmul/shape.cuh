// The order of a product's operands, and what follows the sums: shared by all variants.
#pragma once

#include "device/types.cuh"
#include "matmul/params.cuh"

namespace tunesmith {

struct MatmulShape {
  bool transpose_a, transpose_b;  ///< the array holds the transpose
  bool accumulate;                ///< c is added to
  bool factor, row_factors, bias;
};

/// c = factor row_factors[row] sum + bias[column]. The hook that others replace: a kernel that needs more of the
/// accumulators has an epilogue of its own with the same functions.
template <const MatmulShape& shape>
class LinearEpilogue {
 public:
  __device__ __forceinline__ explicit LinearEpilogue(const MatmulParams& params) : params_(params) {
    if constexpr (shape.factor) factor_ = *params.factor;
  }

  /// The factor of a row, which a thread reads once; 1 beyond the last.
  __device__ __forceinline__ float of_row(int row) const {
    float factor = factor_;
    if constexpr (shape.row_factors)
      if (row < params_.m) factor = multiply(factor, params_.row_factors[row]);
    return factor;
  }
  __device__ __forceinline__ float operator()(float sum, float of_row, int column) const {
    float value = sum;
    if constexpr (shape.factor || shape.row_factors) value = multiply(value, of_row);
    if constexpr (shape.bias)
      if (column < params_.n) value = add(value, params_.bias[column]);
    return value;
  }

 private:
  const MatmulParams& params_;
  float factor_ = 1.0f;
};

/// A tile of c, counted in tiles.
struct MatmulTile {
  int row, column;
};
/// Returns tile `number`: groups of rows one after the other; within a group, column by column.
__device__ __forceinline__ MatmulTile matmul_tile(const MatmulParams& params, int number) {
  const int per_group = params.group * params.n_tiles, group = number / per_group, rest = number - group * per_group;
  const int first = group * params.group;
  const int rows = params.m_tiles - first < params.group ? params.m_tiles - first : params.group;
  const int column = rest / rows;
  return {first + rest - column * rows, column};
}

}  // namespace tunesmith
