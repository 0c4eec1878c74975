// Shared by producer and consumers of matmul/wgmma.cuh: the layout of shared memory, barriers and tiles.
#pragma once

#include "device/multicast.cuh"
#include "device/wgmma_transposed.cuh"
#include "matmul/shape.cuh"
#include "matmul/wgmma_params.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

struct MatmulWgmmaConfig {
  int consumers;  ///< warpgroups that multiply, 1 or 2
  int blocks_m;   ///< blocks of 64 rows of a warpgroup, 1 or 2
  int tile_n;     ///< columns of a tile: 64, 128, 192 or 256
  int stages;     ///< of 64 elements of k
  int cluster_m;  ///< blocks of a cluster that share a tile of B
  int cluster_n;  ///< blocks of a cluster that share a tile of A
  int splits;     ///< parts of k, which are computed like tiles and added afterwards
};

template <typename Out, const MatmulWgmmaConfig& config>
struct MatmulWgmmaTiles {
  static constexpr int k = 64, line = 128;  ///< elements of k in a stage; bytes of a row in shared memory
  static constexpr int rows = 64 * config.blocks_m, tile_m = rows * config.consumers, tile_n = config.tile_n;
  static constexpr int threads = 128 * (config.consumers + 1), warps = 4 * config.consumers;
  static constexpr int cluster = config.cluster_m * config.cluster_n;
  static constexpr int a_bytes = tile_m * line, b_bytes = tile_n * line, stage_bytes = a_bytes + b_bytes;
  /// Rows that a block loads for its cluster.
  static constexpr int a_share = tile_m / config.cluster_n, b_share = tile_n / config.cluster_m;
  /// A warp stages two slabs of 16 rows and 128 bytes of c.
  static constexpr int slab_columns = line / static_cast<int>(sizeof(Out)), slab_bytes = 16 * line, slabs = 2;
  static constexpr int c_at = config.stages * stage_bytes, barriers_at = c_at + warps * slabs * slab_bytes;
  static constexpr int smem_bytes = barriers_at + 16 * config.stages;
  static_assert(a_share % 64 == 0 && b_share % 64 == 0, "shares consist of slabs of 64 rows or columns");
};

/// Addresses of the barriers in shared memory.
struct MatmulBarriers {
  uint32 base;
  __device__ __forceinline__ uint32 full(int stage) const { return base + 16 * stage; }
  __device__ __forceinline__ uint32 empty(int stage) const { return base + 16 * stage + 8; }
};

/// The clusters' works, all tiles of a part of k before the next part's, and their steps of 64 elements of k.
template <const MatmulWgmmaConfig& config>
struct MatmulSteps {
  int tiles, works, all;

  __device__ __forceinline__ explicit MatmulSteps(const MatmulParams& params)
      : tiles(params.m_tiles * params.n_tiles), works(tiles * config.splits), all((params.k + 63) / 64) {}
  __device__ __forceinline__ int tile_of(int work) const { return config.splits == 1 ? work : work % tiles; }
  __device__ __forceinline__ int begin(int work) const {
    return config.splits == 1 ? 0 : all * (work / tiles) / config.splits;
  }
  __device__ __forceinline__ int end(int work) const {
    return config.splits == 1 ? all : all * (work / tiles + 1) / config.splits;
  }
};

/// A block's place in its cluster, and the tiles that the cluster computes.
template <const MatmulWgmmaConfig& config>
struct MatmulPlace {
  static constexpr int cluster = config.cluster_m * config.cluster_n;
  int rank, in_m, in_n;

  __device__ __forceinline__ MatmulPlace() : MatmulPlace(cluster > 1 ? cluster_rank() : 0) {}
  __device__ __forceinline__ explicit MatmulPlace(int rank_in_cluster) : rank(rank_in_cluster) {
    in_m = rank / config.cluster_n;
    in_n = rank - in_m * config.cluster_n;
  }
  __device__ __forceinline__ int first() const { return static_cast<int>(block_index()) / cluster; }
  __device__ __forceinline__ static int step() { return static_cast<int>(grid_blocks()) / cluster; }
  /// The tile of this block, counted in blocks' tiles.
  __device__ __forceinline__ MatmulTile tile(const MatmulParams& params, int number) const {
    const MatmulTile shared = matmul_tile(params, number);
    return {shared.row * config.cluster_m + in_m, shared.column * config.cluster_n + in_n};
  }
  /// Returns whether the cluster's tile is left as it is: the same for all of its threads.
  template <int tile_m, typename Epilogue>
  __device__ __forceinline__ static bool skips(const MatmulParams& params, const Epilogue& epilogue, int number) {
    constexpr int rows = tile_m * config.cluster_m;
    return epilogue.skips(matmul_tile(params, number).row * rows, rows);
  }
  /// The blocks with the same rows, and those with the same columns, as bits.
  __device__ __forceinline__ uint32 row_mates() const { return ((1u << config.cluster_n) - 1) << (in_m * config.cluster_n); }
  __device__ __forceinline__ uint32 column_mates() const {
    uint32 mates = 0;
#pragma unroll
    for (int i = 0; i < config.cluster_m; ++i) mates |= 1u << (i * config.cluster_n + in_n);
    return mates;
  }
};

}  // namespace tunesmith

#endif
