// row_program/sums_tiled.cuh for programs with sums over all rows and columns. A thread keeps its own in registers.
#pragma once

#include "row_program/sums_tiled.cuh"
#include "row_program/totals.cuh"

namespace tunesmith {

template <typename Program, const RowShape& shape>
struct TiledTotals {
  WorkspaceSums<WithoutTotals<Program>, shape> columns;
  ThreadTotals<Program, shape> totals;

  template <typename Results>
  __device__ __forceinline__ void include(const typename Program::Params& params, int64 column, int i,
                                          const Results& results, ElementsInside inside, bool exists) {
    columns.include(params, column, i, results, inside, exists);
    totals.template include<shape.vector>(results, [&](int j) { return inside.holds(j); });
  }
};

template <typename Program, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void row_program_totals_two_pass(const typename Program::Params& params) {
  TiledTotals<Program, shape> sums{{block_index(), true}};
  over_parts<shape, config>(params.row, [&](int64 index, int) {
    program_of_tiled_row<Program, shape, config>(params, index, sums);
    sums.columns.first = false;
  });
  // A folded grid has surplus blocks.
  if (block_index() < params.row.groups) sums.totals.template store<config.threads>(params.row, params.row.groups);
}

}  // namespace tunesmith
