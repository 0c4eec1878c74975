// Attention of few queries over many keys, as in decoding: what takes time is to read keys and values once, so everything
// here serves that.
//
// The query heads that share a key head are packed into the rows of one tile, row = query * group + head within the group,
// of which the tensor cores (sm_80 and later) multiply 16 at a time however many there are. The tiles of keys that a tile of
// rows sees are split over blocks, and a block's share over its warps, tile by tile in turns. Every warp has stages of its
// own that are on their way or in use, and waits for nobody else until the end: then the warps' running softmaxes are
// brought together in shared memory, and those of blocks by a second kernel, from float32 parts in the workspace. All of it
// in a fixed order: results repeat bit for bit.
//
// Splitting keys: Dao, Haziza, Massa and Sizov, "Flash-Decoding for long-context inference", 2023; the tiles, the softmax
// and its lazy rescaling are those of attention_mma.cuh.
#pragma once

#include "attention/attention_fragments.cuh"
#include "device/dependent_launch.cuh"

namespace tunesmith {

struct SplitConfig {
  int warps;
  int tile_q;           ///< rows of a tile: 16, 32, 48 or 64
  int tile_kv;          ///< keys that a warp takes at a time, a multiple of 16
  int stages;           ///< of a warp's tiles of K and V
  float rescale_above;  ///< growth of the largest score, as an exponent of 2, from which accumulators are rescaled
};

template <const AttentionShape& shape, const SplitConfig& config>
struct SplitTiles {
  static constexpr int threads = 32 * config.warps, blocks = config.tile_q / 16;
  static constexpr int k_bytes = config.tile_kv * shape.head_dim * 2;
  static constexpr int stage_bytes = k_bytes + config.tile_kv * shape.head_dim_v * 2;
  static constexpr int q_bytes = config.tile_q * shape.head_dim * 2;
  static constexpr int qk_steps = (shape.head_dim + 15) / 16;
  // Queries stay in registers where outputs leave room for them, or are fetched from shared memory for every tile of keys.
  static constexpr bool q_in_registers = blocks * (shape.head_dim_v / 2 + qk_steps * 4) <= 160;
  // At the end a warp's output takes the place of its stages. Rows are eight floats longer than that, so that neighbouring
  // ones start eight banks apart.
  static constexpr int staged_row = shape.head_dim_v + 8;
  static constexpr int staged_bytes = config.tile_q * staged_row * 4, stages_bytes = config.stages * stage_bytes;
  static constexpr int warp_bytes = stages_bytes > staged_bytes ? stages_bytes : staged_bytes;
  // Then the queries; the rows' largest scores and sums, of each warp; and what the rows are multiplied with.
  static constexpr int q_at = config.warps * warp_bytes, largest_at = q_at + q_bytes;
  static constexpr int sums_at = largest_at + config.warps * config.tile_q * 4;
  static constexpr int scales_at = sums_at + config.warps * config.tile_q * 4;
  static constexpr int smem_bytes = scales_at + config.tile_q * 4;
};

/// A tile of rows and the keys it sees, which are the same for whoever computes a part of it or combines the parts.
template <const AttentionShape& shape, const SplitConfig& config>
struct SplitWork {
  int group, first_row, rows;  ///< rows of the tile, those that exist
  KeyRange tiles;              ///< of keys
  int parts;                   ///< that the keys are split into; the others are empty and not written

  __device__ __forceinline__ SplitWork(const AttentionParams& params, const Sequence& sequence, int row_tile)
      : group(params.heads / params.kv_heads), first_row(row_tile * config.tile_q), rows(0), tiles{0, 0}, parts(1) {
    const int left = sequence.seq_q * group - first_row;
    rows = left < config.tile_q ? left : config.tile_q;
    if (rows <= 0) return;
    const Visibility<shape> visibility(params, sequence);
    tiles = key_tiles<shape, config.tile_kv>(visibility, query_of(0), query_of(rows - 1));
    // A part has a tile for each warp, where there are as many.
    const int rounds = (tiles.end - tiles.begin + config.warps - 1) / config.warps;
    parts = rounds < params.splits ? rounds : params.splits;
    if (parts < 1) parts = 1;
  }

  __device__ __forceinline__ int query_of(int row) const { return (first_row + row) / group; }
  __device__ __forceinline__ int head_of(int kv_head, int row) const { return kv_head * group + (first_row + row) % group; }

  /// Tiles of keys of part `part`: no two parts differ by more than one.
  __device__ __forceinline__ KeyRange part_of(int part) const {
    const int count = tiles.end - tiles.begin, least = count / parts, more = count % parts;
    const int begin = tiles.begin + part * least + (part < more ? part : more);
    return {begin, begin + least + (part < more ? 1 : 0)};
  }
};

/// Parts in the workspace: outputs before they are divided by the sums, then largest score and sum of each.
template <const AttentionShape& shape>
struct SplitParts {
  float* outputs;
  float* ends;

  /// Of the row `row` of all that the batch entry and key head have.
  __device__ __forceinline__ SplitParts(const AttentionParams& params, int batch, int kv_head, int row) {
    const int64 rows = int64{params.seq_q} * (params.heads / params.kv_heads);
    const int64 number = (int64{batch} * params.kv_heads + kv_head) * rows + row;
    auto* const first = reinterpret_cast<float*>(params.workspace);
    outputs = first + number * params.splits * shape.head_dim_v;
    ends = first + params.batch * params.kv_heads * rows * params.splits * shape.head_dim_v + number * params.splits * 2;
  }
};

/// Scores of the rows `lane` / 4 and `lane` / 4 + 8 of 16, each with a query and a head of its own: 0 and 8 in place of a
/// query are the first and the second of them.
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

/// One for each 16 rows of a tile.
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

/// The rows of a tile into a swizzled tile in shared memory; those that do not exist become zeros. All threads of a block;
/// complete after a barrier. Without cp.async, whose groups are counted for keys.
template <typename Element, const AttentionShape& shape, const SplitConfig& config>
__device__ __forceinline__ void stage_queries(const AttentionParams& params, const Sequence& sequence,
                                              const SplitWork<shape, config>& work, int batch, int kv_head,
                                              unsigned char* tile) {
  constexpr int per_row = shape.head_dim / 8;
#pragma unroll 1
  for (int i = thread_index(); i < config.tile_q * per_row; i += SplitTiles<shape, config>::threads) {
    const int row = i / per_row, chunk = i % per_row;
    Bits<16> elements{};
    if (row < work.rows)
      elements = load_chunk<Element, shape.q_vector>(head_of<shape>(static_cast<const Element*>(params.q), params.q_strides,
                                                                    sequence.q_start, batch, work.head_of(kv_head, row)) +
                                                     work.query_of(row) * params.q_strides.seq + chunk * 8);
    *reinterpret_cast<Bits<16>*>(tile + swizzled<2 * shape.head_dim>(row, chunk)) = elements;
  }
}

/// All rows of a tile with the keys of one warp.
template <typename Element, const AttentionShape& shape, typename Modification, const SplitConfig& config>
struct SplitWarp : WarpProducts<Element, shape, SplitTiles<shape, config>::blocks, config.tile_kv> {
  using Tiles = SplitTiles<shape, config>;
  static constexpr int keys = config.tile_kv, blocks = Tiles::blocks;
  using Products = WarpProducts<Element, shape, blocks, keys>;
  using Products::output;
  using Products::scores;

  const PackedBlocks<shape, Modification, blocks> rules;
  const int lane;
  const KeyRange whole;  ///< keys that all rows see

  unsigned char* const shared;
  WarpQueries<shape, blocks, Tiles::q_in_registers> queries;
  QuadSoftmax<Element, shape, Modification, keys, PackedScores<shape, Modification>> softmax[blocks];

  template <typename Work>
  __device__ __forceinline__ SplitWarp(const AttentionParams& params, const Sequence& sequence, const Work& work, int batch,
                                       int kv_head, int warp_lane, unsigned char* memory)
      : Products(warp_lane),
        rules(params, sequence, work, batch, kv_head, warp_lane / 4),
        lane(warp_lane),
        // A text must not be asked for rows that do not exist.
        whole((shape.score_mod || shape.mask_mod) && work.rows < config.tile_q
                  ? KeyRange{0, 0}
                  : Visibility<shape>(params, sequence).of_all(work.query_of(0), work.query_of(work.rows - 1))),
        shared(memory),
        queries(memory, Tiles::q_at, warp_lane) {
#pragma unroll
    for (int block = 0; block < blocks; ++block) softmax[block].reset();
  }

  /// `tile_at`: where its keys and values lie.
  __device__ __forceinline__ void take(int tile_at, int first_k) {
    Products::multiply_keys(queries, shared, tile_at);
    Rescale rescale[blocks];
    if (whole.holds(first_k, first_k + keys - 1))
      exponentiate<true>(first_k, rescale);
    else
      exponentiate<false>(first_k, rescale);
#pragma unroll
    for (int block = 0; block < blocks; ++block) rescale_rows(output[block], rescale[block]);
    Products::multiply_values(shared, tile_at + Tiles::k_bytes);
  }
  template <bool all_count>
  __device__ __forceinline__ void exponentiate(int first_k, Rescale (&rescale)[blocks]) {
#pragma unroll
    for (int block = 0; block < blocks; ++block)
      softmax[block].template exponentiate<all_count>(scores[block], rules.at(block), 0, first_k, lane, config.rescale_above,
                                                      rescale[block]);
  }

  /// Largest scores, as exponents of 2, and sums, for the other warps to see.
  __device__ __forceinline__ void show_ends(float* largest, float* sums) const {
#pragma unroll
    for (int block = 0; block < blocks; ++block)
#pragma unroll
      for (int r = 0; r < 2; ++r) {
        const float sum = reduce_lanes<4>(softmax[block].sum[r], Sum());
        const int row = 16 * block + 8 * r + lane / 4;
        if (lane % 4 == 0) {
          largest[row] = multiply(softmax[block].largest[r], rules.at(block).factor());
          sums[row] = multiply(sum, inverse_weight_factor<Element>);
        }
      }
  }
  /// Outputs as they are where the largest score is that of all warps. `largest`: of each warp and row.
  __device__ __forceinline__ void show_output(const float* largest, int warp, int rows, float* staged) const {
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
        const float scale = multiply(exp2_approx(subtract(own, subtracted(top))), inverse_weight_factor<Element>);
#pragma unroll
        for (int n = 0; n < shape.head_dim_v / 8; ++n) {
          const int at = row * Tiles::staged_row + 8 * n + lane % 4 * 2;
          *reinterpret_cast<Bits<8>*>(staged + at) = {{bits_of(multiply(output[block][4 * n + 2 * r], scale)),
                                                       bits_of(multiply(output[block][4 * n + 2 * r + 1], scale))}};
        }
      }
  }
};

/// Largest score and sum of a row, from those of several running softmaxes.
struct CombinedEnd {
  float largest = Maximum::identity(), sum = 0.0f;

  __device__ __forceinline__ float weight_of(float top) const { return exp2_approx(subtract(top, subtracted(largest))); }

  /// Of `warps` warps, whose numbers lie `stride` floats apart.
  template <int warps, int stride>
  static __device__ __forceinline__ CombinedEnd of_warps(const float* tops, const float* sums) {
    CombinedEnd end;
#pragma unroll
    for (int i = 0; i < warps; ++i) end.largest = maximum(end.largest, tops[i * stride]);
#pragma unroll
    for (int i = 0; i < warps; ++i) end.sum = fused_multiply_add(sums[i * stride], end.weight_of(tops[i * stride]), end.sum);
    return end;
  }
  /// Of parts, by all lanes of a warp together.
  static __device__ __forceinline__ CombinedEnd of_parts(const float* ends, int parts, int lane) {
    CombinedEnd end;
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

template <typename Element, const AttentionShape& shape, typename Modification, const SplitConfig& config>
__device__ __forceinline__ void attention_split(const AttentionParams& params) {
  using Tiles = SplitTiles<shape, config>;
  constexpr int keys = config.tile_kv, stages = config.stages;
  unsigned char* const shared = dynamic_shared();

  let_next_kernel_start();  // its blocks wait where these have ended
  // Neighbouring blocks read the same keys, then those of the next head, which lie beside them in most layouts.
  // There are fewer than 2^31 of them.
  auto number = static_cast<uint32>(block_index());
  const auto next = [&](int count) {
    const auto size = static_cast<uint32>(count), index = number % size;
    number /= size;
    return static_cast<int>(index);
  };
  const int row_tile = next(params.q_tiles), kv_head = next(params.kv_heads), part = next(params.splits);
  const auto batch = static_cast<int>(number);
  if (batch >= params.batch) return;
  const Sequence sequence = sequence_of<shape>(params, batch);
  const SplitWork<shape, config> work(params, sequence, row_tile);
  if (work.rows <= 0 || part >= work.parts) return;
  const KeyRange tiles = work.part_of(part);

  // The same for all lanes, in a way that the compiler sees.
  const int warp = shuffle(warp_index(), 0), lane = lane_index();
  const int own_at = warp * Tiles::warp_bytes;
  const auto* const k =
      head_of<shape>(static_cast<const Element*>(params.k), params.k_strides, sequence.kv_start, batch, kv_head);
  const auto* const v =
      head_of<shape>(static_cast<const Element*>(params.v), params.v_strides, sequence.kv_start, batch, kv_head);
  const auto copy_tile = [&](int index, int stage) {
    const int place = own_at + stage * Tiles::stage_bytes;
    if (index < tiles.end) {
      copy_rows<Element, 32, keys, shape.head_dim, shape.k_vector>(k, params.k_strides.seq, index * keys, sequence.seq_kv,
                                                                   shared, place, lane);
      copy_rows<Element, 32, keys, shape.head_dim_v, shape.v_vector>(v, params.v_strides.seq, index * keys, sequence.seq_kv,
                                                                     shared, place + Tiles::k_bytes, lane);
    }
    // What is waited for is counted in groups, so that there is one for every tile, be there any left or not.
    async_copy_commit();
  };

  int index = tiles.begin + warp;
#pragma unroll 1
  for (int stage = 0; stage < stages; ++stage) copy_tile(index + stage * config.warps, stage);
  stage_queries<Element, shape, config>(params, sequence, work, batch, kv_head, shared + Tiles::q_at);
  SplitWarp<Element, shape, Modification, config> mine(params, sequence, work, batch, kv_head, lane, shared);
  sync_block();
  mine.queries.hold();
  int stage = 0;
  for (; index < tiles.end; index += config.warps) {
    async_copy_wait<stages - 1>();
    sync_warp();  // other lanes' copies are there as well
    mine.take(own_at + stage * Tiles::stage_bytes, index * keys);
    sync_warp();  // and nobody reads them any more
    copy_tile(index + stages * config.warps, stage);
    stage = stage + 1 == stages ? 0 : stage + 1;
  }
  async_copy_wait<0>();

  auto* const largest = reinterpret_cast<float*>(shared + Tiles::largest_at);
  auto* const sums = reinterpret_cast<float*>(shared + Tiles::sums_at);
  auto* const scales = reinterpret_cast<float*>(shared + Tiles::scales_at);
  mine.show_ends(largest + warp * config.tile_q, sums + warp * config.tile_q);
  sync_block();
  mine.show_output(largest, warp, work.rows, reinterpret_cast<float*>(shared + own_at));
  const bool alone = params.splits == 1;
  for (int row = thread_index(); row < work.rows; row += Tiles::threads) {
    const auto combined = CombinedEnd::of_warps<config.warps, config.tile_q>(largest + row, sums + row);
    if (alone) {
      const int head = work.head_of(kv_head, row);
      const SoftmaxEnd end = end_of<shape>(params, head, combined.largest, combined.sum);
      if (params.lse != nullptr) lse_of<shape>(params, sequence, batch, head)[work.query_of(row)] = end.lse;
      scales[row] = end.scale;
    } else {
      float* const ends = SplitParts<shape>(params, batch, kv_head, work.first_row + row).ends + part * 2;
      *reinterpret_cast<Bits<8>*>(ends) = {{bits_of(combined.largest), bits_of(combined.sum)}};
    }
  }
  sync_block();
  constexpr int columns = 4, per_row = shape.head_dim_v / columns;
  for (int i = thread_index(); i < work.rows * per_row; i += Tiles::threads) {
    const int row = i / per_row, column = i % per_row * columns;
    float values[columns] = {};
#pragma unroll
    for (int j = 0; j < config.warps; ++j) {
      const Bits<16> staged = *reinterpret_cast<const Bits<16>*>(
          shared + j * Tiles::warp_bytes + (row * Tiles::staged_row + column) * static_cast<int>(sizeof(float)));
#pragma unroll
      for (int c = 0; c < columns; ++c) values[c] = add(values[c], float_of(staged.word[c]));
    }
    if (alone) {
#pragma unroll
      for (int c = 0; c < columns; ++c) values[c] = multiply(values[c], scales[row]);
      store_part<shape.o_vector>(head_of<shape>(static_cast<Element*>(params.o), params.o_strides, sequence.q_start, batch,
                                                work.head_of(kv_head, row)) +
                                     work.query_of(row) * params.o_strides.seq + column,
                                 values);
    } else {
      store_part<columns>(
          SplitParts<shape>(params, batch, kv_head, work.first_row + row).outputs + part * shape.head_dim_v + column,
          values);
    }
  }
}

constexpr int split_combine_threads = 128;

/// The parts of one row: a block. Sinks are a term of the sum only here, where there is one of it.
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
  // Several outputs are on their way at once, the first of them before anything else is asked for.
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
  const CombinedEnd combined = CombinedEnd::of_parts(parts.ends, work.parts, lane);
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
  const SoftmaxEnd end = end_of<shape>(params, head, combined.largest, combined.sum);
  if (thread_index() == 0 && params.lse != nullptr) lse_of<shape>(params, sequence, batch, head)[query] = end.lse;
  if (const int column = thread_index() * columns; column < shape.head_dim_v) {
    float total[columns] = {};
#pragma unroll
    for (int i = 0; i < warps; ++i)
#pragma unroll
      for (int c = 0; c < columns; ++c) total[c] = add(total[c], staged[i * shape.head_dim_v + column + c]);
#pragma unroll
    for (int c = 0; c < columns; ++c) total[c] = multiply(total[c], end.scale);
    store_part<shape.o_vector>(
        head_of<shape>(static_cast<Element*>(params.o), params.o_strides, sequence.q_start, batch, head) +
            query * params.o_strides.seq + column,
        total);
  }
}

}  // namespace tunesmith
