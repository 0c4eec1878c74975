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

/// c = factor row_factors[row] sum + bias[column]. The default of the kernels' epilogues, which all have these members:
///   Params                   parameters of the epilogue
///   writes                   whether c is written
///   skips_all()              whether no tile is computed: the same for all threads
///   skips(row, rows)         whether the tile of these rows is left as it is
///   row(row, column)         the state of a row while a thread goes over its sums, the first of which is at `column`
///   has_plain_rows, is_plain(state, columns)   whether the row's next `columns` columns are all like most of c
///   value<plain>(sum, state, offset)   the element of c, `offset` columns further; called for columns beyond the last one,
///                            too, if the row is not plain
///   end<lanes>(state, tile)  after a row's last column of a tile; `lanes` neighbouring lanes share the row
template <const MatmulShape& shape>
class LinearEpilogue {
 public:
  using Params = MatmulParams;
  static constexpr bool writes = true, has_plain_rows = false;
  struct Row {
    float factor;
    int column;
  };

  __device__ __forceinline__ explicit LinearEpilogue(const MatmulParams& params) : params_(params) {
    if constexpr (shape.factor) factor_ = *params.factor;
  }

  __device__ __forceinline__ static bool skips_all() { return false; }
  __device__ __forceinline__ static bool skips(int, int) { return false; }
  __device__ __forceinline__ static bool is_plain(const Row&, int) { return false; }
  __device__ __forceinline__ Row row(int row, int column) const {
    float factor = factor_;
    if constexpr (shape.row_factors)
      if (row < params_.m) factor = multiply(factor, params_.row_factors[row]);
    return {factor, column};
  }
  template <bool plain>
  __device__ __forceinline__ float value(float sum, const Row& row, int offset) const {
    float value = sum;
    if constexpr (shape.factor || shape.row_factors) value = multiply(value, row.factor);
    if constexpr (shape.bias)
      if (row.column + offset < params_.n) value = add(value, params_.bias[row.column + offset]);
    return value;
  }
  template <int lanes>
  __device__ __forceinline__ static void end(const Row&, int) {}

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
