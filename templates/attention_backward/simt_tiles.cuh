// A block's tiles in the kernels without tensor cores, and the products of rows of two tiles.
#pragma once

#include "attention/staged_rows.cuh"
#include "attention_backward/backward.cuh"

namespace tunesmith {

struct SimtBackwardConfig {
  int threads;          ///< a multiple of 32; 16 of them share the columns of a product, threads / 16 its rows
  int tile_q, tile_kv;  ///< of both kernels; multiples of 16 and of threads / 16
};

/// Tiles of a block that keeps `rows` rows and streams `columns` others.
template <const AttentionShape& shape, const SimtBackwardConfig& config, int kept, int streamed>
struct SimtBackwardTiles {
  static constexpr int across = 16, down = config.threads / across;
  static constexpr int rows = kept / down, columns = streamed / across;  // of a thread
  static constexpr int widest = shape.head_dim > shape.head_dim_v ? shape.head_dim : shape.head_dim_v;

  // Four floats more than a row: neighbouring rows start four banks apart.
  static constexpr int pad = 4;
  static constexpr int first_stride = shape.head_dim + pad, second_stride = shape.head_dim_v + pad;
  static constexpr int streamed_stride = widest + pad, weight_stride = streamed + pad;
  static constexpr int first_at = 0, second_at = first_at + kept * first_stride;
  static constexpr int streamed_at = second_at + kept * second_stride;
  static constexpr int weights_at = streamed_at + streamed * streamed_stride;
  static constexpr int lse_at = weights_at + kept * weight_stride;
  static constexpr int queries = kept > streamed ? kept : streamed;  // at most
  static constexpr int delta_at = lse_at + queries;
  static constexpr int smem_bytes = (delta_at + queries) * 4;

  static __device__ __forceinline__ int thread_row() { return thread_index() / across; }
  static __device__ __forceinline__ int thread_column() { return thread_index() % across; }
};

template <const AttentionShape& shape, const SimtBackwardConfig& config>
using SimtKeysTiles = SimtBackwardTiles<shape, config, config.tile_kv, config.tile_q>;
template <const AttentionShape& shape, const SimtBackwardConfig& config>
using SimtQueriesTiles = SimtBackwardTiles<shape, config, config.tile_q, config.tile_kv>;

/// Dot products of a thread's rows with its columns, both `width` elements in shared memory.
template <typename Tiles, int width, int row_stride>
__device__ __forceinline__ void multiply_rows(const float* rows, const float* columns,
                                              float (&products)[Tiles::rows][Tiles::columns]) {
#pragma unroll
  for (int i = 0; i < Tiles::rows; ++i)
#pragma unroll
    for (int j = 0; j < Tiles::columns; ++j) products[i][j] = 0.0f;
  for (int d = 0; d < width; d += 4) {
    Four a[Tiles::rows], b[Tiles::columns];
#pragma unroll
    for (int i = 0; i < Tiles::rows; ++i) a[i] = four_at(rows + (Tiles::thread_row() + i * Tiles::down) * row_stride + d);
#pragma unroll
    for (int j = 0; j < Tiles::columns; ++j)
      b[j] = four_at(columns + (Tiles::thread_column() + j * Tiles::across) * Tiles::streamed_stride + d);
#pragma unroll
    for (int e = 0; e < 4; ++e)
#pragma unroll
      for (int i = 0; i < Tiles::rows; ++i)
#pragma unroll
        for (int j = 0; j < Tiles::columns; ++j)
          products[i][j] = fused_multiply_add(a[i].values[e], b[j].values[e], products[i][j]);
  }
}

}  // namespace tunesmith
