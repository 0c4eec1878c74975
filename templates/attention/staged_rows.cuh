// Rows in shared memory as float32, for kernels without tensor cores.
#pragma once

#include "attention/rows.cuh"

namespace tunesmith {

/// Copies rows [first, first + count) of `source` as float32, `stride` floats apart; rows from `end` on become zeros.
/// `factor`: returns the factor of a row.
template <int threads, int count, int width, int vector, int stride, typename Rows, typename Factor = NoFactor>
__device__ __forceinline__ void stage_rows(const Rows& source, int first, int end, float* shared,
                                           const Factor& factor = Factor()) {
  constexpr int per_row = width / vector;
#pragma unroll 4
  for (int i = thread_index(); i < count * per_row; i += threads) {
    const int row = i / per_row, column = i % per_row * vector;
    float values[vector];
#pragma unroll
    for (int j = 0; j < vector; ++j) values[j] = 0.0f;
    if (first + row < end) {
      const Range whole = {0, width};
      WholeVectors::load<typename Rows::Element, vector, LoadHint::plain>(source.row(first + row, end), column, whole, true,
                                                                          0.0f)
          .unpack(values);
      if constexpr (!is_same<Factor, NoFactor>) {
        const float of_row = factor(first + row);
#pragma unroll
        for (int j = 0; j < vector; ++j) values[j] = multiply(values[j], of_row);
      }
    }
#pragma unroll
    for (int j = 0; j < vector; ++j) shared[row * stride + column + j] = values[j];
  }
}

struct alignas(16) Four {
  float values[4];
};
__device__ __forceinline__ Four four_at(const float* shared) { return *reinterpret_cast<const Four*>(shared); }

}  // namespace tunesmith
