// The block mask of mask_mod: a kernel classifies tiles of 64 queries and 64 keys once. Attention skips fully masked tiles
// and does not call mask_mod in full tiles. The tile size is fixed, so a block mask works for all configurations.
//
// Each tile has two bits, over its pairs that exist and are visible: `any`, mask_mod keeps at least one; `whole`, it keeps
// all. A tile without such pairs has any = 0, whole = 1. Each batch entry, head and 64 queries has a row of words of `any`,
// then one of `whole`; key 64 * i is bit i % 32 of word i / 32. If mask_mod ignores the batch entry or the head, the block
// mask is computed once for the whole batch, or for all heads.
#pragma once

#include "attention/attention.cuh"

namespace tunesmith {

constexpr int mask_tile = 64;           ///< queries and keys per tile
constexpr int block_mask_at = 128;      ///< offset in the workspace, unless the user passes an array
constexpr int mask_tile_threads = 512;  ///< threads of a block, which computes one word for each of the two bits

__device__ __forceinline__ uint32* block_mask_of(const AttentionParams& params) {
  if (params.block_mask != nullptr) return params.block_mask;
  return reinterpret_cast<uint32*>(params.workspace + block_mask_at);
}
/// Returns the `any` words of the 64 queries `row`; their `whole` words follow, then the next row.
__device__ __forceinline__ uint32* mask_words_of(const AttentionParams& params, int batch, int head, int row) {
  return block_mask_of(params) + batch * params.mask_batch_stride + head * params.mask_head_stride +
         int64{row} * 2 * params.mask_words;
}

struct TileClass {
  bool any, whole;
};

/// Classifies a tile with visible pairs; `inside`: all pairs are visible. All lanes of a warp together, on neighbouring
/// keys. Evaluates no pair twice, and stops once the tile is known to be partial.
template <const AttentionShape& shape, typename Modification, bool inside>
__device__ __forceinline__ TileClass class_of_pairs(const AttentionParams& params, const Visibility<shape>& visibility,
                                                    int batch, int head, int first_q, int first_k) {
  bool any = false, whole = true;
  // If all pairs exist, the compiler hoists terms of the key or the query alone and advances queries by constants.
  constexpr int together = inside ? 8 : 1, apart = mask_tile / together;
#pragma unroll 1
  for (int i = 0; i < apart; ++i) {
    // Visit distant queries first: a mask boundary inside the tile then shows early.
    const int first = first_q + i * (inside ? 1 : 21) % mask_tile;
#pragma unroll
    for (int j = 0; j < 2 * together; ++j) {
      const int query = first + j / 2 * apart, key = first_k + j % 2 * 32 + lane_index();
      if (!inside && (query >= visibility.seq_q || !visibility.sees(query, key))) continue;
      const bool keeps = Modification::keeps(batch, head, query, key, params.aux);
      any = any || keeps;
      whole = whole && keeps;
    }
    if (any_in_warp(any) && any_in_warp(!whole)) return {true, false};
  }
  return {any_in_warp(any), !any_in_warp(!whole)};
}

/// Classifies the tile that starts at first_q and first_k.
template <const AttentionShape& shape, typename Modification>
__device__ __forceinline__ TileClass class_of_tile(const AttentionParams& params, const Sequence& sequence, int batch,
                                                   int head, int first_q, int first_k) {
  const Visibility<shape> visibility(params, sequence);
  const int last_q = (first_q + mask_tile < sequence.seq_q ? first_q + mask_tile : sequence.seq_q) - 1;
  const KeyRange seen = visibility.of_any(first_q, last_q), by_all = visibility.of_all(first_q, last_q);
  if (last_q < first_q || first_k >= seen.end || first_k + mask_tile <= seen.begin) return {false, true};
  if (last_q - first_q == mask_tile - 1 && by_all.holds(first_k, first_k + mask_tile - 1))
    return class_of_pairs<shape, Modification, true>(params, visibility, batch, head, first_q, first_k);
  return class_of_pairs<shape, Modification, false>(params, visibility, batch, head, first_q, first_k);
}

/// Computes all words, padding included.
template <const AttentionShape& shape, typename Modification>
__device__ __forceinline__ void classify_block_mask(const AttentionParams& params) {
  TUNESMITH_SHARED(TileClass, found, 32);
  int64 number = block_index();
  const auto next = [&](int count) {
    const int64 rest = number / count;
    const auto index = static_cast<int>(number - rest * count);
    number = rest;
    return index;
  };
  const int word = next(params.mask_words), row = next(params.mask_rows);
  const int head = next(params.mask_head_stride == 0 ? 1 : params.heads);
  if (number >= (params.mask_batch_stride == 0 ? 1 : params.batch)) return;
  const auto batch = static_cast<int>(number);
  const Sequence sequence = sequence_of<shape>(params, batch);
  for (int tile = warp_index(); tile < 32; tile += mask_tile_threads / 32) {
    const TileClass one =
        class_of_tile<shape, Modification>(params, sequence, batch, head, row * mask_tile, (word * 32 + tile) * mask_tile);
    if (lane_index() == 0) found[tile] = one;
  }
  sync_block();
  if (warp_index() != 0) return;
  const uint32 any = ballot(found[lane_index()].any), whole = ballot(found[lane_index()].whole);
  uint32* const words = mask_words_of(params, batch, head, row);
  if (lane_index() == 0) {
    words[word] = any;
    words[params.mask_words + word] = whole;
  }
}

/// Block mask rows of up to `max_q` queries, which may exceed the sequence. Words are loaded at each use: they stay in L1,
/// and registers are scarce.
template <int max_q>
class MaskRows {
 public:
  __device__ __forceinline__ MaskRows() : first_(nullptr), words_(0), rows_(0) {}
  __device__ __forceinline__ MaskRows(const AttentionParams& params, int batch, int head, int first_q, int last_q)
      : first_(mask_words_of(params, batch, head, first_q / mask_tile)),
        words_(params.mask_words),
        rows_((last_q / mask_tile < params.mask_rows ? last_q / mask_tile + 1 : params.mask_rows) - first_q / mask_tile) {}
  __device__ __forceinline__ MaskRows(const uint32* first, int words, int rows)
      : first_(first), words_(words), rows_(rows) {}

  /// Returns the 64 queries `row` alone; no pair is kept beyond the sequence.
  __device__ __forceinline__ MaskRows<mask_tile> one(int row) const {
    return {first_ + row * 2 * words_, words_, row < rows_ ? 1 : 0};
  }

  /// Returns the bits of tiles in which some query keeps a pair.
  __device__ __forceinline__ uint32 any(int word) const {
    uint32 bits = 0;
#pragma unroll
    for (int row = 0; row < most; ++row)
      if (row < rows_) bits |= first_[row * 2 * words_ + word];
    return bits;
  }
  /// Returns the bits of tiles in which all queries keep all pairs.
  __device__ __forceinline__ uint32 whole(int word) const {
    uint32 bits = 0xffffffffu;
#pragma unroll
    for (int row = 0; row < most; ++row)
      if (row < rows_) bits &= first_[(row * 2 + 1) * words_ + word];
    return bits;
  }

  /// Returns the last K/V tile from `index` down to `begin` with a kept pair; begin - 1 if there is none.
  template <int tile_kv>
  __device__ __forceinline__ int last_kept(int begin, int index) const {
    if (index < begin) return begin - 1;
    const int from = begin * tile_kv / mask_tile;
    for (int tile = last_tile<tile_kv>(index); tile >= from; tile = (tile & ~31) - 1) {
      const uint32 kept = any(tile / 32) & (0xffffffffu >> (31 - tile % 32));
      if (kept == 0) continue;
      // K/V tiles after the one that contains the last kept mask tile are fully masked.
      const int end = ((tile & ~31) + highest_bit(kept)) * mask_tile + mask_tile - 1;
      const int found = end / tile_kv < index ? end / tile_kv : index;
      return found < begin ? begin - 1 : found;
    }
    return begin - 1;
  }
  /// Returns whether mask_mod keeps any visible pair of the K/V tile.
  template <int tile_kv>
  __device__ __forceinline__ bool any_unmasked(int index) const {
    bool found = false;
    over_words<tile_kv>(index, [&](int word, uint32 tiles) { found = found || (any(word) & tiles) != 0; });
    return found;
  }
  /// Returns whether mask_mod keeps all visible pairs of the K/V tile.
  template <int tile_kv>
  __device__ __forceinline__ bool all_unmasked(int index) const {
    bool all = true;
    over_words<tile_kv>(index, [&](int word, uint32 tiles) { all = all && (whole(word) & tiles) == tiles; });
    return all;
  }

 private:
  // Maximum number of rows: Q tiles that divide 64, or are multiples of 64, are aligned to the rows.
  static constexpr int most = mask_tile % max_q == 0   ? 1
                              : max_q % mask_tile == 0 ? max_q / mask_tile
                                                       : max_q / mask_tile + 2;

  /// Returns the index of the highest bit; lower bits are cleared first, because they could round up to a power of 2.
  static __device__ __forceinline__ int highest_bit(uint32 bits) {
    return static_cast<int>(bits_of(static_cast<float>(bits & ~(bits >> 1))) >> 23) - 127;
  }
  /// Returns the last 64-key tile that overlaps the K/V tile, at most the last one that has a bit.
  template <int tile_kv>
  __device__ __forceinline__ int last_tile(int index) const {
    const int tile = (index * tile_kv + tile_kv - 1) / mask_tile;
    return tile < words_ * 32 ? tile : words_ * 32 - 1;
  }
  /// Calls visit(word, bits of the 64-key tiles that overlap the K/V tile).
  template <int tile_kv, typename Visit>
  __device__ __forceinline__ void over_words(int index, Visit visit) const {
    const int first = index * tile_kv / mask_tile;
    if constexpr (mask_tile % tile_kv == 0) {
      visit(first / 32, 1u << first % 32);
    } else {
      const int last = last_tile<tile_kv>(index);
      for (int word = first / 32; word <= last / 32; ++word) {
        const int low = word == first / 32 ? first % 32 : 0, high = word == last / 32 ? last % 32 : 31;
        visit(word, (0xffffffffu << low) & (0xffffffffu >> (31 - high)));
      }
    }
  }

  const uint32* first_;
  int words_, rows_;
};

}  // namespace tunesmith
