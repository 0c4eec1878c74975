// Before the backward pass: statistics of each row that all of its pairs need.
//
//   delta = sum_c o[c] * dout[c] - dlse      softmax subtracts it from each gradient of a probability
//   lse2  = log2(e) * lse                    +inf for a row without keys
//
// Zeroes the sums of dq in the workspace, or their counters. A few neighbouring lanes share a row. A lane has the loads of
// up to four rows in flight, because two 16-byte loads of each lane reach only half of the memory's bandwidth.
#pragma once

#include "attention_backward/backward.cuh"
#include "device/dependent_launch.cuh"

namespace tunesmith {

constexpr int prepare_threads = 256;
constexpr int prepare_neighbours = 8;  ///< rows of a head that follow each other: a sector of their statistics

template <const AttentionShape& shape, const BackwardShape& backward>
struct PrepareLanes {
  static constexpr int vector = shape.o_vector < backward.dout_vector ? shape.o_vector : backward.dout_vector;
  static constexpr int accesses = shape.head_dim_v / vector;
  // Of a row: none of them is idle where 4 or 8 lanes have equal shares.
  static constexpr int lanes = accesses % 8 == 0   ? 8
                               : accesses % 4 == 0 ? 4
                               : accesses >= 32    ? 32
                               : accesses > 8      ? 16
                               : accesses > 4      ? 8
                                                   : 4;
  static constexpr int each = (accesses + lanes - 1) / lanes;             // of a lane and row
  static constexpr int rows_of_lane = each == 1 ? 4 : each <= 3 ? 2 : 1;  // at once
  static constexpr int rows_at_once = prepare_threads / lanes;            // of a block
  static constexpr int rows = rows_at_once * rows_of_lane;                // of a block in all
};

/// A row of the statistics, which are (batch, heads, statistics_rows), or (heads, statistics_rows) of packed sequences.
struct PreparedRow {
  int batch, head, position;  ///< where its query is, or another one that exists
  int64 at;                   ///< its number in the statistics; -1: there is no such row
  bool there;                 ///< the row belongs to a query
};

/// Returns row `number`: each prepare_neighbours positions of one head are followed by the same positions of the next head,
/// so that a block reads long pieces of memory whether heads or positions are neighbours there.
template <const AttentionShape& shape, const BackwardShape& backward>
__device__ __forceinline__ PreparedRow prepared_row(const AttentionBackwardParams& params, uint32 number) {
  const AttentionParams& attention = params.attention;
  const auto heads = static_cast<uint32>(attention.heads);
  const uint32 groups = static_cast<uint32>(params.statistics_rows + prepare_neighbours - 1) / prepare_neighbours;
  const uint32 in_order = number / prepare_neighbours, any_group = in_order / heads;
  const int batch = static_cast<int>(any_group / groups), head = static_cast<int>(in_order - any_group * heads);
  int position = static_cast<int>(any_group % groups * prepare_neighbours + number % prepare_neighbours);
  const bool exists = batch < (shape.varlen ? 1 : attention.batch) && position < params.statistics_rows;
  const int64 at = exists ? (static_cast<int64>(batch) * attention.heads + head) * params.statistics_rows + position : -1;
  int end = shape.varlen ? attention.total_q : attention.seq_q;
  if constexpr (shape.varlen && backward.padded) {  // rows are padded
    const int sequence = sequence_of_row(attention, position), start = attention.cu_seqlens_q[sequence];
    position += start - padded_start(sequence, start);
    end = attention.cu_seqlens_q[sequence + 1];
  }
  const bool there = exists && position < end;
  return {there ? batch : 0, there ? head : 0, there ? position : 0, at, there};
}

template <typename Element, const AttentionShape& shape, const BackwardShape& backward>
__device__ __forceinline__ void attention_backward_prepare(const AttentionBackwardParams& params) {
  using Lanes = PrepareLanes<shape, backward>;
  using Part = Packed<Element, Lanes::vector>;
  let_next_kernel_start();
  const AttentionParams& attention = params.attention;
  const int64 thread = block_index() * prepare_threads + thread_index();
  if constexpr (backward.counters) {
#pragma unroll 1
    for (int64 i = thread; i < params.counter_words; i += params.prepare_stride)
      workspace_words(params, params.counters_at)[i] = 0;
  }
  if constexpr (backward.dslopes && backward.padded) {  // blocks add to the parts
    const int64 parts = static_cast<int64>(attention.heads) * attention.batch * params.slope_parts;
    for (int64 i = thread; i < parts; i += params.prepare_stride) workspace_floats(params, params.slopes_at)[i] = 0.0f;
  }
  const int lane = thread_index() % Lanes::lanes;
  const uint32 first = static_cast<uint32>(block_index()) * Lanes::rows;
  PreparedRow rows[Lanes::rows_of_lane];
  Part outputs[Lanes::rows_of_lane][Lanes::each], gradients[Lanes::rows_of_lane][Lanes::each];
  float lse = Maximum::identity(), dlse = 0.0f;  // of row number `lane`
#pragma unroll
  for (int r = 0; r < Lanes::rows_of_lane; ++r) {
    // Rows without a query read the first query, so that no branch is in the way of the next loads.
    const PreparedRow row =
        prepared_row<shape, backward>(params, first + r * Lanes::rows_at_once + thread_index() / Lanes::lanes);
    rows[r] = row;
    const auto* const o = static_cast<const Element*>(attention.o) + row.batch * attention.o_strides.batch +
                          row.position * attention.o_strides.seq + row.head * attention.o_strides.head;
    const auto* const dout = static_cast<const Element*>(params.dout) + row.batch * params.dout_strides.batch +
                             row.position * params.dout_strides.seq + row.head * params.dout_strides.head;
#pragma unroll
    for (int i = 0; i < Lanes::each; ++i) {
      const int access = i * Lanes::lanes + lane;
      const int column = (Lanes::accesses % Lanes::lanes == 0 || access < Lanes::accesses ? access : 0) * Lanes::vector;
      outputs[r][i] = load_whole<Element, Lanes::vector, LoadHint::no_allocate>(o, column);
      gradients[r][i] = load_whole<Element, Lanes::vector, LoadHint::no_allocate>(dout, column);
    }
    if (lane == r && row.there) {
      const int64 any_head = static_cast<int64>(row.batch) * attention.heads + row.head;
      const int64 at = any_head * (shape.varlen ? attention.total_q : attention.seq_q) + row.position;
      lse = attention.lse[at];
      if constexpr (backward.dlse) dlse = params.dlse[at];
    }
  }
#pragma unroll
  for (int r = 0; r < Lanes::rows_of_lane; ++r) {
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < Lanes::each; ++i) {
      if (Lanes::accesses % Lanes::lanes != 0 && i * Lanes::lanes + lane >= Lanes::accesses) continue;
      float output[Lanes::vector], gradient[Lanes::vector];
      outputs[r][i].unpack(output);
      gradients[r][i].unpack(gradient);
#pragma unroll
      for (int j = 0; j < Lanes::vector; ++j) sum = fused_multiply_add(output[j], gradient[j], sum);
    }
    sum = reduce_lanes<Lanes::lanes>(sum, Sum());
    const int64 at = rows[r].at;
    if (at < 0) continue;
    if constexpr (backward.sums_columns > 0) {
      float* const sums = workspace_floats(params, params.sums_at) + at * backward.sums_columns;
      for (int i = lane; i < backward.sums_columns / 4; i += Lanes::lanes)
        store<16, StoreHint::plain>(sums + 4 * i, Bits<16>{});
    }
    if (lane != r) continue;
    workspace_floats(params, params.delta_at)[at] = rows[r].there ? subtract(sum, dlse) : 0.0f;
    workspace_floats(params, params.lse_at)[at] = lse == Maximum::identity() ? -Maximum::identity() : multiply(lse, log2_e);
  }
}

}  // namespace tunesmith
