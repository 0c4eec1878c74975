// The block mask of mask_mod: a kernel classifies tiles of 64 queries and 64 keys once. Attention skips fully masked tiles
// and does not call mask_mod in full tiles. The tile size does not depend on the configuration, so the block mask can be
// reused.
//
// Two bits per tile, over its pairs that exist and that causal masks and windows allow: `any`, mask_mod keeps some of them;
// `whole`, it keeps all of them. Without such pairs: not any, but whole. Each batch entry, head and 64 queries has a row of
// words of `any`, then one of `whole`; key 64 * i is bit i % 32 of word i / 32. The block mask is computed once for the
// whole batch, or all heads, if mask_mod ignores the batch entry or the head.
#pragma once

#include "attention/attention.cuh"

namespace tunesmith {

constexpr int mask_tile = 64;           ///< queries, and keys
constexpr int block_mask_at = 128;      ///< in the workspace, where they are in no array of the user's
constexpr int mask_tile_threads = 512;  ///< of a block that makes one word of each kind

__device__ __forceinline__ uint32* block_mask_of(const AttentionParams& params) {
  if (params.block_mask != nullptr) return params.block_mask;
  return reinterpret_cast<uint32*>(params.workspace + block_mask_at);
}
/// The words of `any` of the Q tiles `row`; those of `whole` follow, then the next row's.
__device__ __forceinline__ uint32* mask_words_of(const AttentionParams& params, int batch, int head, int row) {
  return block_mask_of(params) + batch * params.mask_batch_stride + head * params.mask_head_stride +
         int64{row} * 2 * params.mask_words;
}

struct TileClass {
  bool any, whole;
};

/// Of a tile of which some pair exists and is seen; `inside`: all of them. All lanes of a warp together, side by side along
/// keys. No pair is asked for twice, and none any more once the tile is known to be mixed.
template <const AttentionShape& shape, typename Modification, bool inside>
__device__ __forceinline__ TileClass class_of_pairs(const AttentionParams& params, const Visibility<shape>& visibility,
                                                    int batch, int head, int first_q, int first_k) {
  bool any = false, whole = true;
  // If all pairs exist, the compiler hoists what depends on the key, or the query, alone, and steps from query to query by
  // constants.
  constexpr int together = inside ? 8 : 1, apart = mask_tile / together;
#pragma unroll 1
  for (int i = 0; i < apart; ++i) {
    // Queries that lie far apart come one after the other: where what is kept ends inside the tile it shows soon.
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

/// Of the tile of these first query and key.
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

/// Fills all words, padding included.
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

/// What is known of the K/V tiles of up to `most_q` queries, those beyond the end included. Words are read whenever they
/// are asked for: they stay in L1, and registers are for something else.
template <int most_q>
class MaskRows {
 public:
  __device__ __forceinline__ MaskRows() : first_(nullptr), words_(0), rows_(0) {}
  __device__ __forceinline__ MaskRows(const AttentionParams& params, int batch, int head, int first_q, int last_q)
      : first_(mask_words_of(params, batch, head, first_q / mask_tile)),
        words_(params.mask_words),
        rows_((last_q / mask_tile < params.mask_rows ? last_q / mask_tile + 1 : params.mask_rows) - first_q / mask_tile) {}
  __device__ __forceinline__ MaskRows(const uint32* first, int words, int rows)
      : first_(first), words_(words), rows_(rows) {}

  /// Of the 64 queries `row` alone; nothing is kept where there are none.
  __device__ __forceinline__ MaskRows<mask_tile> one(int row) const {
    return {first_ + row * 2 * words_, words_, row < rows_ ? 1 : 0};
  }

  /// Bits of tiles of which some query keeps something.
  __device__ __forceinline__ uint32 any(int word) const {
    uint32 bits = 0;
#pragma unroll
    for (int row = 0; row < most; ++row)
      if (row < rows_) bits |= first_[row * 2 * words_ + word];
    return bits;
  }
  /// Bits of tiles of which all queries keep everything.
  __device__ __forceinline__ uint32 whole(int word) const {
    uint32 bits = 0xffffffffu;
#pragma unroll
    for (int row = 0; row < most; ++row)
      if (row < rows_) bits &= first_[(row * 2 + 1) * words_ + word];
    return bits;
  }

  /// The last tile of `tile_kv` keys from `index` down to `begin` of which something is kept; begin - 1 if there is none.
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
  /// Whether something of the K/V tile is kept.
  template <int tile_kv>
  __device__ __forceinline__ bool keeps_any(int index) const {
    bool found = false;
    over_words<tile_kv>(index, [&](int word, uint32 tiles) { found = found || (any(word) & tiles) != 0; });
    return found;
  }
  /// Whether everything is that is seen.
  template <int tile_kv>
  __device__ __forceinline__ bool keeps_all(int index) const {
    bool all = true;
    over_words<tile_kv>(index, [&](int word, uint32 tiles) { all = all && (whole(word) & tiles) == tiles; });
    return all;
  }

 private:
  // Divisors of 64 queries begin at multiples of themselves, and so do multiples.
  static constexpr int most = mask_tile % most_q == 0   ? 1
                              : most_q % mask_tile == 0 ? most_q / mask_tile
                                                        : most_q / mask_tile + 2;

  /// The exponent of the number without what could round it up to the next power of 2.
  static __device__ __forceinline__ int highest_bit(uint32 bits) {
    return static_cast<int>(bits_of(static_cast<float>(bits & ~(bits >> 1))) >> 23) - 127;
  }
  /// The last tile of 64 keys that a K/V tile meets, and that has a bit.
  template <int tile_kv>
  __device__ __forceinline__ int last_tile(int index) const {
    const int tile = (index * tile_kv + tile_kv - 1) / mask_tile;
    return tile < words_ * 32 ? tile : words_ * 32 - 1;
  }
  /// Calls visit(word, bits of the tiles that a K/V tile meets).
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
