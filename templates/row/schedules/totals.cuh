// Sums of values over all rows and columns: outputs `colsum` of one element, [], of a row program.
//
// Each thread adds up its elements of all its rows in two floats. A block adds the sums of its threads and stores the result
// in the workspace, after the partial sums of columns; the second kernel (row/schedules/column_sums.cuh) adds the results of
// all blocks. A value that does not vary along the columns is 0 in all but one of them. Each order is fixed by the
// configuration and the number of rows, so results are bitwise reproducible.
//
// Error: a value goes through the plain additions of a vector; everything after that is compensated (ColumnSums on
// the host).
#pragma once

#include "row/schedules/column_sums.cuh"

namespace tunesmith {

/// A program with such sums: the last `totals` of its `sums`. Kernels take this type, whose sums are kept as below.
template <typename Program>
struct WithTotals : Program {};

/// The program with its other sums alone.
template <typename Program>
struct WithoutTotals : Program {
  static constexpr int sums = Program::sums - Program::totals;
};

/// Sums of the elements of a thread.
template <typename Program, const RowShape& shape>
struct ThreadTotals {
  static constexpr int count = Program::totals, first = Program::sums - count;
  using Pair = PairOf<Number<shape>>;
  using Add = SumOfTwo<Number<shape>>;
  CompensatedSumOf<Number<shape>> totals[count];

  /// Includes a vector; `results`: of Program::outputs(). `holds(j)`: element j exists.
  template <int vector, typename Results, typename Holds>
  __device__ __forceinline__ void include(const Results& results, const Holds& holds) {
#pragma unroll
    for (int t = 0; t < count; ++t) {
      Number<shape> sum = 0.0f;
#pragma unroll
      for (int j = 0; j < vector; ++j) sum = add(sum, holds(j) ? results[Program::Outputs::count + first + t][j] : 0.0f);
      totals[t].include(sum);
    }
  }
  /// Returns where the sums of `blocks` blocks are.
  static __device__ __forceinline__ Pair* of_blocks(const RowParams& params, int total, int64 blocks) {
    return reinterpret_cast<Pair*>(PartialSums<shape>::row(params, first, 0, 0)) + total * blocks;
  }
  /// Stores the sums of a block of `threads` threads, one of `blocks`. All threads of the block.
  template <int threads>
  __device__ __forceinline__ void store(const RowParams& params, int64 blocks) const {
    constexpr int warps = threads / 32;
    TUNESMITH_SHARED(Pair, of_warps, warps);
#pragma unroll
    for (int t = 0; t < count; ++t) {
      Pair total = reduce_lanes<32>(totals[t].both(), Add());
      if (lane_index() == 0) of_warps[warp_index()] = total;
      sync_block();
      if (thread_index() == 0) {
        for (int warp = 1; warp < warps; ++warp) total = Add()(total, of_warps[warp]);
        of_blocks(params, t, blocks)[block_index()] = total;
      }
      sync_block();
    }
  }
};

/// In place of RegisterSums, for a program without sums of columns.
template <typename Program>
struct NoRegisterSums {
  __device__ __forceinline__ void clear() {}
  template <typename Results>
  __device__ __forceinline__ void include(const typename Program::Params&, int64, int, const Results&, ElementsInside,
                                          bool) {}
  __device__ __forceinline__ void flush(const typename Program::Params&, int64, int, bool) {}
};
template <typename Program, const RowShape& shape, int vectors, typename Group>
struct RegisterSums<WithTotals<Program>, shape, vectors, Group> {
  typename If<(Program::sums > Program::totals), RegisterSums<WithoutTotals<Program>, shape, vectors, Group>,
              NoRegisterSums<Program>>::type columns;
  ThreadTotals<Program, shape> totals;

  /// Begins partial sums of columns; the others go on to the last row.
  __device__ __forceinline__ void clear() { columns.clear(); }
  template <typename Results>
  __device__ __forceinline__ void include(const typename Program::Params& params, int64 column, int i,
                                          const Results& results, ElementsInside inside, bool exists) {
    columns.include(params, column, i, results, inside, exists);
    totals.template include<shape.vector>(results, [&](int j) { return exists && inside.holds(j); });
  }
  /// Adds the partial sums of columns to the block's in the workspace, and stores the other sums so far. All threads of the
  /// block.
  __device__ __forceinline__ void flush(const typename Program::Params& params, int64 group, int thread_rank, bool first) {
    constexpr int blocks = Group::group_size > Group::threads ? Group::group_size / Group::threads : 1;
    columns.flush(params, group, thread_rank, first);
    totals.template store<Group::threads>(params.row, params.row.groups * blocks);
  }
};

template <typename Program, const RowShape& shape>
struct WorkspaceSums<WithTotals<Program>, shape> {
  WorkspaceSums<WithoutTotals<Program>, shape> columns;
  ThreadTotals<Program, shape> totals;

  __device__ __forceinline__ explicit WorkspaceSums(int64 group) : columns(group) {}
  template <typename Results>
  __device__ __forceinline__ void include(const typename Program::Params& params, int64 column, int i,
                                          const Results& results, ElementsInside inside, bool exists) {
    columns.include(params, column, i, results, inside, exists);
    totals.template include<shape.vector>(results, [&](int j) { return inside.holds(j); });
  }
  __device__ __forceinline__ void next_row() { columns.next_row(); }
  template <int threads>
  __device__ __forceinline__ void finish(const RowParams& params) const {
    // A folded grid has surplus blocks.
    if (columns.group < params.groups) totals.template store<threads>(params, params.groups);
  }
};

/// Adds the sums of all blocks. All threads of a block.
template <typename Program, const RowShape& shape, int threads, int total>
__device__ __forceinline__ void finish_totals(const typename Program::Params& params, int64 blocks) {
  if constexpr (total < Program::totals) {
    using Totals = ThreadTotals<Program, shape>;
    using Add = typename Totals::Add;
    const auto* const of_blocks = Totals::of_blocks(params.row, total, blocks);
    typename Totals::Pair sum = Add::identity();
    for (int64 block = thread_index(); block < blocks; block += threads) sum = Add()(sum, of_blocks[block]);
    sum = reduce_lanes<32>(sum, Add());
    TUNESMITH_SHARED(typename Totals::Pair, of_warps, threads / 32);
    if (lane_index() == 0) of_warps[warp_index()] = sum;
    sync_block();
    if (thread_index() == 0) {
      for (int warp = 1; warp < threads / 32; ++warp) sum = Add()(sum, of_warps[warp]);
      Program::template store_sum<Totals::first + total>(params, 0, rounded(sum));
    }
    sync_block();
    finish_totals<Program, shape, threads, total + 1>(params, blocks);
  }
}

/// The second kernel. `blocks_of_group`: blocks of the first one that share rows.
template <typename Program, const RowShape& shape, int threads, int columns, int rows, int blocks_of_group>
__device__ __forceinline__ void program_sums_and_totals(const typename Program::Params& params) {
  await_last_kernel();
  finish_column_sums<WithoutTotals<Program>, shape, threads, columns, rows, 0>(params);
  if (block_index() == 0) finish_totals<Program, shape, threads, 0>(params, params.row.groups * blocks_of_group);
}

}  // namespace tunesmith
