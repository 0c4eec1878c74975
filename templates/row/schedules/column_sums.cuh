// Sums of values over all rows, one for each column: outputs `colsum` of a row program.
//
// The grid is persistent. A cooperative group adds the values of its rows in registers; each thread has some of the columns.
// A partial result is the sum over at most rows_of_partial rows for each group that a block holds; it is added to the
// block's own partial sums in the workspace, in two floats (one if there is a single partial result). A second kernel adds
// the partial sums of all blocks. Each order is fixed by the configuration and the number of rows, so results are bitwise
// reproducible.
//
// Error: a value goes through at most rows_of_partial plain additions in a thread, 5 between lanes and 31 between warps;
// everything after that is compensated (ColumnSums on the host).
#pragma once

#include "device/dependent_launch.cuh"
#include "row/reductions/partial_result.cuh"
#include "row/row.cuh"

namespace tunesmith {

/// Rows that a thread adds before it adds their sum to the partial sums in the workspace.
constexpr int rows_of_partial = 64;

/// Partial sums in the workspace: for each sum, and for the sum and its rounding error, RowParams::groups rows of numbers.
template <const RowShape& shape>
struct PartialSums {
  static constexpr int64 padded_cols = (shape.cols + 31) / 32 * 32;

  static __device__ __forceinline__ Number<shape>* row(const RowParams& params, int sum, int which, int64 group) {
    return static_cast<Number<shape>*>(params.workspace) + ((2 * sum + which) * params.groups + group) * padded_cols;
  }
  /// Returns whether a group has more than one partial result, so that additions lose digits; `rows`: of a partial result.
  static __device__ __forceinline__ bool several(const RowParams& params, int rows) {
    return params.rows > params.groups * rows;
  }
  /// Returns the first address after `sums` sums, a multiple of 128 bytes from the workspace's begin.
  static __device__ __forceinline__ void* end(const RowParams& params, int sums) { return row(params, sums, 0, 0); }

  /// Adds a vector; `first`: the group's partial sums hold nothing yet; `rows`: of a partial result. Vectors after the row's
  /// end are ignored.
  static __device__ __forceinline__ void add(const RowParams& params, int sum, int64 group, int64 column, bool first,
                                             int rows, const Number<shape> (&values)[shape.vector]) {
    if (column >= shape.cols) return;
    Number<shape>*const totals = row(params, sum, 0, group), *const losses = row(params, sum, 1, group);
    Number<shape> total[shape.vector], lost[shape.vector];
    if (first) {
#pragma unroll
      for (int j = 0; j < shape.vector; ++j) lost[j] = 0.0f;
      store_whole<Number<shape>, shape.vector, StoreHint::plain>(totals, column, values);
    } else {
      load_whole<Number<shape>, shape.vector, LoadHint::plain>(totals, column).unpack(total);
      load_whole<Number<shape>, shape.vector, LoadHint::plain>(losses, column).unpack(lost);
#pragma unroll
      for (int j = 0; j < shape.vector; ++j) {
        CompensatedSumOf<Number<shape>> all{total[j], lost[j]};
        all.include(values[j]);
        total[j] = all.sum;
        lost[j] = all.lost;
      }
      store_whole<Number<shape>, shape.vector, StoreHint::plain>(totals, column, total);
    }
    if (several(params, rows)) store_whole<Number<shape>, shape.vector, StoreHint::plain>(losses, column, lost);
  }
};

/// Sums in registers, of a thread's columns.
template <typename Program, const RowShape& shape, int vectors, typename Group>
struct RegisterSums {
  static constexpr int sums = Program::sums;
  Number<shape> totals[sums][vectors][shape.vector];

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int s = 0; s < sums; ++s)
#pragma unroll
      for (int i = 0; i < vectors; ++i)
#pragma unroll
        for (int j = 0; j < shape.vector; ++j) totals[s][i][j] = 0.0f;
  }
  /// Includes vector i of a row; `results`: of Program::outputs().
  template <typename Results>
  __device__ __forceinline__ void include(const typename Program::Params&, int64, int i, const Results& results,
                                          ElementsInside inside, bool exists) {
#pragma unroll
    for (int s = 0; s < sums; ++s)
#pragma unroll
      for (int j = 0; j < shape.vector; ++j)
        totals[s][i][j] = totals[s][i][j] + (exists && inside.holds(j) ? results[Program::Outputs::count + s][j] : 0.0f);
  }
  /// Adds the sums to the block's sums in the workspace. All threads of the block.
  __device__ __forceinline__ void flush(const typename Program::Params& params, int64 group, int thread_rank, bool first) {
#pragma unroll
    for (int s = 0; s < sums; ++s) {
      bool has_total = true;
      if constexpr (Group::group_size <= 32) has_total = add_groups_of_block(totals[s]);
      if (has_total)
#pragma unroll
        for (int i = 0; i < vectors; ++i)
          PartialSums<shape>::add(params.row, s, group, column_of<shape, Group::group_size>(i, thread_rank), first,
                                  rows_of_partial, totals[s][i]);
    }
  }

 private:
  /// Adds the sums of a block's groups of lanes. Returns true in the lanes that have the totals.
  __device__ __forceinline__ bool add_groups_of_block(Number<shape> (&values)[vectors][shape.vector]) {
    constexpr int lanes = Group::group_size, warps = Group::threads / 32;
#pragma unroll
    for (int i = 0; i < vectors; ++i)
#pragma unroll
      for (int j = 0; j < shape.vector; ++j)
#pragma unroll
        for (int distance = lanes; distance < 32; distance *= 2)
          values[i][j] = add(values[i][j], shuffle_xor(values[i][j], distance));
    if constexpr (warps > 1) {
      TUNESMITH_SHARED(Number<shape>, of_block, vectors * shape.vector * lanes);
      for (int warp = 0; warp < warps; ++warp) {
        if (warp_index() == warp && lane_index() < lanes) {
#pragma unroll
          for (int i = 0; i < vectors; ++i)
#pragma unroll
            for (int j = 0; j < shape.vector; ++j) {
              Number<shape>& place = of_block[(i * shape.vector + j) * lanes + lane_index()];
              if (warp > 0) values[i][j] = add(place, values[i][j]);
              place = values[i][j];
            }
        }
        sync_block();
      }
    }
    return warp_index() == warps - 1 && lane_index() < lanes;
  }
};

/// Sums in the workspace alone, for rows that are read in tiles. A thread has the same columns in each row.
template <typename Program, const RowShape& shape>
struct WorkspaceSums {
  int64 group;
  bool first = true;

  __device__ __forceinline__ explicit WorkspaceSums(int64 of_group) : group(of_group) {}

  template <typename Results>
  __device__ __forceinline__ void include(const typename Program::Params& params, int64 column, int, const Results& results,
                                          ElementsInside inside, bool) const {
#pragma unroll
    for (int s = 0; s < Program::sums; ++s) {
      Number<shape> values[shape.vector];
#pragma unroll
      for (int j = 0; j < shape.vector; ++j) values[j] = inside.holds(j) ? results[Program::Outputs::count + s][j] : 0.0f;
      PartialSums<shape>::add(params.row, s, group, column, first, 1, values);
    }
  }
  /// After each row.
  __device__ __forceinline__ void next_row() { first = false; }
  /// After all rows. All threads of the block.
  template <int threads>
  __device__ __forceinline__ void finish(const RowParams&) const {}
};

/// Adds the partial sums of all groups: `columns` neighbouring lanes have a column each, the others of the block share the
/// groups. `rows`: of a partial result.
template <typename Program, const RowShape& shape, int threads, int columns, int rows, int sum>
__device__ __forceinline__ void finish_column_sums(const typename Program::Params& params) {
  if constexpr (sum < Program::sums) {
    constexpr int slices = threads / columns, warps = threads / 32;
    const int64 column = block_index() * columns + thread_index() % columns;
    using Pair = PairOf<Number<shape>>;
    using Add = SumOfTwo<Number<shape>>;
    Pair total = Add::identity();
    if (column < columns_of<shape>(params.row)) {
      const bool several = PartialSums<shape>::several(params.row, rows);
#pragma unroll 4
      for (int64 group = thread_index() / columns; group < params.row.groups; group += slices)
        total = Add()(total, {PartialSums<shape>::row(params.row, sum, 0, group)[column],
                              several ? PartialSums<shape>::row(params.row, sum, 1, group)[column] : 0.0f});
    }
#pragma unroll
    for (int distance = columns; distance < 32; distance *= 2) total = Add()(total, shuffle_xor(total, distance));
    TUNESMITH_SHARED(Pair, of_warps, warps * columns);
    if (lane_index() < columns) of_warps[warp_index() * columns + lane_index()] = total;
    sync_block();
    if (thread_index() < columns && column < columns_of<shape>(params.row)) {
      for (int warp = 1; warp < warps; ++warp) total = Add()(total, of_warps[warp * columns + thread_index()]);
      Program::template store_sum<sum>(params, column, rounded(total));
    }
    sync_block();
    finish_column_sums<Program, shape, threads, columns, rows, sum + 1>(params);
  }
}

/// The second kernel.
template <typename Program, const RowShape& shape, int threads, int columns, int rows>
__device__ __forceinline__ void program_column_sums(const typename Program::Params& params) {
  await_last_kernel();
  finish_column_sums<Program, shape, threads, columns, rows, 0>(params);
}

}  // namespace tunesmith
