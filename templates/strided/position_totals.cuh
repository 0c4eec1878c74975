// strided/position_sums.cuh for programs with sums over all rows, positions and columns. A thread keeps its own in
// registers.
#pragma once

#include "row/schedules/totals.cuh"
#include "strided/position_sums.cuh"

namespace tunesmith {

template <typename Program, const RowShape& shape, const StridedConfig& config>
struct PositionSums<WithTotals<Program>, shape, config> {
  static constexpr bool has_columns = Program::sums > Program::totals;
  PositionSums<WithoutTotals<Program>, shape, config> columns;
  ThreadTotals<Program, shape> totals;

  template <typename Rows, int count, int vector>
  __device__ __forceinline__ void include(const Rows& rows, int i, int64 column,
                                          const Number<shape> (&results)[count][vector]) {
    if constexpr (has_columns) columns.include(rows, i, column, results);
    totals.template include<vector>(results, [&](int) { return rows.strided.holds(column); });
  }
  template <typename Rows>
  __device__ __forceinline__ void store(const Rows& rows, int64 first) const {
    if constexpr (has_columns) columns.store(rows, first);
  }
  /// After all columns of the block. All threads of the block.
  template <typename Rows>
  __device__ __forceinline__ void finish(const Rows& rows) const {
    // A folded grid has surplus blocks.
    if (rows.strided.tile < rows.params.row.groups)
      totals.template store<config.threads>(rows.params.row, rows.params.row.groups * config.blocks_per_row);
  }
};

}  // namespace tunesmith
