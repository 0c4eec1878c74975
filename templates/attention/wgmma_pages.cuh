// The TMA boxes of a K/V tile whose keys are in pages.
#pragma once

#include "attention/wgmma_tiles.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

/// The rows of a tile are in pages. A box is the largest part of a page that tiles consist of, a multiple of the 8 rows
/// after which the swizzle of shared memory repeats.
template <const AttentionShape& shape, int tile_kv>
struct PagedBoxes {
  static __device__ constexpr int common_divisor(int a, int b) { return b == 0 ? a : common_divisor(b, a % b); }
  static constexpr int rows = common_divisor(tile_kv, shape.page_size), count = tile_kv / rows;
  static_assert(rows % 8 == 0 && count <= 32, "a warp loads a tile, one box of its rows in each lane");

  struct Place {
    int page, slot;
  };
  /// Looks up this lane's box. Boxes after the last key are out of bounds: TMA fills them with zeros.
  static __device__ __forceinline__ Place find(const AttentionParams& params, const TileOfQueries& tile, int index) {
    const int position = index * tile_kv + (count > 1 ? lane_index() * rows : 0);
    const auto page = static_cast<int>(static_cast<uint32>(position) / static_cast<uint32>(shape.page_size));
    const AttentionPages& pages = pages_of<shape>(params);
    return {position < tile.seq_kv ? pages.block_table[tile.batch * pages.table_stride + page] : -1,
            position - page * shape.page_size};
  }
  static __device__ __forceinline__ int row(const TileOfQueries&, const Place& place) { return place.slot; }
  static __device__ __forceinline__ int entry(const TileOfQueries&, const Place& place) { return place.page; }
};

}  // namespace tunesmith

#endif
