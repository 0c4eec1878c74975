// row_program/strided_sums.cuh for programs with sums over all rows, positions and columns. A thread keeps its own in
// registers.
#pragma once

#include "row_program/strided_sums.cuh"
#include "row_program/totals.cuh"

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

template <typename Program, const RowShape& shape, const StridedConfig& config, typename Sums>
__device__ __forceinline__ void row_program_strided_totals_resident(const typename Program::Params& params) {
  using Rows = StridedRows<Program, shape, config>;
  Rows rows(params);
  ResidentColumns<Program, shape, config> columns;
  columns.first = rows.strided.begin + rows.strided.member;
  columns.tile.template load<Program, ~0u, config.load>(params, rows, columns.first);
  rows.template reduce<1>(columns);
  rows.store_rows();
  Sums sums;
  rows.finish(columns.tile, columns.first, sums);
  sums.finish(rows);
}

/// Reads the columns of a block once more and stores the outputs that depend on them.
template <typename Program, const RowShape& shape, const StridedConfig& config, typename Sums>
__device__ __forceinline__ void finish_columns_and_totals(const StridedRows<Program, shape, config>& rows) {
  using Rows = StridedRows<Program, shape, config>;
  rows.store_rows();
  Sums sums;
  over_column_tiles<shape, config>(rows.strided, [&](int64 first) {
    constexpr unsigned used = Program::template uses<Program::stages + 1>().inputs;
    typename Rows::Tile tile;
    tile.template load<Program, used, config.load_again>(rows.params, rows, first);
    rows.finish(tile, first, sums);
  });
  sums.finish(rows);  // also of a block without columns
}

template <typename Program, const RowShape& shape, const StridedConfig& config, typename Sums>
__device__ __forceinline__ void row_program_strided_totals_two_pass(const typename Program::Params& params) {
  StridedRows<Program, shape, config> rows(params);
  ReadColumns<Program, shape, config> columns;
  rows.template reduce<1>(columns);
  finish_columns_and_totals<Program, shape, config, Sums>(rows);
}

template <typename Program, const RowShape& shape, const StridedConfig& config, typename Sums>
__device__ __forceinline__ void row_program_strided_totals_split(const typename Program::Params& params) {
  StridedRows<Program, shape, config> rows(params);
  StoredPartials<Program, shape, config> stored;
  rows.template reduce<1>(stored);
  finish_columns_and_totals<Program, shape, config, Sums>(rows);
}

}  // namespace tunesmith
