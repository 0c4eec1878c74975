// A warp's products in the backward pass, on mma.sync: rows that it keeps in shared memory times streamed rows, and weights
// in registers times streamed rows.
#pragma once

#include "attention/fragments.cuh"
#include "attention_backward/backward.cuh"

namespace tunesmith {

/// sums = A B^T: `blocks` times 16 rows of A, `a_at` bytes from `shared`, with `count` rows of B, all `width` elements wide.
template <typename Element, int width, int blocks, int count>
__device__ __forceinline__ void multiply_rows(const unsigned char* shared, const MatrixRows<width>& a_rows, int a_at,
                                              const MatrixRows<width>& b_rows, int b_at, float (&sums)[blocks][count / 2]) {
#pragma unroll
  for (int block = 0; block < blocks; ++block)
#pragma unroll
    for (int i = 0; i < count / 2; ++i) sums[block][i] = 0.0f;
#pragma unroll
  for (int step = 0; step < (width + 15) / 16; ++step) {
    Fragments<blocks> a;
#pragma unroll
    for (int block = 0; block < blocks; ++block) {
      load_matrix_x4(a[block], shared, a_at + a_rows.at(block, step));
      if (a_rows.is_half(step)) a[block][2] = a[block][3] = 0;
    }
#pragma unroll
    for (int pair = 0; pair < count / 16; ++pair) {
      uint32 b[4];
      load_matrix_x4(b, shared, b_at + b_rows.at(pair, step));
      if (b_rows.is_half(step)) b[1] = b[3] = 0;
#pragma unroll
      for (int block = 0; block < blocks; ++block) {
        accumulate_tile<Element>(sums[block], 2 * pair, a[block], b[0], b[1]);
        accumulate_tile<Element>(sums[block], 2 * pair + 1, a[block], b[2], b[3]);
      }
    }
  }
}

/// sums += weights * B: `weights` as multiply_rows() leaves products with `count` rows of B, rounded to Element. `sums` has
/// room for more than `width` columns.
template <typename Element, int width, int blocks, int count, int room>
__device__ __forceinline__ void accumulate_rows(const float (&weights)[blocks][count / 2], const unsigned char* shared,
                                                const MatrixRows<width>& b_rows, int b_at, float (&sums)[blocks][room]) {
  static_assert(room >= width / 2, "a lane has half of a row's columns, of two rows of four");
#pragma unroll
  for (int step = 0; step < count / 16; ++step) {
    Fragments<blocks> a;
#pragma unroll
    for (int block = 0; block < blocks; ++block) round_weights<Element>(weights[block], step, a[block]);
#pragma unroll
    for (int pair = 0; pair < (width + 15) / 16; ++pair) {
      uint32 b[4];
      load_matrix_x4_transposed(b, shared, b_at + b_rows.at(step, pair));
#pragma unroll
      for (int block = 0; block < blocks; ++block) {
        accumulate_tile<Element>(sums[block], 2 * pair, a[block], b[0], b[1]);
        if (!b_rows.is_half(pair)) accumulate_tile<Element>(sums[block], 2 * pair + 1, a[block], b[2], b[3]);
      }
    }
  }
}

template <int blocks, int count>
__device__ __forceinline__ void clear(float (&sums)[blocks][count]) {
#pragma unroll
  for (int block = 0; block < blocks; ++block)
#pragma unroll
    for (int i = 0; i < count; ++i) sums[block][i] = 0.0f;
}

/// Writes factor * sums to rows [first, end) of a head, see write_part(); this lane's first row is `first` + lane / 4.
template <int width, int vector, bool accumulates, typename Element, int blocks, int room>
__device__ __forceinline__ void write_rows(const float (&sums)[blocks][room], Element* head, int64 row_stride, int first,
                                           int end, int lane, float factor) {
#pragma unroll
  for (int block = 0; block < blocks; ++block)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const int row = first + 16 * block + 8 * r + lane / 4;
      if (row >= end) continue;
#pragma unroll
      for (int n = 0; n < width / 8; ++n) {
        float values[2] = {multiply(sums[block][4 * n + 2 * r], factor), multiply(sums[block][4 * n + 2 * r + 1], factor)};
        write_part<vector, accumulates>(head + row * row_stride + 8 * n + lane % 4 * 2, values);
      }
    }
}

}  // namespace tunesmith
