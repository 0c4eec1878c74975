// The work of a block: one Q tile and its K/V tiles.
#pragma once

#include "attention/attention.cuh"
#include "attention/key_values.cuh"

namespace tunesmith {

/// The Q tile of a block and its head. Neighbouring blocks have different heads of the same tile, so blocks that run at the
/// same time have equal work under a causal mask. The last queries, which see most keys, come first.
template <const AttentionShape& shape, int tile_q>
struct BlockOfQueries {
  int batch, head, kv_head, tile;
  Sequence sequence;
  int first_q, last_q;

  __device__ __forceinline__ explicit BlockOfQueries(const AttentionParams& params) {
    const int64 work = block_index();
    head = static_cast<int>(work % params.heads);
    batch = static_cast<int>(work / params.heads % params.batch);
    tile = params.q_tiles - 1 - static_cast<int>(work / params.heads / params.batch);
    kv_head = head / (params.heads / params.kv_heads);
    sequence = sequence_of<shape>(params, batch);
    first_q = tile * tile_q;
    last_q = (first_q + tile_q < sequence.seq_q ? first_q + tile_q : sequence.seq_q) - 1;
  }
  __device__ __forceinline__ bool is_empty() const { return tile < 0 || first_q >= sequence.seq_q; }

  template <typename Element>
  __device__ __forceinline__ StridedRows<Element> q(const AttentionParams& params) const {
    return rows_of<shape>(static_cast<const Element*>(params.q), params.q_strides, sequence.q_start, batch, head);
  }
  template <typename Element>
  __device__ __forceinline__ KeyValuesOf<Element, shape> key_values(const AttentionParams& params) const {
    return {params, sequence, batch, kv_head};
  }
  template <typename Element>
  __device__ __forceinline__ Element* o(const AttentionParams& params) const {
    return head_of<shape>(static_cast<Element*>(params.o), params.o_strides, sequence.q_start, batch, head);
  }
};

/// Returns the K/V tiles that any query of [first_q, last_q] sees.
template <const AttentionShape& shape, int tile_kv>
__device__ __forceinline__ KeyRange key_tiles(const Visibility<shape>& visibility, int first_q, int last_q) {
  const KeyRange seen = visibility.of_any(first_q, last_q);
  if (seen.empty()) return {0, 0};
  return {seen.begin / tile_kv, (seen.end + tile_kv - 1) / tile_kv};
}

/// K/V tiles that any of up to `max_q` queries sees, from last to first. attention/masked_tiles.cuh is for a mask_mod.
template <const AttentionShape& shape, int max_q, int tile_kv>
class KeyTiles {
 public:
  __device__ __forceinline__ KeyTiles(const AttentionParams&, const Visibility<shape>& visibility, int, int, int first_q,
                                      int last_q)
      : range_(key_tiles<shape, tile_kv>(visibility, first_q, last_q)) {}

  /// An index below this is the end.
  __device__ __forceinline__ int begin() const { return range_.begin; }
  __device__ __forceinline__ int last() const { return from(range_.end - 1); }
  /// Returns the tile after `index`, or the end.
  __device__ __forceinline__ int after(int index) const { return from(index - 1); }

  // Without mask_mod, only Visibility masks pairs.
  __device__ __forceinline__ bool all_unmasked(int) const { return true; }
  __device__ __forceinline__ bool all_unmasked(int, int) const { return true; }
  __device__ __forceinline__ bool any_unmasked(int, int) const { return true; }

 private:
  // As in MaskedKeyTiles. Without it the compiler emits two instructions for the maximum in SomeTiles::last().
  __device__ __forceinline__ int from(int index) const { return index; }

  KeyRange range_;
};

template <const AttentionShape& shape, int max_q, int tile_kv>
using KeyTilesOf = typename AttentionFeatures<shape>::template Tiles<max_q, tile_kv>;

}  // namespace tunesmith
