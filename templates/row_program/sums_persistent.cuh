// A row program with column sums (row_program/column_sums.cuh) as in row_program/persistent.cuh: each thread adds the values
// of its columns in registers.
#pragma once

#include "row_program/column_sums.cuh"
#include "row_program/persistent.cuh"

namespace tunesmith {

template <typename Program, const RowShape& shape, const PersistentConfig& config, typename Group>
__device__ __forceinline__ void row_program_sums_persistent(const typename Program::Params& params) {
  Group group;
  const int64 number = group.first_row();
  RegisterSums<Program, shape, config.vectors, Group> sums;
  sums.clear();
  int added = 0;
  bool first_partial = true;
  over_batches<Program, shape, config>(params, group, sums, [&](bool is_last) {
    added += config.rows_at_once;
    if (!is_last && added < rows_of_partial) return;
    sums.flush(params, number, group.thread_rank(), first_partial);
    sums.clear();
    added = 0;
    first_partial = false;
  });
}

}  // namespace tunesmith
