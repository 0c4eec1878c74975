// Shared by the warpgroups of attention_backward/wgmma.cuh: the layout of shared memory and of the sums of dQ, and the order
// of blocks and Q tiles.
#pragma once

#include "attention/alibi.cuh"
#include "attention_backward/pairs.cuh"
#include "attention_backward/wgmma_params.cuh"
#include "device/bulk.cuh"
#include "device/wgmma.cuh"

#if !defined(TUNESMITH_HOST_EXECUTOR) && (!defined(__CUDA_ARCH__) || defined(__CUDA_ARCH_FEAT_SM90_ALL))

namespace tunesmith {

struct WgmmaBackwardConfig {
  int tile_q;  ///< queries of a tile, 64 or 128
  int stages;  ///< Q tiles, and dO tiles, in flight or in use
  bool ahead;  ///< S of the next tile is computed right after dK
};

template <const AttentionShape& shape, const WgmmaBackwardConfig& config>
struct WgmmaBackwardTiles {
  static constexpr int multipliers = 2, threads = 128 * (multipliers + 1);
  static constexpr int tile_q = config.tile_q, tile_kv = 64 * multipliers;
  // Shared memory: slabs of 64 columns, rows of 128 bytes, swizzled.
  static constexpr int row_bytes = 128, slab_columns = 64;
  static constexpr int qk_slabs = (shape.head_dim + 63) / 64, v_slabs = (shape.head_dim_v + 63) / 64;
  static constexpr int q_slab = tile_q * row_bytes, kv_slab = tile_kv * row_bytes;
  static constexpr int q_bytes = qk_slabs * q_slab, dout_bytes = v_slabs * q_slab;
  static constexpr int k_at = 0, v_at = k_at + qk_slabs * kv_slab, q_at = v_at + v_slabs * kv_slab;
  static constexpr int dout_at = q_at + config.stages * q_bytes;
  // Two stages of dS, a row for each query, a slab for each 64 keys.
  static constexpr int ds_at = dout_at + config.stages * dout_bytes, ds_bytes = multipliers * q_slab;
  // dQ is computed in pieces of 64 queries and up to 64 columns; up to two of them wait for their addition to global memory.
  static constexpr int row_blocks = tile_q / 64, pieces = row_blocks * qk_slabs, piece_bytes = 64 * 64 * 4;
  static __device__ __forceinline__ constexpr int slab_of(int piece) { return piece / row_blocks; }
  static __device__ __forceinline__ constexpr int columns_of(int piece) {
    return shape.head_dim - 64 * slab_of(piece) < 64 ? shape.head_dim - 64 * slab_of(piece) : 64;
  }
  static constexpr int sums_at = ds_at + 2 * ds_bytes, sums_stages = pieces < 2 ? 1 : 2;
  static constexpr int lse_at = sums_at + sums_stages * piece_bytes, delta_at = lse_at + config.stages * tile_q * 4;
  static constexpr int barriers_at = delta_at + config.stages * tile_q * 4;
  static constexpr int smem_bytes = barriers_at + 8 * (4 * config.stages + 6);
};

/// Addresses of barriers in shared memory. "come" counts bytes or warps that have written, "free" warps that have read.
template <int stages>
struct BackwardBarriers {
  uint32 base;
  __device__ __forceinline__ uint32 q_come(int stage) const { return base + 32 * stage; }
  __device__ __forceinline__ uint32 q_free(int stage) const { return base + 32 * stage + 8; }
  __device__ __forceinline__ uint32 dout_come(int stage) const { return base + 32 * stage + 16; }
  __device__ __forceinline__ uint32 dout_free(int stage) const { return base + 32 * stage + 24; }
  __device__ __forceinline__ uint32 k_come() const { return base + 32 * stages; }
  __device__ __forceinline__ uint32 v_come() const { return base + 32 * stages + 8; }
  __device__ __forceinline__ uint32 ds_come(int stage) const { return base + 32 * stages + 16 + 16 * stage; }
  __device__ __forceinline__ uint32 ds_free(int stage) const { return base + 32 * stages + 24 + 16 * stage; }
};

/// The keys of a block. Key heads are taken in sections whose queries, gradients of outputs and sums of dQ fit into L2
/// together; within a section the first keys of all heads come first, because most queries see them under a causal mask.
struct WgmmaKeys {
  int batch, kv_head, first_k;

  /// Of block `number`.
  __device__ __forceinline__ WgmmaKeys(const AttentionBackwardParams& params, int tile_kv, int number) {
    const int per_section = params.attention.heads_per_section * params.kv_tiles;
    const int section = number / per_section, rest = number - section * per_section;
    const int first = section * params.attention.heads_per_section, all = params.attention.batch * params.attention.kv_heads;
    const int heads = all - first < params.attention.heads_per_section ? all - first : params.attention.heads_per_section;
    const int tile = rest / heads, head = first + rest - tile * heads;
    batch = head / params.attention.kv_heads;
    kv_head = head - batch * params.attention.kv_heads;
    first_k = tile * tile_kv;
  }
};

/// The Q tiles that see some of a block's keys, those of one head after the other, in a ring. Without a mask, blocks start
/// at different tiles, so that they do not add to the same sums of dQ at the same time.
template <const AttentionShape& shape, int tile_q, int tile_kv>
class QueryRing {
 public:
  __device__ __forceinline__ QueryRing(const AttentionParams& params, const Visibility<shape>& visibility,
                                       const WgmmaKeys& keys) {
    const KeyRange seen = queries_of<shape>(visibility, keys.first_k, keys.first_k + tile_kv - 1);
    begin_ = seen.begin / tile_q;
    end_ = seen.empty() ? begin_ : (seen.end + tile_q - 1) / tile_q;
    const int group = params.heads / params.kv_heads;
    first_head_ = keys.kv_head * group;
    last_head_ = first_head_ + group - 1;
    tile_ = begin_;
    if constexpr (!shape.bounded_left && !shape.bounded_right)
      if (end_ > 0) tile_ = keys.first_k / tile_q % end_;
    head_ = first_head_;
  }
  __device__ __forceinline__ int count() const { return (end_ - begin_) * (last_head_ - first_head_ + 1); }
  __device__ __forceinline__ int head() const { return head_; }
  __device__ __forceinline__ int first_q() const { return tile_ * tile_q; }
  __device__ __forceinline__ void next() {
    if (++tile_ < end_) return;
    tile_ = begin_;
    if (++head_ > last_head_) head_ = first_head_;
  }

 private:
  int begin_, end_, first_head_, last_head_;
  int tile_, head_;
};

/// Starts the addition of float32 values, `bytes` of them, a multiple of 16, from shared to global memory, both aligned to
/// 16; each is added as if alone. One thread, which also closes the group and waits for it (store_commit, store_wait_read).
__device__ __forceinline__ void reduce_add_bulk(float* to, uint32 from, int bytes, L2Hint hint) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.L2::cache_hint.add.f32 [%0], [%1], %2, %3;" ::"l"(to),
               "r"(from), "r"(bytes), "l"(static_cast<uint64>(hint))
               : "memory");
}

/// Stores 4 floats of shared memory, aligned to 16 bytes.
__device__ __forceinline__ void store_shared(uint32 address, const float* values) {
  asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(address), "f"(values[0]), "f"(values[1]), "f"(values[2]),
               "f"(values[3])
               : "memory");
}

/// The sums of dQ in the workspace: blocks of 64 queries and 64 columns in the order of a warpgroup's accumulators, which
/// are [warp][8 columns][lane][4]. Returns a warp's part of the block that holds query 64 * `rows` and column 64 * `slab`.
template <int qk_slabs>
__device__ __forceinline__ float* sums_of(const AttentionBackwardParams& params, int batch, int head, int rows, int slab,
                                          int warp) {
  const int64 first = (static_cast<int64>(batch) * params.attention.heads + head) * (params.statistics_rows / 64);
  return workspace_floats(params, params.sums_at) + ((first + rows) * qk_slabs + slab) * (64 * 64) + warp * (16 * 64);
}

}  // namespace tunesmith

#endif
