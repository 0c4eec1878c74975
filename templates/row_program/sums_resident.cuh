// A row program with column sums (row_program/column_sums.cuh) in one read and one write: each cooperative group of a
// persistent grid computes one row after another, as in row_program/resident.cuh, and adds the values to sum in registers.
// Blocks and larger groups load rows that stay in registers one ahead, so that memory is busy while a row is computed.
#pragma once

#include "row_program/column_sums.cuh"
#include "row_program/resident.cuh"

namespace tunesmith {

template <typename Program, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage>
__device__ __forceinline__ void row_program_sums_resident(const typename Program::Params& params) {
  using Inputs = typename ResidentInputsOf<typename Program::Inputs, shape, config, Group, Storage>::type;
  constexpr int vectors = config.register_vectors + config.shared_vectors;
  constexpr bool loads_ahead = config.shared_vectors == 0 && Group::group_size > 32;
  constexpr int rows_at_once = Group::group_size < Group::threads ? Group::threads / Group::group_size : 1;

  Group group(PartialSums<shape>::end(params.row, Program::sums), params.row.groups);
  const int thread_rank = group.thread_rank();
  const int64 first_row = group.first_row(), of_block = first_row % rows_at_once, number = first_row / rows_at_once;
  const int64 step = params.row.groups * rows_at_once;
  // Groups of lanes without a row repeat the last one.
  const auto row_at = [&](int64 index) {
    return Row<shape>(params.row, index < params.row.rows ? index : params.row.rows - 1,
                      static_cast<const typename Program::First*>(nullptr));
  };
  Inputs inputs(config.shared_vectors > 0 ? dynamic_shared() : nullptr), ahead(nullptr);
  RegisterSums<Program, shape, vectors, Group> sums;
  sums.clear();
  int added = 0;
  bool first = true;
  if (first_row - of_block < params.row.rows) inputs.template load<Program>(params, row_at(first_row), thread_rank);
  group.start();
  // All threads of a block make the same number of steps.
  for (int64 begin = first_row - of_block; begin < params.row.rows; begin += step) {
    const bool is_last = begin + step >= params.row.rows;
    if constexpr (loads_ahead)
      if (!is_last) ahead.template load<Program>(params, row_at(begin + step + of_block), thread_rank);
    program_of_row<Program, shape, config>(group, params, row_at(begin + of_block), begin + of_block < params.row.rows,
                                           inputs, sums);
    // The next row's partial results use the same shared memory.
    if constexpr (!Group::distant && Group::group_size > 32) sync_block();
    if (++added == rows_of_partial || is_last) {
      sums.flush(params, number, thread_rank, first);
      sums.clear();
      added = 0;
      first = false;
    }
    if constexpr (loads_ahead)
      inputs = ahead;
    else if (!is_last)
      inputs.template load<Program>(params, row_at(begin + step + of_block), thread_rank);
  }
}

}  // namespace tunesmith
