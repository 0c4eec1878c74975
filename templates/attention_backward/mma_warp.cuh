// A warp of the kernels with mma.sync: its share of the rows that a block keeps, and its products with a tile of streamed
// rows.
#pragma once

#include "attention_backward/products.cuh"

namespace tunesmith {

/// One of the two kernels.
struct MmaBackwardConfig {
  int warps;
  int kept;      ///< rows of a block: 16 or 32 for each warp, or for each two with split
  int streamed;  ///< rows of a tile that streams, a multiple of 16
  int stages;    ///< 1 or 2 tiles of streamed rows
  bool split;    ///< dK and dV are computed by different warps
};

template <const AttentionShape& shape, const MmaBackwardConfig& config>
struct MmaBackwardTiles {
  static constexpr int threads = 32 * config.warps, owners = config.split ? config.warps / 2 : config.warps;
  static constexpr int blocks = config.kept / (16 * owners), warp_rows = 16 * blocks;

  // K and V, or Q and dO; then stages of the others.
  static constexpr int second_at = config.kept * shape.head_dim * 2;
  static constexpr int stages_at = second_at + config.kept * shape.head_dim_v * 2;
  static constexpr int streamed_second_at = config.streamed * shape.head_dim * 2;
  static constexpr int stage_bytes = streamed_second_at + config.streamed * shape.head_dim_v * 2;
  // Statistics of the queries, by stage if they stream.
  static constexpr int statistics_at = stages_at + config.stages * stage_bytes;
  static constexpr int statistics_bytes = config.streamed * 8;
  static constexpr int smem_bytes = statistics_at + config.stages * statistics_bytes;
};

/// A warp's products with a tile of streamed rows.
template <typename Element, const AttentionShape& shape, const MmaBackwardConfig& config>
struct MmaBackwardWarp {
  using Tiles = MmaBackwardTiles<shape, config>;
  static constexpr int blocks = Tiles::blocks, columns = config.streamed;

  const int lane, owner;  ///< of the rows
  const unsigned char* const shared;
  const MatrixRows<shape.head_dim> kept_first, streamed_first, values_first;
  const MatrixRows<shape.head_dim_v> kept_second, streamed_second, values_second;
  float scores[blocks][columns / 2], gradients[blocks][columns / 2];

  __device__ __forceinline__ explicit MmaBackwardWarp(const unsigned char* memory)
      : lane(lane_index()),
        owner(config.split ? warp_index() / 2 : warp_index()),
        shared(memory),
        kept_first(lane % 16, lane / 16),
        streamed_first(lane / 16 * 8 + lane % 8, lane / 8 % 2),
        values_first(lane % 16, lane / 16),
        kept_second(lane % 16, lane / 16),
        streamed_second(lane / 16 * 8 + lane % 8, lane / 8 % 2),
        values_second(lane % 16, lane / 16) {}

  /// Row of the block's tile that this lane's first row is, and first column of its accumulators.
  __device__ __forceinline__ int first_row() const { return owner * Tiles::warp_rows + lane / 4; }
  __device__ __forceinline__ int first_column() const { return lane % 4 * 2; }

  __device__ __forceinline__ void multiply_first(int stage_at) {
    multiply_rows<Element, shape.head_dim, blocks, columns>(
        shared, kept_first, owner * Tiles::warp_rows * 2 * shape.head_dim, streamed_first, stage_at, scores);
  }
  __device__ __forceinline__ void multiply_second(int stage_at) {
    multiply_rows<Element, shape.head_dim_v, blocks, columns>(
        shared, kept_second, Tiles::second_at + owner * Tiles::warp_rows * 2 * shape.head_dim_v, streamed_second,
        stage_at + Tiles::streamed_second_at, gradients);
  }
  /// sums += dS * the first of the streamed tiles, or P * the second.
  template <int room>
  __device__ __forceinline__ void accumulate_first(int stage_at, float (&sums)[blocks][room]) {
    accumulate_rows<Element, shape.head_dim, blocks, columns>(gradients, shared, values_first, stage_at, sums);
  }
  template <int room>
  __device__ __forceinline__ void accumulate_second(int stage_at, float (&sums)[blocks][room]) {
    accumulate_rows<Element, shape.head_dim_v, blocks, columns>(scores, shared, values_second,
                                                                stage_at + Tiles::streamed_second_at, sums);
  }
};

}  // namespace tunesmith
