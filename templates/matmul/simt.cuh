// Matrix products without tensor cores, for float32, any architecture, any strides and alignments. A block of 16 x 16
// threads computes a tile of c from float32 copies of tiles of A and B in shared memory; each thread has a square of it in
// registers.
#pragma once

#include "device/vector.cuh"
#include "matmul/shape.cuh"

namespace tunesmith {

struct MatmulSimtConfig {
  int tile;    ///< rows and columns of a tile: a multiple of 16
  int tile_k;  ///< elements of k in shared memory
};

/// Copies `tile` x `tile_k` elements of a matrix of rows x k to shared memory, as tile_k rows of `tile`; 0 beyond its ends.
template <typename Element, const MatmulSimtConfig& config, bool k_innermost>
__device__ __forceinline__ void load_simt_tile(float* to, const void* matrix, int64 row_stride, int rows, int k,
                                               int first_row, int first_k) {
  constexpr int pad = 1;
  for (int i = thread_index(); i < config.tile * config.tile_k; i += 256) {
    // Neighbouring threads read neighbouring elements.
    const int row = k_innermost ? i / config.tile_k : i % config.tile,
              at = k_innermost ? i % config.tile_k : i / config.tile;
    const int64 r = first_row + row, c = first_k + at;
    float value = 0.0f;
    if (r < rows && c < k) {
      const auto* const elements = static_cast<const Element*>(matrix);
      value = to_float(elements[k_innermost ? r * row_stride + c : c * row_stride + r]);
    }
    to[at * (config.tile + pad) + row] = value;
  }
}

template <typename Element, typename Out, const MatmulShape& shape, const MatmulSimtConfig& config, typename Epilogue>
__device__ __forceinline__ void matmul_simt(const MatmulParams& params, const typename Epilogue::Params& epilogue_params) {
  constexpr int each = config.tile / 16, stride = config.tile + 1;
  auto* const shared_a = reinterpret_cast<float*>(dynamic_shared());
  float* const shared_b = shared_a + config.tile_k * stride;
  if (block_index() >= int64{params.m_tiles} * params.n_tiles) return;  // of a folded grid
  const MatmulTile tile = matmul_tile(params, static_cast<int>(block_index()));
  const int first_row = tile.row * config.tile, first_column = tile.column * config.tile;
  const Epilogue epilogue(epilogue_params);
  if (epilogue.skips_all() || epilogue.skips(first_row, config.tile)) return;
  const int down = thread_index() / 16, across = thread_index() % 16;
  float sums[each][each];
#pragma unroll
  for (int i = 0; i < each; ++i)
#pragma unroll
    for (int j = 0; j < each; ++j) sums[i][j] = 0.0f;
  for (int k = 0; k < params.k; k += config.tile_k) {
    load_simt_tile<Element, config, !shape.transpose_a>(shared_a, params.a, params.a_row_stride, params.m, params.k,
                                                        first_row, k);
    load_simt_tile<Element, config, shape.transpose_b>(shared_b, params.b, params.b_row_stride, params.n, params.k,
                                                       first_column, k);
    sync_block();
#pragma unroll 4
    for (int at = 0; at < config.tile_k; ++at) {
      float a[each], b[each];
#pragma unroll
      for (int i = 0; i < each; ++i) a[i] = shared_a[at * stride + down + 16 * i];
#pragma unroll
      for (int j = 0; j < each; ++j) b[j] = shared_b[at * stride + across + 16 * j];
#pragma unroll
      for (int i = 0; i < each; ++i)
#pragma unroll
        for (int j = 0; j < each; ++j) sums[i][j] = fused_multiply_add(a[i], b[j], sums[i][j]);
    }
    sync_block();
  }
#pragma unroll
  for (int i = 0; i < each; ++i) {
    const int row = first_row + down + 16 * i;
    auto state = epilogue.row(row, first_column + across);
    const bool plain = Epilogue::has_plain_rows && epilogue.is_plain(state, config.tile - 15);
#pragma unroll
    for (int j = 0; j < each; ++j) {
      float value = plain ? epilogue.template value<Epilogue::has_plain_rows>(sums[i][j], state, 16 * j)
                          : epilogue.template value<false>(sums[i][j], state, 16 * j);
      const int column = first_column + across + 16 * j;
      if (!Epilogue::writes || row >= params.m || column >= params.c_columns) continue;
      Out* const place = static_cast<Out*>(params.c) + row * params.c_row_stride + column;
      if constexpr (shape.accumulate) value = add(value, to_float(*place));
      *place = from_float<Out>(value);
    }
    epilogue.template end<16>(state, tile.column);
  }
}

}  // namespace tunesmith
