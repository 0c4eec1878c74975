// Shared by producer and consumers of attention/wgmma.cuh: the layout of shared memory, and the order of Q tiles.
#pragma once

#include "attention/quads.cuh"
#include "attention/wgmma_params.cuh"
#include "device/wgmma.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

struct WgmmaConfig {
  int consumers;   ///< warpgroups of 64 queries, 1 to 4
  int tile_kv;     ///< keys per tile, a multiple of 16 up to 256
  int q_stages;    ///< stages of Q, 1 or 2
  int stages;      ///< stages of K and of V
  int o_slabs;     ///< slabs of 64 output columns that a warpgroup stages at a time
  bool ping_pong;  ///< ping-pong scheduling: one warpgroup computes exponentials while another multiplies
};

/// Whether sequences have lengths of their own, so that a K/V tile may contain other keys than zeros after the last one.
template <const AttentionShape& shape>
constexpr bool ragged_keys = shape.varlen || shape.kv_lengths;

/// A Q tile of one head and, unless all lengths are the same, its sequence. A negative tile means none.
struct alignas(16) TileOfQueries {
  int batch, head, tile;
  int q_start, kv_start, seq_q, seq_kv;
};

/// ALiBi's bias as a matrix product S += A B of depth 16: every row of A is (high, middle, low, 0, ...), three elements
/// whose sum is the slope of the head; row n of B is (n, n, n, 0, ...). In shared memory they are blocks of 8 rows of 8
/// elements, 128 bytes. B's upper half reuses the lower half, because A is zero there.
template <int keys, int q_stages>
struct BiasTiles {
  static constexpr int block = 128, places_bytes = keys / 8 * block;
  /// A stage of A: the slope, zeros, the negated slope, zeros.
  static constexpr int slopes_at = places_bytes, stage_bytes = 5 * block, bytes = slopes_at + q_stages * stage_bytes;
  static constexpr int forward = 0, backward = 2 * block, none = 3 * block;

  /// Writes B and the zeros; called by all threads.
  template <typename Element>
  static __device__ __forceinline__ void write(unsigned char* memory, int threads) {
    for (int row = thread_index(); row < bytes / 16; row += threads) {
      const float key = row < keys ? static_cast<float>(row) : 0.0f;
      *reinterpret_cast<Bits<16>*>(memory + row * 16) = {{pack<Element>(key, key), pack<Element>(key, 0.0f), 0, 0}};
    }
  }
  /// Writes the slope of a head; called by one thread.
  template <typename Element>
  static __device__ __forceinline__ void write_slope(unsigned char* memory, int stage, float slope) {
    const float high = to_float(from_float<Element>(slope)), rest = subtract(slope, high),
                middle = to_float(from_float<Element>(rest)), low = subtract(rest, middle);
    const Bits<16> row = {{pack<Element>(high, middle), pack<Element>(low, 0.0f), 0, 0}},
                   back = {{pack<Element>(-high, -middle), pack<Element>(-low, 0.0f), 0, 0}};
    unsigned char* const first = memory + slopes_at + stage * stage_bytes;
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      *reinterpret_cast<Bits<16>*>(first + forward + i * 16) = row;
      *reinterpret_cast<Bits<16>*>(first + backward + i * 16) = back;
    }
  }
  static __device__ __forceinline__ MatrixDescriptor places(uint32 shared) { return matrix_descriptor<0>(shared, block, 0); }
  static __device__ __forceinline__ MatrixDescriptor slopes(uint32 shared, int stage, int direction) {
    return matrix_descriptor<0>(shared + slopes_at + stage * stage_bytes + direction, 0, block);
  }
};

/// The dropout parameters of a kernel whose argument is WgmmaDropoutParams. `params` is its first member.
__device__ __forceinline__ const AttentionDropout& dropout_of(const WgmmaParams& params) {
  return reinterpret_cast<const WgmmaDropoutParams&>(params).dropout;
}

template <const AttentionShape& shape, const WgmmaConfig& config>
struct WgmmaTiles {
  static constexpr int tile_q = 64 * config.consumers, threads = 128 * (config.consumers + 1);
  // Shared memory: slabs of 64 columns, rows of 128 bytes, swizzled.
  static constexpr int row_bytes = 128, slab_columns = 64;
  static constexpr int qk_slabs = (shape.head_dim + 63) / 64, v_slabs = (shape.head_dim_v + 63) / 64;
  static constexpr int q_slab = tile_q * row_bytes, kv_slab = config.tile_kv * row_bytes, o_slab = 64 * row_bytes;
  static constexpr int q_bytes = qk_slabs * q_slab, k_bytes = qk_slabs * kv_slab, v_bytes = v_slabs * kv_slab;
  static constexpr int k_at = config.q_stages * q_bytes, v_at = k_at + config.stages * k_bytes,
                       o_at = v_at + config.stages * v_bytes;
  static constexpr int bias_at = o_at + config.consumers * config.o_slabs * o_slab;
  static constexpr int ones_at = bias_at + (adds_bias<shape> ? BiasTiles<config.tile_kv, config.q_stages>::bytes : 0);
  // V of 64 columns is followed by 8 columns of ones, so that the product with V also sums the weights: one slab of 16 rows
  // of ones serves every 16 rows of V. Not with dropout, whose sums contain weights that the product does not.
  static constexpr bool sums_weights = shape.head_dim_v == slab_columns && !shape.dropout;
  static constexpr int ones_bytes = sums_weights ? 16 * row_bytes : 0, sum_columns = sums_weights ? 8 : 0;
  static constexpr int barriers_at = ones_at + ones_bytes;
  // Barriers: "full" and "empty" for each stage of Q, K and V. They are followed by the Q tiles that the stages contain.
  static constexpr int barriers = 2 * config.q_stages + 4 * config.stages;
  static constexpr int tiles_at = barriers_at + 8 * barriers;
  static constexpr int sent_at = tiles_at + static_cast<int>(sizeof(TileOfQueries)) * config.q_stages;
  static constexpr int smem_bytes = sent_at + (shape.mask_mod ? static_cast<int>(sizeof(int)) * config.stages : 0);
};

/// Returns Q tile `number`. Heads are processed in sections whose K and V fit into L2 together; within a section the last
/// queries of all heads come first, because they see most keys under a causal mask.
__device__ __forceinline__ TileOfQueries tile_of(const AttentionParams& params, int number) {
  const int per_section = params.heads_per_section * params.q_tiles;
  const int section = number / per_section, rest = number - section * per_section;
  const int first = section * params.heads_per_section, all = params.batch * params.heads;
  const int heads = all - first < params.heads_per_section ? all - first : params.heads_per_section;
  const int tile = rest / heads, head = first + rest - tile * heads, batch = head / params.heads;
  return {batch, head - batch * params.heads, params.q_tiles - 1 - tile, 0, 0, 0, 0};
}

/// Returns Q tile `number` of packed sequences, all heads of a tile one after another; none if no tile has that number.
/// Sequence b, which starts at position s, has the slots from s / tile_q + b on: as many as it has tiles, or one more, so
/// the tiles of earlier sequences need not be counted.
template <const AttentionShape& shape, int tile_q>
__device__ __forceinline__ TileOfQueries packed_tile_of(const AttentionParams& params, int number) {
  const int place = params.q_tiles - 1 - number / params.heads, head = number % params.heads;
  int batch = 0;
  for (int end = params.batch; end - batch > 1;) {
    const int middle = (batch + end) / 2;
    if (params.cu_seqlens_q[middle] / tile_q + middle <= place)
      batch = middle;
    else
      end = middle;
  }
  const Sequence sequence = sequence_of<shape>(params, batch);
  const int q_start = static_cast<int>(sequence.q_start), tile = place - q_start / tile_q - batch;
  return {batch,
          head,
          tile * tile_q < sequence.seq_q ? tile : -1,
          q_start,
          static_cast<int>(sequence.kv_start),
          sequence.seq_q,
          sequence.seq_kv};
}

template <const AttentionShape& shape>
__device__ __forceinline__ Sequence sequence_of(const AttentionParams& params, const TileOfQueries& tile) {
  if constexpr (ragged_keys<shape>) return {tile.q_start, tile.kv_start, tile.seq_q, tile.seq_kv};
  return sequence_of<shape>(params, tile.batch);
}

/// The K/V tiles of a Q tile, at least one, so that every Q tile takes the same code path: if no tile is visible, the first
/// one is loaded and fully masked.
template <const AttentionShape& shape, int tile_q, int tile_kv>
class SomeTiles : public KeyTilesOf<shape, tile_q, tile_kv> {
 public:
  using Walk = KeyTilesOf<shape, tile_q, tile_kv>;
  __device__ __forceinline__ SomeTiles(const AttentionParams& params, const Visibility<shape>& visibility,
                                       const TileOfQueries& tile)
      : Walk(params, visibility, tile.batch, tile.head, tile.tile * tile_q, tile.tile * tile_q + tile_q - 1) {}
  __device__ __forceinline__ int last() const {
    const int index = Walk::last();
    return index < Walk::begin() ? Walk::begin() : index;
  }
};

/// The full K/V tiles of some queries; if a product adds ALiBi's bias, only tiles on one side of the queries' positions.
template <const AttentionShape& shape, int tile_kv>
class WholeTiles {
 public:
  /// `fits`: a product may add the bias.
  __device__ __forceinline__ WholeTiles(const Visibility<shape>& visibility, int first_q, int last_q, bool fits) {
    const KeyRange seen = visibility.of_all(first_q, last_q);
    begin_ = (seen.begin + tile_kv - 1) / tile_kv;
    end_ = seen.end < 0 ? 0 : seen.end / tile_kv;
    if constexpr (adds_bias<shape>) {
      const int first = first_q + visibility.offset + 1, last = last_q + visibility.offset;
      before_ = first < 0 || !fits ? 0 : Visibility<shape>::smallest(first / tile_kv, end_);
      after_ = !fits ? end_ : last < 0 ? begin_ : Visibility<shape>::largest((last + tile_kv - 1) / tile_kv, begin_);
    }
  }
  __device__ __forceinline__ bool holds(int index) const {
    bool live = index < end_;
    if constexpr (adds_bias<shape>) live = is_before(index) || (live && index >= after_);
    if constexpr (shape.bounded_left) live = live && index >= begin_;
    return live;
  }
  /// Returns whether the keys of a full tile precede the queries' positions.
  __device__ __forceinline__ bool is_before(int index) const { return index < before_; }

 private:
  int begin_, end_;
  int before_, after_;  ///< tiles below before_ precede all queries, tiles from after_ on follow them
};

/// The K/V tile in a stage, with a mask_mod: the producer reads the block mask once for all warpgroups.
struct SentKeys {
  static constexpr int max_warpgroups = 4;

  int word;
  __device__ __forceinline__ int index() const { return word >> (max_warpgroups + 1); }
  /// Returns whether another tile follows for the same queries.
  __device__ __forceinline__ bool more() const { return (word >> max_warpgroups & 1) != 0; }
  /// Returns whether mask_mod keeps all visible pairs of the warpgroup's 64 queries.
  __device__ __forceinline__ bool kept(int warpgroup) const { return (word >> warpgroup & 1) != 0; }
};
template <int warpgroups, typename Tiles>
__device__ __forceinline__ SentKeys sent_keys(const Tiles& tiles, int index, bool more) {
  int word = index << 1 | static_cast<int>(more);
  word <<= SentKeys::max_warpgroups;
#pragma unroll
  for (int group = 0; group < warpgroups; ++group) word |= static_cast<int>(tiles.all_unmasked(group, index)) << group;
  return {word};
}

/// The TMA box of a K/V tile in arrays with an entry for each sequence, or with packed sequences.
template <const AttentionShape& shape, int tile_kv>
struct ContiguousBoxes {
  using Place = int;
  static constexpr int count = 1;
  static __device__ __forceinline__ Place find(const AttentionParams&, const TileOfQueries&, int index) { return index; }
  static __device__ __forceinline__ int row(const TileOfQueries& tile, int index) { return tile.kv_start + index * tile_kv; }
  static __device__ __forceinline__ int entry(const TileOfQueries& tile, int) {
    return shape.varlen && !shape.kv_lengths ? 0 : tile.batch;
  }
};

/// Addresses of barriers in shared memory.
template <int q_stages>
struct Barriers {
  uint32 base;
  __device__ __forceinline__ uint32 q_full(int stage) const { return base + 16 * stage; }
  __device__ __forceinline__ uint32 q_empty(int stage) const { return base + 16 * stage + 8; }
  __device__ __forceinline__ uint32 k_full(int stage) const { return base + 16 * q_stages + 32 * stage; }
  __device__ __forceinline__ uint32 k_empty(int stage) const { return k_full(stage) + 8; }
  __device__ __forceinline__ uint32 v_full(int stage) const { return k_full(stage) + 16; }
  __device__ __forceinline__ uint32 v_empty(int stage) const { return k_full(stage) + 24; }
};

}  // namespace tunesmith

#endif
