// Before the backward pass: statistics of each row that all of its pairs need.
//
//   delta = sum_c o[c] * dout[c] - dlse      softmax subtracts it from each gradient of a probability
//   lse2  = log2(e) * lse                    +inf for a row without keys
//
// A few neighbouring lanes share a row.
#pragma once

#include "attention_backward/backward.cuh"

namespace tunesmith {

constexpr int prepare_threads = 256;

template <const AttentionShape& shape, const BackwardShape& backward>
struct PrepareLanes {
  static constexpr int vector = shape.o_vector < backward.dout_vector ? shape.o_vector : backward.dout_vector;
  static constexpr int accesses = shape.head_dim_v / vector;
  static constexpr int lanes = accesses >= 32 ? 32 : accesses > 8 ? 16 : accesses > 4 ? 8 : 4;  // of a row
  static constexpr int rows = prepare_threads / lanes;                                          // of a block
};

template <typename Element, const AttentionShape& shape, const BackwardShape& backward>
__device__ __forceinline__ void attention_backward_prepare(const AttentionBackwardParams& params) {
  using Lanes = PrepareLanes<shape, backward>;
  const AttentionParams& attention = params.attention;
  const int64 row = block_index() * Lanes::rows + thread_index() / Lanes::lanes;
  const bool there = row < params.rows;
  float sum = 0.0f;
  if (there) {
    // Rows are those of lse: (batch, heads, seq_q), or (heads, total_q) of packed sequences.
    const int64 queries = shape.varlen ? attention.total_q : attention.seq_q;
    const int64 position = row % queries, head = row / queries % attention.heads;
    const int64 batch = shape.varlen ? 0 : row / queries / attention.heads;
    const auto* const o = static_cast<const Element*>(attention.o) + batch * attention.o_strides.batch +
                          position * attention.o_strides.seq + head * attention.o_strides.head;
    const auto* const dout = static_cast<const Element*>(params.dout) + batch * params.dout_strides.batch +
                             position * params.dout_strides.seq + head * params.dout_strides.head;
#pragma unroll
    for (int i = 0; i < Lanes::accesses; i += Lanes::lanes) {
      const int access = i + thread_index() % Lanes::lanes;
      if (access >= Lanes::accesses) continue;
      float outputs[Lanes::vector], gradients[Lanes::vector];
      load_whole<Element, Lanes::vector, LoadHint::plain>(o, access * Lanes::vector).unpack(outputs);
      load_whole<Element, Lanes::vector, LoadHint::plain>(dout, access * Lanes::vector).unpack(gradients);
#pragma unroll
      for (int j = 0; j < Lanes::vector; ++j) sum = fused_multiply_add(outputs[j], gradients[j], sum);
    }
  }
  sum = reduce_lanes<Lanes::lanes>(sum, Sum());
  if (!there || thread_index() % Lanes::lanes != 0) return;
  if constexpr (backward.dlse) sum = subtract(sum, params.dlse[row]);
  const float lse = attention.lse[row];
  workspace_floats(params, params.delta_at)[row] = sum;
  workspace_floats(params, params.lse_at)[row] = lse == Maximum::identity() ? -Maximum::identity() : multiply(lse, log2_e);
}

}  // namespace tunesmith
