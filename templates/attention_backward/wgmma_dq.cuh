// After attention_backward/wgmma.cuh: the sums of dQ, which are in the order of accumulators, become dQ.
#pragma once

#include "attention_backward/wgmma_tiles.cuh"
#include "device/dependent_launch.cuh"

#if TUNESMITH_HAS_SM90A

namespace tunesmith {

constexpr int wgmma_dq_threads = 256;

/// Adds two pairs of elements.
template <typename Element>
__device__ __forceinline__ uint32 add_pair(uint32 a, uint32 b) {
  const auto low = [](uint32 pair) { return to_float(Element{static_cast<uint16>(pair)}); };
  const auto high = [](uint32 pair) { return to_float(Element{static_cast<uint16>(pair >> 16)}); };
  return pack<Element>(add(low(a), low(b)), add(high(a), high(b)));
}

/// Writes 8 neighbouring columns of dQ, or adds them to what is there.
template <typename Element, bool accumulates>
__device__ __forceinline__ void write_columns(Element* to, Bits<16> columns) {
  if constexpr (accumulates) {
    const Bits<16> before = load<16, LoadHint::plain>(to);
#pragma unroll
    for (int i = 0; i < 4; ++i) columns.word[i] = add_pair<Element>(before.word[i], columns.word[i]);
  }
  store<16, StoreHint::plain>(to, columns);
}

/// Transposes 4 x 4 groups of words over each quad of lanes: of pairs of columns, a lane then has 8 neighbours.
template <int count>
__device__ __forceinline__ void transpose_over_quad(uint32 (&words)[count]) {
  constexpr int group = count / 4;
#pragma unroll
  for (int mask = 1; mask < 4; mask *= 2) {
    const bool upper = (lane_index() & mask) != 0;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if ((i / group & mask) != 0) continue;
      const uint32 got = shuffle_xor(upper ? words[i] : words[i + group * mask], mask);
      if (upper)
        words[i] = got;
      else
        words[i + group * mask] = got;
    }
  }
}

/// A warp takes 16 queries of up to 64 columns; they are 0 if no block has added to their sums. Quads of lanes exchange
/// pairs of columns, so that a lane stores 8 neighbours.
template <typename Element, const AttentionShape& shape, const BackwardShape& backward, const WgmmaBackwardConfig& config>
__device__ __forceinline__ void attention_backward_wgmma_dq(const WgmmaBackwardParams& params) {
  await_last_kernel();
  constexpr int slabs = (shape.head_dim + 63) / 64;
  const AttentionParams& attention = params.backward.attention;
  const int lane = lane_index();
  // Parts of 16 queries and a slab, in the order of the workspace: (batch, heads, rows / 64, slabs, 4).
  const int64 part = block_index() * (wgmma_dq_threads / 32) + warp_index();
  const int64 block = part / 4, tile = block / slabs, tiles_of_head = params.backward.statistics_rows / 64;
  const int64 head = tile / tiles_of_head;
  if (head >= (shape.varlen ? 1 : static_cast<int64>(attention.batch)) * attention.heads) return;
  const int first_column = static_cast<int>(block % slabs) * 64;
  int first_q = static_cast<int>(tile % tiles_of_head * 64 + part % 4 * 16);
  const int batch = shape.varlen ? sequence_of_row(attention, first_q) : static_cast<int>(head / attention.heads);
  const Sequence sequence = sequence_of<shape>(attention, batch);
  if constexpr (shape.varlen) first_q -= padded_start(batch, static_cast<int>(sequence.q_start));
  if (first_q >= sequence.seq_q) return;
  // See sums_of() and LoaderWithAdders.
  const int columns = shape.head_dim - first_column < 64 ? shape.head_dim - first_column : 64;
  const float* const from =
      workspace_floats(params.backward, params.backward.sums_at) + lane * 4 +
      (config.adders ? tile * (64 * shape.head_dim) + block % slabs * (64 * 64) + part % 4 * (16 * columns)
                     : part * (16 * 64));
  // With adders the sums were not zeroed.
  const bool has_sums = !config.adders || workspace_words(params.backward, params.backward.counters_at)[1 + block * 4] != 0;
  // Of a row: columns 8 * j + 2 * (lane % 4) and the next, in the order of the lane that stores them. A quad then stores 64
  // neighbouring bytes at once.
  uint32 words[2][8];
#pragma unroll
  for (int j = 0; j < 8; ++j) {
    Bits<16> sums{};
    const bool exists = shape.head_dim % 64 == 0 || first_column + 8 * j < shape.head_dim;
    if (exists) sums = load<16, LoadHint::streaming>(from + j * 128);
    if (!has_sums) sums = {};
#pragma unroll
    for (int r = 0; r < 2; ++r)
      words[r][2 * (j % 4) + j / 4] = pack<Element>(multiply(float_of(sums.word[2 * r]), attention.scale),
                                                    multiply(float_of(sums.word[2 * r + 1]), attention.scale));
  }
  const int within = lane % 4;
  auto* const dq = head_of<shape>(static_cast<Element*>(params.backward.dq), params.backward.dq_strides, sequence.q_start,
                                  batch, static_cast<int>(head % attention.heads));
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    transpose_over_quad(words[r]);
    const int query = first_q + 8 * r + lane / 4;
    if (query >= sequence.seq_q) continue;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int column = first_column + 32 * half + 8 * within;
      if (column >= shape.head_dim) continue;
      write_columns<Element, backward.accumulate>(
          dq + query * params.backward.dq_strides.seq + column,
          Bits<16>{{words[r][half], words[r][2 + half], words[r][4 + half], words[r][6 + half]}});
    }
  }
}

}  // namespace tunesmith

#endif
