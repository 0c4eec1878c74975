// Before the backward pass: statistics of each row that all of its pairs need.
//
//   delta = sum_c o[c] * dout[c] - dlse      softmax subtracts it from each gradient of a probability
//   lse2  = log2(e) * lse                    +inf for a row without keys
//
// Zeroes the sums of dq in the workspace, or their counters. A few neighbouring lanes share a row.
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
  if constexpr (backward.counters) {
    const int64 thread = block_index() * prepare_threads + thread_index();
    if (thread < params.counter_words) workspace_words(params, params.counters_at)[thread] = 0;
  }
  if constexpr (backward.dslopes && backward.padded) {  // blocks add to the parts
    const int64 parts = static_cast<int64>(attention.heads) * attention.batch * params.slope_parts;
    for (int64 i = block_index() * prepare_threads + thread_index(); i < parts; i += params.prepare_stride)
      workspace_floats(params, params.slopes_at)[i] = 0.0f;
  }
  // Rows are (batch, heads, statistics_rows), or (heads, statistics_rows) of packed sequences.
  const int64 queries = shape.varlen ? attention.total_q : attention.seq_q;
  const int64 any_head = row / params.statistics_rows;
  int64 position = row % params.statistics_rows;
  const int64 head = any_head % attention.heads, batch = shape.varlen ? 0 : any_head / attention.heads;
  bool there = row < params.rows && position < queries;
  if constexpr (shape.varlen && backward.padded) {  // rows are padded
    const int sequence = sequence_of_row(attention, static_cast<int>(position)), start = attention.cu_seqlens_q[sequence];
    position += start - padded_start(sequence, start);
    there = row < params.rows && position < attention.cu_seqlens_q[sequence + 1];
  }
  float sum = 0.0f;
  if (there) {
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
  if (row >= params.rows) return;
  if constexpr (backward.sums_columns > 0) {
    float* const sums = workspace_floats(params, params.sums_at) + row * backward.sums_columns;
    for (int i = thread_index() % Lanes::lanes; i < backward.sums_columns / 4; i += Lanes::lanes)
      store<16, StoreHint::plain>(sums + 4 * i, Bits<16>{});
  }
  if (thread_index() % Lanes::lanes != 0) return;
  const int64 of_lse = any_head * queries + position;
  if constexpr (backward.dlse)
    if (there) sum = subtract(sum, params.dlse[of_lse]);
  const float lse = there ? attention.lse[of_lse] : Maximum::identity();
  workspace_floats(params, params.delta_at)[row] = sum;
  workspace_floats(params, params.lse_at)[row] = lse == Maximum::identity() ? -Maximum::identity() : multiply(lse, log2_e);
}

}  // namespace tunesmith
