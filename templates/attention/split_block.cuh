// A block's share of split-KV attention: its warps process K/V tiles round-robin and leave outputs, maxima and sums in
// shared memory. attention/split.cuh and attention/split_cluster.cuh combine the shares of several blocks.
#pragma once

#include "attention/split_work.cuh"

namespace tunesmith {

/// A mixed-radix number, least significant digit first: decodes a block index.
class MixedNumber {
 public:
  __device__ __forceinline__ explicit MixedNumber(uint32 number) : left_(number) {}
  /// Returns the next digit, of radix `count`. Often that is 1, and no division is needed.
  __device__ __forceinline__ int next(int count) {
    if (count == 1) return 0;
    const auto size = static_cast<uint32>(count), index = left_ % size;
    left_ /= size;
    return static_cast<int>(index);
  }
  __device__ __forceinline__ int last() const { return static_cast<int>(left_); }

 private:
  uint32 left_;
};

/// Starts to copy the rows of a tile to a swizzled tile `tile_at` bytes from `shared`; missing rows become zeros. Called by
/// all threads of a block; complete after the next commit, async_copy_wait and a barrier.
template <typename Element, const AttentionShape& shape, const SplitConfig& config>
__device__ __forceinline__ void copy_queries(const AttentionParams& params, const Sequence& sequence,
                                             const SplitWork<shape, config>& work, int batch, int kv_head,
                                             unsigned char* shared, int tile_at) {
  constexpr int per_row = shape.head_dim / 8;
#pragma unroll 1
  for (int i = thread_index(); i < config.tile_q * per_row; i += SplitTiles<shape, config>::threads) {
    const int row = i / per_row, chunk = i % per_row, at = tile_at + swizzled<2 * shape.head_dim>(row, chunk);
    const bool there = row < work.rows;
    const auto place = work.place_of(kv_head, row);
    const auto rows =
        rows_of<shape>(static_cast<const Element*>(params.q), params.q_strides, sequence.q_start, batch, place.head);
    const Element* const source = rows.row(place.query, sequence.seq_q) + chunk * 8;
    AttentionFeatures<shape>::Chunks::template copy<Element, shape.q_vector>(shared, at, source, there);
  }
}

/// Softmax and products of all rows of a tile with the keys of one warp.
template <typename Element, const AttentionShape& shape, typename Modification, const SplitConfig& config>
struct SplitWarp : ProductsOf<Element, shape, SplitTiles<shape, config>::blocks, config.tile_kv> {
  using Tiles = SplitTiles<shape, config>;
  static constexpr int keys = config.tile_kv, blocks = Tiles::blocks;
  using Products = ProductsOf<Element, shape, blocks, keys>;
  using Weight = typename Products::Weight;
  using Products::output;
  using Products::scores;

  const PackedBlocks<shape, Modification, blocks> rules;
  const int lane;
  const KeyRange whole;  ///< keys that all rows see

  unsigned char* const shared;
  typename Products::template Queries<Tiles::q_in_registers> queries;
  QuadSoftmax<Weight, shape, Modification, keys, PackedScores<shape, Modification>> softmax[blocks];

  template <typename Work>
  __device__ __forceinline__ SplitWarp(const AttentionParams& params, const Sequence& sequence, const Work& work, int batch,
                                       int kv_head, int warp_lane, unsigned char* memory)
      : Products(warp_lane),
        rules(params, sequence, work, batch, kv_head, warp_lane / 4),
        lane(warp_lane),
        // User functions must not be called for missing rows.
        whole((shape.score_mod || shape.mask_mod) && work.rows < config.tile_q
                  ? KeyRange{0, 0}
                  : Visibility<shape>(params, sequence).of_all(work.query_of(0), work.query_of(work.rows - 1))),
        shared(memory),
        queries(memory, Tiles::q_at, warp_lane) {
#pragma unroll
    for (int block = 0; block < blocks; ++block) softmax[block].reset();
  }

  /// Processes one K/V tile; `tile_at`: offset of its K and V.
  __device__ __forceinline__ void take(const ScalesOf<shape>& scales, int tile_at, int first_k) {
    Products::multiply_keys(queries, shared, tile_at);
    if constexpr (shape.scaled && !Scores<shape, Modification>::scales_keys) Products::scale_scores(scales.k);
    if constexpr (shape.rows_scaled) Products::template scale_columns<shape.head_dim>(shared + tile_at);
    Rescale rescale[blocks];
    if (whole.holds(first_k, first_k + keys - 1))
      exponentiate<true>(first_k, rescale);
    else
      exponentiate<false>(first_k, rescale);
#pragma unroll
    for (int block = 0; block < blocks; ++block) rescale_rows(output[block], rescale[block]);
    if constexpr (shape.rows_scaled) Products::template scale_columns<shape.head_dim_v>(shared + tile_at + Tiles::k_bytes);
    Products::multiply_values(shared, tile_at + Tiles::k_bytes);
  }
  template <bool all_count>
  __device__ __forceinline__ void exponentiate(int first_k, Rescale (&rescale)[blocks]) {
#pragma unroll
    for (int block = 0; block < blocks; ++block)
      softmax[block].template exponentiate<all_count>(scores[block], rules.at(block), 0, first_k, lane, rescale[block]);
  }

  /// Writes maxima (as exponents of 2) and sums to shared memory for the other warps.
  __device__ __forceinline__ void write_row_stats(float* largest, float* sums) const {
#pragma unroll
    for (int block = 0; block < blocks; ++block)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float sum = reduce_lanes<4>(softmax[block].sum[r], Sum());
        const int row = 16 * block + 8 * r + lane / 4;
        if (lane % 4 == 0) {
          largest[row] = multiply(softmax[block].largest[r], rules.at(block).factor());
          sums[row] = multiply(sum, inverse_weight_factor<Weight>);
        }
      }
  }
  /// Writes outputs relative to the maximum over all warps. `largest`: maximum of each warp and row.
  __device__ __forceinline__ void show_output(const ScalesOf<shape>& scales, const float* largest, int warp, int rows,
                                              float* staged) const {
#pragma unroll
    for (int block = 0; block < blocks; ++block)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const int row = 16 * block + 8 * r + lane / 4;
        if (row >= rows) continue;
        float top = Maximum::identity();
#pragma unroll
        for (int i = 0; i < config.warps; ++i) top = maximum(top, largest[i * config.tile_q + row]);
        const float own = largest[warp * config.tile_q + row];
        float scale = multiply(exp2_approx(subtract(own, subtracted(top))), inverse_weight_factor<Weight>);
        if constexpr (shape.scaled) scale = multiply(scale, scales.v);
#pragma unroll
        for (int n = 0; n < Products::groups; ++n) Products::show(block, r, n, scale, lane, staged, row * Tiles::staged_row);
      }
  }
};

/// Maximum and sum of a row, combined from several partial softmaxes.
struct RowStats {
  float largest = Maximum::identity(), sum = 0.0f;

  __device__ __forceinline__ float weight_of(float top) const { return exp2_approx(subtract(top, subtracted(largest))); }

  /// Combines `count` warps or blocks, whose values are `stride` floats apart.
  template <int count, int stride>
  static __device__ __forceinline__ RowStats of(const float* tops, const float* sums) {
    RowStats end;
#pragma unroll
    for (int i = 0; i < count; ++i) end.largest = maximum(end.largest, tops[i * stride]);
#pragma unroll
    for (int i = 0; i < count; ++i) end.sum = fused_multiply_add(sums[i * stride], end.weight_of(tops[i * stride]), end.sum);
    return end;
  }
  /// Combines partials; all lanes of a warp together.
  static __device__ __forceinline__ RowStats of_parts(const float* ends, int parts, int lane) {
    RowStats end;
    for (int part = lane; part < parts; part += 32) {
      const Bits<8> found = load<8, LoadHint::plain>(ends + 2 * part);
      const float top = end.largest;
      end.largest = maximum(top, float_of(found.word[0]));
      end.sum = fused_multiply_add(float_of(found.word[1]), end.weight_of(float_of(found.word[0])),
                                   multiply(end.sum, end.weight_of(top)));
    }
    const float top = end.largest;
    end.largest = reduce_lanes<32>(top, Maximum());
    end.sum = reduce_lanes<32>(multiply(end.sum, end.weight_of(top)), Sum());
    return end;
  }
};

/// A block's share of the keys, and the combined results of its warps.
template <typename Element, const AttentionShape& shape, typename Modification, const SplitConfig& config>
struct SplitBlock {
  using Tiles = SplitTiles<shape, config>;
  static constexpr int columns = Tiles::columns;

  unsigned char* const shared = dynamic_shared();

  /// Called by all threads. Afterwards end_of() is valid, and output_of() after one more barrier.
  template <typename Work>
  __device__ __forceinline__ void take(const AttentionParams& params, const Sequence& sequence, const Work& work, int batch,
                                       int kv_head, KeyRange tiles) const {
    constexpr int keys = config.tile_kv, stages = config.stages;
    // Make it visibly uniform within the warp for the compiler.
    const int warp = shuffle(warp_index(), 0), lane = lane_index();
    const int own_at = warp * Tiles::warp_bytes;
    const KeyValuesOf<Element, shape> rows(params, sequence, batch, kv_head);
    const ScalesOf<shape> scales(params, sequence, batch, kv_head);
    using Found = decltype(rows.template find<keys>(0, 0));
    const auto find = [&](int index) { return rows.template find<keys>(index * keys, sequence.seq_kv); };
    const auto copy_tile = [&](int index, int stage, Found found) {
      const int place = own_at + stage * Tiles::stage_bytes;
      if (index >= tiles.end) return;
      copy_rows<typename AttentionFeatures<shape>::Chunks, 32, keys, shape.head_dim, shape.k_vector>(
          rows.k(found), index * keys, sequence.seq_kv, shared, place, lane);
      copy_rows<typename AttentionFeatures<shape>::Chunks, 32, keys, shape.head_dim_v, shape.v_vector>(
          rows.v(found), index * keys, sequence.seq_kv, shared, place + Tiles::k_bytes, lane);
      if constexpr (shape.rows_scaled) {
        scales.template copy_k<32, keys>(index * keys, shared + place, lane);
        scales.template copy_v<32, keys>(index * keys, shared + place + Tiles::k_bytes, lane);
      }
    };

    int index = tiles.begin + warp;
    // Waits count groups of copies, so every tile has a group even if no tile is left. The queries are in the first group:
    // after all stages, the first product would have to wait for every stage.
    auto found = find(index);
#pragma unroll 1
    for (int stage = 0; stage < stages; ++stage) {
      copy_tile(index + stage * config.warps, stage, found);
      found = find(index + (stage + 1) * config.warps);
      if (stage == 0) copy_queries<Element, shape, config>(params, sequence, work, batch, kv_head, shared, Tiles::q_at);
      async_copy_commit();
    }
    SplitWarp<Element, shape, Modification, config> mine(params, sequence, work, batch, kv_head, lane, shared);
    async_copy_wait<stages - 1>();
    sync_block();
    mine.queries.hold();
    int stage = 0;
    for (; index < tiles.end; index += config.warps) {
      async_copy_wait<stages - 1>();
      sync_warp();  // other lanes' copies have arrived, too
      mine.take(scales, own_at + stage * Tiles::stage_bytes, index * keys);
      sync_warp();  // all lanes have read the stage
      copy_tile(index + stages * config.warps, stage, found);
      async_copy_commit();
      found = find(index + (stages + 1) * config.warps);  // arrives while the next tile is processed
      stage = stage + 1 == stages ? 0 : stage + 1;
    }
    async_copy_wait<0>();
    mine.write_row_stats(largest() + warp * config.tile_q, sums() + warp * config.tile_q);
    sync_block();
    mine.show_output(scales, largest(), warp, work.rows, reinterpret_cast<float*>(shared + own_at));
  }

  __device__ __forceinline__ RowStats end_of(int row) const {
    return RowStats::of<config.warps, config.tile_q>(largest() + row, sums() + row);
  }
  /// Returns outputs from `column` on, before the division by the sum.
  __device__ __forceinline__ void output_of(int row, int column, float (&values)[columns]) const {
#pragma unroll
    for (int c = 0; c < columns; ++c) values[c] = 0.0f;
#pragma unroll
    for (int j = 0; j < config.warps; ++j) {
      const Bits<16> staged = *reinterpret_cast<const Bits<16>*>(
          shared + j * Tiles::warp_bytes + (row * Tiles::staged_row + column) * static_cast<int>(sizeof(float)));
#pragma unroll
      for (int c = 0; c < columns; ++c) values[c] = add(values[c], float_of(staged.word[c]));
    }
  }

 private:
  __device__ __forceinline__ float* largest() const { return reinterpret_cast<float*>(shared + Tiles::largest_at); }
  __device__ __forceinline__ float* sums() const { return reinterpret_cast<float*>(shared + Tiles::sums_at); }
};

/// Returns the address of a row of the output.
template <typename Element, const AttentionShape& shape>
__device__ __forceinline__ Element* output_at(const AttentionParams& params, const Sequence& sequence, int batch, int head,
                                              int query) {
  return head_of<shape>(static_cast<Element*>(params.o), params.o_strides, sequence.q_start, batch, head) +
         query * params.o_strides.seq;
}

}  // namespace tunesmith
