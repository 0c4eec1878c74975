// The Q tiles of a block of attention_backward/wgmma.cuh with a mask_mod.
#pragma once

#include "attention/block_mask.cuh"
#include "attention_backward/wgmma_tiles.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

/// A QueryRing without the tiles that mask_mod fully masks. Each lane reads the block mask of another tile, so all lanes of
/// a warp call the constructor and next() together.
template <const AttentionShape& shape, int tile_q, int tile_kv, bool ordered, int head_split>
class MaskedQueryRing {
 public:
  /// `own_k`: the first of the 64 keys that all_unmasked() is about.
  __device__ __forceinline__ MaskedQueryRing(const AttentionParams& params, const Visibility<shape>& visibility,
                                             const WgmmaKeys& keys, int own_k)
      : params_(params),
        batch_(keys.batch),
        kv_head_(keys.kv_head),
        mask_k_(keys.first_k / mask_tile),
        own_(own_k / mask_tile % 32),
        tiles_((visibility.seq_q + tile_q - 1) / tile_q),
        offset_(visibility.offset) {
    if constexpr (ordered) key_tiles_ = (visibility.seq_kv + mask_tile - 1) / mask_tile;
    count_ = 0;
#pragma unroll 1
    for (head_ = first_head(); head_ < end_of_heads(); ++head_) {
#pragma unroll 1
      for (chunk_ = 0; chunk_ * 32 < tiles_; ++chunk_) {
        look_up();
        count_ += count_bits(any_);
      }
      if (params.mask_head_stride == 0) {  // the same for all heads
        count_ *= query_heads<head_split>(params);
        break;
      }
    }
    head_ = first_head();
    chunk_ = 0;
    any_ = whole_ = 0;
    tile_ = 0;
    if (count_ == 0) return;
    // Blocks start at different tiles, so that they do not add to the same sums of dQ at the same time.
    const int start = ordered ? 0 : keys.first_k / tile_q % tiles_;
    chunk_ = start / 32;
    look_up();
    any_ &= 0xffffffffu << start % 32;
    settle();
  }
  __device__ __forceinline__ int count() const { return count_; }
  __device__ __forceinline__ int head() const { return head_; }
  __device__ __forceinline__ int first_q() const { return tile_ * tile_q; }
  __device__ __forceinline__ int offset() const { return offset_; }
  /// Returns whether mask_mod keeps all visible pairs of the tile and the 64 keys.
  __device__ __forceinline__ bool all_unmasked() const { return (whole_ >> tile_ % 32 & 1) != 0; }
  /// As QueryRing::earlier_blocks().
  __device__ __forceinline__ uint32 earlier_blocks() const {
    int blocks = 0;
#pragma unroll 1
    for (int word = 0; word < params_.mask_words; ++word) {
      uint32 any = 0;
#pragma unroll
      for (int row = 0; row < rows; ++row)
        if (tile_ * rows + row < params_.mask_rows) any |= words_of(tile_, row)[word];
      if constexpr (tile_kv == 2 * mask_tile) any = (any | any >> 1) & 0x55555555u;
      const int at = mask_k_ - 32 * word;  // of the block's own keys
      if constexpr (shape.bounded_right) {
        // Keys from the end of the sequence on have no block, but a block mask that the caller made may have their bits.
        const int end = key_tiles_ - 32 * word;
        const uint32 exist = end <= 0 ? 0 : end >= 32 ? 0xffffffffu : (1u << end) - 1;
        any &= exist & (at < 0 ? 0xffffffffu : at >= 31 ? 0 : 0xfffffffeu << at);
      } else {
        any &= at <= 0 ? 0 : at >= 32 ? 0xffffffffu : (1u << at) - 1;
      }
      blocks += count_bits(any);
    }
    return static_cast<uint32>(blocks);
  }
  /// Whether mask_mod keeps a pair of a tile and the `tile_kv` keys from first_k on.
  static __device__ __forceinline__ bool sees(const AttentionParams& params, const Visibility<shape>&, int batch, int head,
                                              int tile, int first_k) {
    const int mask_k = first_k / mask_tile;
    uint32 any = 0;
#pragma unroll
    for (int row = 0; row < rows; ++row)
      if (tile * rows + row < params.mask_rows) any |= mask_words_of(params, batch, head, tile * rows + row)[mask_k / 32];
    return (any >> mask_k % 32 & ((1u << tile_kv / mask_tile) - 1)) != 0;
  }
  /// After the last tile of the last head, the first one of the first head.
  __device__ __forceinline__ void next() {
    any_ &= any_ - 1;
    settle();
  }

 private:
  static constexpr int rows = tile_q / mask_tile;  ///< of the block mask
  static_assert(tile_q % mask_tile == 0 && (tile_kv == mask_tile || tile_kv == 2 * mask_tile));

  // Computed again where a head ends: loops over tiles have few registers.
  __device__ __forceinline__ int first_head() const { return first_query_head<head_split>(params_, kv_head_); }
  __device__ __forceinline__ int end_of_heads() const { return first_head() + query_heads<head_split>(params_); }
  __device__ __forceinline__ const uint32* words_of(int tile, int row) const {
    return mask_words_of(params_, batch_, head_, tile * rows + row);
  }
  /// Reads the block mask of the 32 tiles of a chunk.
  __device__ __forceinline__ void look_up() {
    const int tile = chunk_ * 32 + lane_index();
    uint32 any = 0, whole = 0xffffffffu;
#pragma unroll
    for (int row = 0; row < rows; ++row) {
      if (tile >= tiles_ || tile * rows + row >= params_.mask_rows) continue;
      const uint32* const words = words_of(tile, row) + mask_k_ / 32;
      any |= words[0];
      whole &= words[params_.mask_words];
    }
    constexpr uint32 keys = (1u << tile_kv / mask_tile) - 1;
    any_ = ballot((any >> mask_k_ % 32 & keys) != 0);
    whole_ = ballot((whole >> own_ & 1) != 0);
  }
  /// Goes on to the first tile that is left, which there must be in some head.
  __device__ __forceinline__ void settle() {
    while (any_ == 0) {
      if (++chunk_ * 32 >= tiles_) {
        chunk_ = 0;
        if (++head_ == end_of_heads()) head_ = first_head();
      }
      look_up();
    }
    // The lowest bit alone is a power of 2.
    tile_ = chunk_ * 32 + static_cast<int>(bits_of(static_cast<float>(any_ & (0u - any_))) >> 23) - 127;
  }

  const AttentionParams& params_;
  int batch_, kv_head_, mask_k_, own_, tiles_, offset_, count_;
  int head_, chunk_, tile_;
  int key_tiles_;       ///< of the block mask, if ordered
  uint32 any_, whole_;  ///< of the chunk: tiles that are left, tiles that are full for the 64 keys
};

}  // namespace tunesmith

#endif
