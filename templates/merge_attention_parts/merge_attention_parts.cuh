// The merge of attention over parts of the keys. Bound by reading the outputs of the parts once.
//
//   A group of `lanes` neighbouring lanes has one row. It loads the lse and the outputs of several parts at once, and adds
//   them with weights relative to the largest lse so far; when that grows, the sums before are rescaled.
//
// Reference: Milakov and Gimelshein, "Online normalizer calculation for softmax", 2018 (arXiv:1805.02867).
#pragma once

#include "device/logarithm.cuh"
#include "device/reduce.cuh"
#include "device/vector.cuh"
#include "merge_attention_parts/params.cuh"

namespace tunesmith {

struct MergePartsShape {
  int head_dim;
  int vector;    ///< elements per access; all rows start at a multiple of them
  bool by_head;  ///< lse has the rows in another order than o: (heads, seq_q) instead of (seq_q, heads)
};

struct MergePartsConfig {
  int threads;
  int together;  ///< parts that a lane loads at once
};

template <const MergePartsShape& shape>
struct PartLanes {
  static constexpr int in_row = (shape.head_dim + shape.vector - 1) / shape.vector;
  /// The fewest lanes, a power of two, that have a vector each.
  static constexpr int count = in_row > 16 ? 32 : in_row > 8 ? 16 : in_row > 4 ? 8 : in_row > 2 ? 4 : in_row;
  static constexpr int of_lane = (in_row + count - 1) / count;
};

template <typename Element, typename Out, const MergePartsShape& shape, const MergePartsConfig& config>
__device__ __forceinline__ void merge_attention_parts(const MergePartsParams& params) {
  using Lanes = PartLanes<shape>;
  constexpr int vector = shape.vector, together = config.together;
  const int64 row = block_index() * (config.threads / Lanes::count) + thread_index() / Lanes::count;
  const int lane = thread_index() % Lanes::count;
  if (row >= params.rows) return;
  int64 of_lse = row;
  if constexpr (shape.by_head) {
    const int64 sequence = row / params.inner / params.outer;
    const int64 query = row / params.inner - sequence * params.outer;
    of_lse = (sequence * params.inner + row % params.inner) * params.outer + query;
  }
  const auto* const from = static_cast<const Element*>(params.o_parts) + row * shape.head_dim;
  const float* const logarithms = params.lse_parts + of_lse;

  const float none = Maximum::identity();
  float largest = none, sum = 0.0f, values[Lanes::of_lane][vector] = {};
  for (int first = 0; first < params.parts; first += together) {
    float logarithm[together], top = largest;
    Packed<Element, vector> found[together][Lanes::of_lane];
#pragma unroll
    for (int i = 0; i < together; ++i) {
      const int64 part = first + i < params.parts ? first + i : first;
#pragma unroll
      for (int j = 0; j < Lanes::of_lane; ++j) {
        const int column = (j * Lanes::count + lane) * vector;
        found[i][j] = load_whole<Element, vector, LoadHint::plain>(from + part * params.o_part_stride,
                                                                   column < shape.head_dim ? column : 0);
      }
      const float lse = load_element(logarithms + part * params.lse_part_stride);
      logarithm[i] = first + i < params.parts ? lse : none;
    }
#pragma unroll
    for (int i = 0; i < together; ++i) top = maximum(top, logarithm[i]);
    const float origin = top == none ? 0.0f : top,
                rescale = exp2_approx(multiply(subtract(largest, origin), params.log2_of_base));
    largest = top;
    sum = multiply(sum, rescale);
#pragma unroll
    for (int j = 0; j < Lanes::of_lane; ++j)
#pragma unroll
      for (int c = 0; c < vector; ++c) values[j][c] = multiply(values[j][c], rescale);
#pragma unroll
    for (int i = 0; i < together; ++i) {
      const float weight = exp2_approx(multiply(subtract(logarithm[i], origin), params.log2_of_base));
      sum = add(sum, weight);
      // The outputs of a part without keys may be anything.
      if (logarithm[i] == none) continue;
#pragma unroll
      for (int j = 0; j < Lanes::of_lane; ++j) {
        float part[vector];
        found[i][j].unpack(part);
#pragma unroll
        for (int c = 0; c < vector; ++c) values[j][c] = fused_multiply_add(part[c], weight, values[j][c]);
      }
    }
  }

  const bool empty = sum == 0.0f;
  const float scale = empty ? 0.0f : divide(1.0f, sum);
  auto* const to = static_cast<Out*>(params.o) + row * shape.head_dim;
#pragma unroll
  for (int j = 0; j < Lanes::of_lane; ++j) {
    const int column = (j * Lanes::count + lane) * vector;
    if (column >= shape.head_dim) continue;
#pragma unroll
    for (int c = 0; c < vector; ++c) values[j][c] = multiply(values[j][c], scale);
    store_whole<Out, vector, StoreHint::plain>(to, column, values[j]);
  }
  if (lane == 0 && params.lse != nullptr) {
    // The largest weight is 1.
    const float rest = multiply(log_of_one_plus(subtract(sum, 1.0f)), params.log_of_e);
    params.lse[of_lse] = empty ? none : add(largest, rest);
  }
}

}  // namespace tunesmith
