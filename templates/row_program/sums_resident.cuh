// A row program with column sums (row_program/column_sums.cuh) in one read and one write: each cooperative group of a
// persistent grid computes one row after another, as in row_program/resident.cuh, and adds the values to sum in registers.
#pragma once

#include "row_program/column_sums.cuh"
#include "row_program/resident.cuh"

namespace tunesmith {

template <typename Program, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage>
__device__ __forceinline__ void row_program_sums_resident(const typename Program::Params& params) {
  using Inputs = typename ResidentInputsOf<typename Program::Inputs, shape, config, Group, Storage>::type;
  constexpr int vectors = config.register_vectors + config.shared_vectors;
  constexpr int rows_at_once = Group::group_size < Group::threads ? Group::threads / Group::group_size : 1;

  Group group(PartialSums<shape>::end(params.row, Program::sums), params.row.groups);
  const int thread_rank = group.thread_rank();
  const int64 first_row = group.first_row(), of_block = first_row % rows_at_once, number = first_row / rows_at_once;
  Inputs inputs(config.shared_vectors > 0 ? dynamic_shared() : nullptr);
  RegisterSums<Program, shape, vectors, Group> sums;
  sums.clear();
  int added = 0;
  bool first_row_of_group = true, first_partial = true;
  // All threads of a block make the same number of steps: groups of lanes without a row repeat the last one.
  for (int64 begin = first_row - of_block; begin < params.row.rows; begin += params.row.groups * rows_at_once) {
    const bool exists = begin + of_block < params.row.rows;
    program_of_row<Program, shape, config>(group, params, exists ? begin + of_block : params.row.rows - 1, exists,
                                           first_row_of_group, inputs, sums);
    first_row_of_group = false;
    // The next row's partial results use the same shared memory.
    if constexpr (Group::group_size > 32) sync_block();
    if (++added == rows_of_partial || begin + params.row.groups * rows_at_once >= params.row.rows) {
      sums.flush(params, number, thread_rank, first_partial);
      sums.clear();
      added = 0;
      first_partial = false;
    }
  }
}

}  // namespace tunesmith
