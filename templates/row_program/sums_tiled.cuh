// A row program with column sums (row_program/column_sums.cuh) for rows that do not fit on chip: as in
// row_program/tiled.cuh; the sums are kept in the workspace.
#pragma once

#include "row_program/column_sums.cuh"
#include "row_program/tiled.cuh"

namespace tunesmith {

template <typename Program, const RowShape& shape, const TiledConfig& config>
__device__ __forceinline__ void row_program_sums_two_pass(const typename Program::Params& params) {
  WorkspaceSums<Program, shape> sums{block_index(), true};
  over_parts<shape, config>(params.row, [&](int64 index, int) {
    program_of_tiled_row<Program, shape, config>(params, index, sums);
    sums.first = false;
  });
}

}  // namespace tunesmith
