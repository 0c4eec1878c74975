// The work of a block of split-KV attention (attention/split_block.cuh): a tile of rows, the keys it sees, and their scores.
#pragma once

#include "attention/unaligned.cuh"

namespace tunesmith {

struct SplitConfig {
  int warps;
  int tile_q;       ///< rows of a tile: 16, 32, 48 or 64
  int tile_kv;      ///< keys per K/V tile of a warp, a multiple of 16
  int stages;       ///< stages of K/V tiles per warp
  int cluster = 1;  ///< blocks that share the keys of a tile of rows and combine their results in a cluster
};

template <const AttentionShape& shape, const SplitConfig& config>
struct SplitTiles {
  static constexpr int threads = 32 * config.warps, blocks = config.tile_q / 16;
  static constexpr int k_bytes = config.tile_kv * key_row_bytes<shape>(shape.head_dim);
  static constexpr int stage_bytes = k_bytes + config.tile_kv * key_row_bytes<shape>(shape.head_dim_v);
  static constexpr int q_bytes = config.tile_q * shape.head_dim * 2;
  static constexpr int qk_steps = (shape.head_dim + 15) / 16;
  // Keep queries in registers if outputs leave room for them; otherwise load them from shared memory for every K/V tile.
  static constexpr bool q_in_registers = blocks * (shape.head_dim_v / 2 + qk_steps * 4) <= 160;
  // At the end a warp's output reuses the memory of its stages. Rows are padded by eight floats, so that they start eight
  // banks apart.
  static constexpr int staged_row = shape.head_dim_v + 8;
  static constexpr int staged_bytes = config.tile_q * staged_row * 4, stages_bytes = config.stages * stage_bytes;
  static constexpr int warp_bytes = stages_bytes > staged_bytes ? stages_bytes : staged_bytes;
  // After the stages: the queries, and maxima and sums of the rows for each warp.
  static constexpr int q_at = config.warps * warp_bytes, largest_at = q_at + q_bytes;
  static constexpr int sums_at = largest_at + config.warps * config.tile_q * 4;
  static constexpr int ends_bytes = sums_at + config.warps * config.tile_q * 4;
  // After those: the scales of the rows; or messages between the blocks of a cluster, in separate memory: maxima, sums and a
  // share of the outputs from each block.
  static constexpr int scales_at = ends_bytes;
  static constexpr int columns = 4, per_row = shape.head_dim_v / columns;        ///< contiguous outputs per thread
  static constexpr int share = (per_row + config.cluster - 1) / config.cluster;  ///< chunks of a row per block of a cluster
  static constexpr int messages_at = ends_bytes, sent_ends_at = messages_at + 16;
  static constexpr int sent_at = sent_ends_at + config.cluster * config.tile_q * 16;
  static constexpr int sent_bytes = sent_at + config.cluster * (config.tile_q * share * columns * 4);
  static constexpr int smem_bytes = config.cluster > 1 ? sent_bytes : scales_at + config.tile_q * 4;
};

/// A tile of rows and the keys it sees; the same for all blocks that compute or combine its partials.
template <const AttentionShape& shape, const SplitConfig& config>
struct SplitWork {
  int group, first_row, rows;  ///< query heads per key head; existing rows of the tile
  KeyRange tiles;              ///< K/V tiles
  int parts;                   ///< splits of the keys
  static constexpr int of_split = shape.split_keys / config.tile_kv;  ///< tiles of a split; 0: splits have equal sizes
  static_assert(shape.split_keys % config.tile_kv == 0, "splits end with a tile");

  __device__ __forceinline__ SplitWork(const AttentionParams& params, const Sequence& sequence, int row_tile)
      : group(quotient(params.heads, params.kv_heads)), first_row(row_tile * config.tile_q), rows(0), tiles{0, 0}, parts(1) {
    const int left = sequence.seq_q * group - first_row;
    rows = left < config.tile_q ? left : config.tile_q;
    if (empty()) return;
    const Visibility<shape> visibility(params, sequence);
    tiles = key_tiles<shape, config.tile_kv>(visibility, query_of(0), query_of(rows - 1));
    if constexpr (config.cluster > 1) {
      parts = config.cluster;  // the last splits are empty if there are fewer tiles
      return;
    }
    if constexpr (of_split > 0) {
      parts = (tiles.end - tiles.begin + of_split - 1) / of_split;
      if (parts < 1) parts = 1;
      return;
    }
    // Every split has a tile for each warp if there are enough. Empty splits are not written.
    const int rounds = (tiles.end - tiles.begin + config.warps - 1) / config.warps;
    parts = rounds < params.splits ? rounds : params.splits;
    if (parts < 1) parts = 1;
  }

  /// Returns whether the tile has no rows. Possible only if packed sequences differ in length; otherwise `rows` is not read.
  __device__ __forceinline__ bool empty() const { return shape.varlen && rows <= 0; }
  /// For non-negative numbers: unsigned division takes fewer instructions.
  static __device__ __forceinline__ int quotient(int a, int b) {
    return static_cast<int>(static_cast<uint32>(a) / static_cast<uint32>(b));
  }
  struct Place {
    int query, head;
  };
  /// Returns query and head with one division.
  __device__ __forceinline__ Place place_of(int kv_head, int row) const {
    const int query = query_of(row);
    return {query, kv_head * group + first_row + row - query * group};
  }
  __device__ __forceinline__ int query_of(int row) const { return quotient(first_row + row, group); }
  __device__ __forceinline__ int head_of(int kv_head, int row) const { return place_of(kv_head, row).head; }

  /// Returns the K/V tiles of split `part`; without split_keys, the sizes of two splits differ by at most one tile.
  __device__ __forceinline__ KeyRange part_of(int part) const {
    if constexpr (of_split > 0) {
      const int first = tiles.begin + part * of_split;
      return {first, first + of_split < tiles.end ? first + of_split : tiles.end};
    }
    const int count = tiles.end - tiles.begin, least = count / parts, more = count % parts;
    const int begin = tiles.begin + part * least + (part < more ? part : more);
    return {begin, begin + least + (part < more ? 1 : 0)};
  }
};

/// Scores of rows `lane` / 4 and `lane` / 4 + 8 of 16, each with its own query and head. Row 0 denotes the first, row 8 the
/// second.
template <const AttentionShape& shape, typename Modification>
class PackedScores {
 public:
  static constexpr bool linear = Scores<shape, Modification>::linear, neighbours = false;

  template <typename Work>
  __device__ __forceinline__ PackedScores(const AttentionParams& params, const Sequence& sequence, const Work& work,
                                          int batch, int kv_head, int row)
      : first_(params, sequence, batch, work.head_of(kv_head, row)),
        second_(params, sequence, batch, work.head_of(kv_head, row + 8)),
        queries_{work.query_of(row), work.query_of(row + 8)} {}

  __device__ __forceinline__ const PackedScores& visibility() const { return *this; }
  __device__ __forceinline__ KeyRange of_any(int row, int) const {
    const int query = queries_[row / 8];
    return first_.visibility().of_any(query, query);
  }
  __device__ __forceinline__ float factor() const { return first_.factor(); }
  __device__ __forceinline__ float operator()(float dot, int row, int first, int at) const {
    return row == 0 ? first_(dot, queries_[0], first, at) : second_(dot, queries_[1], first, at);
  }
  __device__ __forceinline__ bool counts(int row, int key, bool inside, bool kept) const {
    return row == 0 ? first_.counts(queries_[0], key, inside, kept) : second_.counts(queries_[1], key, inside, kept);
  }

 private:
  Scores<shape, Modification> first_, second_;
  int queries_[2];
};

/// PackedScores for each 16 rows of a tile.
template <const AttentionShape& shape, typename Modification, int blocks>
struct PackedBlocks {
  PackedBlocks<shape, Modification, blocks - 1> others;
  PackedScores<shape, Modification> last;

  template <typename Work>
  __device__ __forceinline__ PackedBlocks(const AttentionParams& params, const Sequence& sequence, const Work& work,
                                          int batch, int kv_head, int row)
      : others(params, sequence, work, batch, kv_head, row),
        last(params, sequence, work, batch, kv_head, row + 16 * (blocks - 1)) {}
  __device__ __forceinline__ const PackedScores<shape, Modification>& at(int block) const {
    if (block == blocks - 1) return last;
    return others.at(block);
  }
};
template <const AttentionShape& shape, typename Modification>
struct PackedBlocks<shape, Modification, 1> {
  PackedScores<shape, Modification> last;

  template <typename Work>
  __device__ __forceinline__ PackedBlocks(const AttentionParams& params, const Sequence& sequence, const Work& work,
                                          int batch, int kv_head, int row)
      : last(params, sequence, work, batch, kv_head, row) {}
  __device__ __forceinline__ const PackedScores<shape, Modification>& at(int) const { return last; }
};

}  // namespace tunesmith
