// Split-KV attention for few queries and many keys, as in decoding. It is bound by reading K and V once.
//
// The query heads that share a key head are packed into the rows of one tile, row = query * group + head within the group;
// mma.sync multiplies 16 rows at a time. The K/V tiles of a tile of rows are split over blocks, and a block's share over its
// warps. Every warp has its own ring of stages and runs independently until the end: then a block combines its warps'
// running softmaxes in shared memory, and a second kernel combines the blocks' float32 partials from the workspace (or a
// cluster does: attention/split_cluster.cuh). The order of all sums is fixed, so results are bitwise reproducible.
//
// Reference: Dao, Haziza, Massa and Sizov, "Flash-Decoding for long-context inference", 2023.
#pragma once

#include "attention/split_block.cuh"
#include "device/dependent_launch.cuh"

namespace tunesmith {

/// Partials in the workspace: outputs before the division by the sums, then each one's maximum and sum.
template <const AttentionShape& shape>
struct SplitParts {
  float* outputs;
  float* ends;

  /// Addresses the partials of row `row` of the batch entry and key head.
  __device__ __forceinline__ SplitParts(const AttentionParams& params, int batch, int kv_head, int row) {
    const int64 rows = int64{params.seq_q} * (params.heads / params.kv_heads);
    const int64 number = (int64{batch} * params.kv_heads + kv_head) * rows + row;
    auto* const first = reinterpret_cast<float*>(params.workspace);
    outputs = first + number * params.splits * shape.head_dim_v;
    ends = first + params.batch * params.kv_heads * rows * params.splits * shape.head_dim_v + number * params.splits * 2;
  }
};

template <typename Element, const AttentionShape& shape, typename Modification, const SplitConfig& config>
__device__ __forceinline__ void attention_split(const AttentionParams& params) {
  using Tiles = SplitTiles<shape, config>;
  let_next_kernel_start();  // its blocks wait until this kernel has completed
  // Neighbouring blocks read the same keys, then the keys of the next head. There are fewer than 2^31 blocks.
  MixedNumber number(static_cast<uint32>(block_index()));
  const int row_tile = number.next(params.q_tiles), kv_head = number.next(params.kv_heads),
            part = number.next(params.splits), batch = number.last();
  if (batch >= params.batch) return;
  KeyValuesOf<Element, shape>::prefetch(params, batch, part, params.splits);
  const Sequence sequence = sequence_of<shape>(params, batch);
  const SplitWork<shape, config> work(params, sequence, row_tile);
  if (work.empty() || part >= work.parts) return;
  const SplitBlock<Element, shape, Modification, config> block;
  block.take(params, sequence, work, batch, kv_head, work.part_of(part));

  auto* const scales = reinterpret_cast<float*>(block.shared + Tiles::scales_at);
  const bool alone = params.splits == 1;
  for (int row = thread_index(); row < work.rows; row += Tiles::threads) {
    const RowStats combined = block.end_of(row);
    if (alone) {
      const auto place = work.place_of(kv_head, row);
      const FinalScale end = end_of<shape>(params, place.head, combined.largest, combined.sum);
      if (params.lse != nullptr) lse_of<shape>(params, sequence, batch, place.head)[place.query] = end.lse;
      scales[row] = end.scale;
    } else {
      float* const ends = SplitParts<shape>(params, batch, kv_head, work.first_row + row).ends + part * 2;
      *reinterpret_cast<Bits<8>*>(ends) = {{bits_of(combined.largest), bits_of(combined.sum)}};
    }
  }
  sync_block();
  for (int i = thread_index(); i < work.rows * Tiles::per_row; i += Tiles::threads) {
    const int row = i / Tiles::per_row, column = i % Tiles::per_row * Tiles::columns;
    float values[Tiles::columns];
    block.output_of(row, column, values);
    if (alone) {
#pragma unroll
      for (int c = 0; c < Tiles::columns; ++c) values[c] = multiply(values[c], scales[row]);
      const auto place = work.place_of(kv_head, row);
      store_part<shape.o_vector>(output_at<Element, shape>(params, sequence, batch, place.head, place.query) + column,
                                 values);
    } else {
      store_part<Tiles::columns>(
          SplitParts<shape>(params, batch, kv_head, work.first_row + row).outputs + part * shape.head_dim_v + column,
          values);
    }
  }
}

constexpr int split_combine_threads = 256;

/// Combines the partials of one row per block, and adds the sink to the sum, once per row.
template <typename Element, const AttentionShape& shape, const SplitConfig& config>
__device__ __forceinline__ void attention_split_combine(const AttentionParams& params) {
  constexpr int warps = split_combine_threads / 32, columns = 4,
                groups = (shape.head_dim_v + 32 * columns - 1) / (32 * columns);
  TUNESMITH_SHARED(float, staged, warps* shape.head_dim_v);
  const int group = params.heads / params.kv_heads, rows = params.seq_q * group;
  const auto number = static_cast<uint32>(block_index());
  const int index = static_cast<int>(number / static_cast<uint32>(rows)),
            row = static_cast<int>(number % static_cast<uint32>(rows));
  const int batch = index / params.kv_heads, kv_head = index % params.kv_heads;
  if (batch >= params.batch) return;
  const Sequence sequence = sequence_of<shape>(params, batch);
  const SplitWork<shape, config> work(params, sequence, row / config.tile_q);
  const int query = row / group, head = kv_head * group + row % group;
  if (query >= sequence.seq_q) return;
  const SplitParts<shape> parts(params, batch, kv_head, row);

  const int warp = warp_index(), lane = lane_index();
  // Several outputs are in flight at once; their loads are issued before all others.
  constexpr int together = 8;
  Bits<16> found[together][groups];
  float values[groups][columns] = {};
  const auto load_parts = [&](int first) {
#pragma unroll
    for (int i = 0; i < together; ++i)
#pragma unroll
      for (int g = 0; g < groups; ++g) {
        const int part = first + i * warps, column = (g * 32 + lane) * columns;
        found[i][g] = load_if<16, LoadHint::plain>(part < work.parts && column < shape.head_dim_v,
                                                   parts.outputs + int64{part} * shape.head_dim_v + column, Bits<16>{});
      }
  };
  await_last_kernel();
  load_parts(warp);
  const RowStats combined = RowStats::of_parts(parts.ends, work.parts, lane);
  for (int first = warp; first < work.parts; first += together * warps) {
    if (first != warp) load_parts(first);
#pragma unroll
    for (int i = 0; i < together; ++i) {
      const int part = first + i * warps;
      if (part >= work.parts) break;
      const float weight = combined.weight_of(parts.ends[2 * part]);
#pragma unroll
      for (int g = 0; g < groups; ++g)
#pragma unroll
        for (int c = 0; c < columns; ++c)
          values[g][c] = fused_multiply_add(float_of(found[i][g].word[c]), weight, values[g][c]);
    }
  }
#pragma unroll
  for (int g = 0; g < groups; ++g) {
    const int column = (g * 32 + lane) * columns;
    if (column >= shape.head_dim_v) continue;
#pragma unroll
    for (int c = 0; c < columns; ++c) staged[warp * shape.head_dim_v + column + c] = values[g][c];
  }
  sync_block();
  const FinalScale end = end_of<shape>(params, head, combined.largest, combined.sum);
  if (thread_index() == 0 && params.lse != nullptr) lse_of<shape>(params, sequence, batch, head)[query] = end.lse;
  if (const int column = thread_index() * columns; column < shape.head_dim_v) {
    float total[columns] = {};
#pragma unroll
    for (int i = 0; i < warps; ++i)
#pragma unroll
      for (int c = 0; c < columns; ++c) total[c] = add(total[c], staged[i * shape.head_dim_v + column + c]);
#pragma unroll
    for (int c = 0; c < columns; ++c) total[c] = multiply(total[c], end.scale);
    store_part<shape.o_vector>(output_at<Element, shape>(params, sequence, batch, head, query) + column, total);
  }
}

}  // namespace tunesmith
