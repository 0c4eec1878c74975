// Parameters of the matrix products. The host includes this file, too, and fills them.
#pragma once

#include "device/integers.cuh"

namespace tunesmith {

/// What all variants take.
struct MatmulParams {
  const void* a;             ///< (m, k), or (k, m) if transposed
  const void* b;             ///< (k, n), or (n, k) if transposed
  void* c;                   ///< (m, n)
  const float* factor;       ///< (1), or nullptr: 1
  const float* row_factors;  ///< (m), or nullptr: 1
  const float* bias;         ///< (n), or nullptr: 0
  int64 a_row_stride, b_row_stride, c_row_stride;
  int m, n, k;
  int c_columns;         ///< of c: n, or more, which an epilogue computes from sums of 0
  int m_tiles, n_tiles;  ///< of the clusters' tiles
  int group;             ///< rows of such tiles that are computed together, so that they share tiles of B in L2
};

}  // namespace tunesmith
