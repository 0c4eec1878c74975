// The K/V tiles of a Q tile with a mask_mod.
#pragma once

#include "attention/block_mask.cuh"
#include "attention/tiles.cuh"

namespace tunesmith {

/// K/V tiles that contain an unmasked pair for up to `max_q` queries, from last to first.
template <const AttentionShape& shape, int max_q, int tile_kv>
class MaskedKeyTiles {
 public:
  __device__ __forceinline__ MaskedKeyTiles(const AttentionParams& params, const Visibility<shape>& visibility, int batch,
                                            int head, int first_q, int last_q)
      : range_(key_tiles<shape, tile_kv>(visibility, first_q, last_q)), rows_(params, batch, head, first_q, last_q) {}

  /// An index below this is the end.
  __device__ __forceinline__ int begin() const { return range_.begin; }
  __device__ __forceinline__ int last() const { return from(range_.end - 1); }
  /// Returns the tile after `index`, or the end.
  __device__ __forceinline__ int after(int index) const { return from(index - 1); }

  /// Returns whether mask_mod keeps all visible pairs of the tile.
  __device__ __forceinline__ bool all_unmasked(int index) const { return rows_.template all_unmasked<tile_kv>(index); }
  /// The same for the 64 queries `row` alone, counted from the first row that overlaps the queries.
  __device__ __forceinline__ bool all_unmasked(int row, int index) const {
    return rows_.one(row).template all_unmasked<tile_kv>(index);
  }
  /// Returns whether mask_mod keeps any pair of the tile for the 64 queries `row`.
  __device__ __forceinline__ bool any_unmasked(int row, int index) const {
    return rows_.one(row).template any_unmasked<tile_kv>(index);
  }

 private:
  __device__ __forceinline__ int from(int index) const { return rows_.template last_kept<tile_kv>(range_.begin, index); }

  KeyRange range_;
  MaskRows<max_q> rows_;
};

}  // namespace tunesmith
