// The K/V tiles of a Q tile where a mask_mod hides some of them.
#pragma once

#include "attention/block_mask.cuh"
#include "attention/tiles.cuh"

namespace tunesmith {

/// K/V tiles that some of up to `most_q` queries see and of which mask_mod keeps something for some of them, from the last
/// to the first.
template <const AttentionShape& shape, int most_q, int tile_kv>
class MaskedKeyTiles {
 public:
  __device__ __forceinline__ MaskedKeyTiles(const AttentionParams& params, const Visibility<shape>& visibility, int batch,
                                            int head, int first_q, int last_q)
      : range_(key_tiles<shape, tile_kv>(visibility, first_q, last_q)), rows_(params, batch, head, first_q, last_q) {}

  /// An index below it is the end.
  __device__ __forceinline__ int begin() const { return range_.begin; }
  __device__ __forceinline__ int last() const { return from(range_.end - 1); }
  /// The tile that comes after `index`, which may be the end already.
  __device__ __forceinline__ int after(int index) const { return from(index - 1); }

  /// Whether mask_mod keeps all pairs of the tile that are seen.
  __device__ __forceinline__ bool keeps_all(int index) const { return rows_.template keeps_all<tile_kv>(index); }
  /// The same for the 64 queries `row` alone, counted from the first multiple of 64 that the queries meet.
  __device__ __forceinline__ bool keeps_all(int row, int index) const {
    return rows_.one(row).template keeps_all<tile_kv>(index);
  }
  /// Whether mask_mod keeps any pair of the tile for the 64 queries `row`.
  __device__ __forceinline__ bool keeps_any(int row, int index) const {
    return rows_.one(row).template keeps_any<tile_kv>(index);
  }

 private:
  __device__ __forceinline__ int from(int index) const { return rows_.template last_kept<tile_kv>(range_.begin, index); }

  KeyRange range_;
  MaskRows<most_q> rows_;
};

}  // namespace tunesmith
