// A row program in one read and one write: a cooperative group keeps the inputs of a row in registers and shared memory and
// computes the program stage by stage. The group is part of a warp, a block, a cluster, or several blocks of a cooperative
// grid. Each stage costs one exchange between its threads, whatever the number of its reductions.
//
// With column sums (row/schedules/column_sums.cuh), each group of a persistent grid computes one row after another and adds
// the values to sum in registers.
#pragma once

#include "row/gather.cuh"
#include "row/schedules/column_sums.cuh"
#include "row/schedules/resident_inputs.cuh"

namespace tunesmith {

/// Computes the reductions of `stage` and of those after it.
template <typename Program, int stage, const RowShape& shape, const ResidentConfig& config, typename Group, typename Inputs>
__device__ __forceinline__ void reduce_resident(Group& group, const typename Program::Params& params, const Row<shape>& row,
                                                Inputs& inputs, bool& arrived, typename Program::Values& values) {
  if constexpr (stage <= Program::stages) {
    using All = typename Program::template RowReductions<stage>;
    if constexpr (All::floats > 0) {
      const int thread_rank = group.thread_rank();
      typename All::Value partial = All::identity();
      constexpr int maximum_of = shape.vector > 1 ? Program::template uses<stage>().maximum_of : -1;
      constexpr bool packed = maximum_of >= 0;
      auto largest = inputs.template maximum<maximum_of>();
#pragma unroll
      for (int i = 0; i < config.register_vectors + config.shared_vectors; ++i) {
        if (row_ends<shape, config, Group::group_size, (shape.min_cols > 0 && config.shared_vectors == 0)>(row.all.end, i))
          break;
        if (i == config.register_vectors && !arrived) inputs.arrived();
        const int64 column = column_of<shape, Group::group_size>(i, thread_rank);
        const bool inside = inside_row<shape, Group::group_size>(i);
        if constexpr (packed) {
          if (inside || row.all.template holds<shape.vector>(column)) {
            largest.include(inputs.template packed_at<maximum_of>(i));
            continue;
          }
        }
        VectorOf<Program, shape> v;
        inputs.template get<Program::template uses<stage>().inputs>(i, v);
        load_columns<Program, stage>(params, row, column, inside, v);
        include_vector<Program, stage, shape>(params, row_of_vector<shape, Group::group_size>(row, i), values, column,
                                              inside, v, partial);
        if constexpr (stage == Program::stages && Program::kept > 0)
          if (Inputs::can_keep(i, Program::kept)) inputs.keep(i, Program::kept, v);
      }
      arrived = true;
      if constexpr (packed) partial.value[0] = maximum_or_nan(partial.value[0], largest.value());
      gather<Program, stage, shape>(params, row, values);
      All::settle_all(partial);
      partial = group.template reduce<stage - 1>(partial, All());
      Program::derive(OfStage<stage>(), params, row.index, partial, values);
    } else {
      gather<Program, stage, shape>(params, row, values);
      Program::derive(OfStage<stage>(), params, row.index, typename All::Value(), values);
    }
    reduce_resident<Program, stage + 1, shape, config>(group, params, row, inputs, arrived, values);
  }
}

/// Computes a row and stores its outputs. `exists`: it may be stored. `first`: the group has had no row before.
template <typename Program, const RowShape& shape, const ResidentConfig& config, typename Group, typename Inputs,
          typename Sums>
__device__ __forceinline__ void program_of_row(Group& group, const typename Program::Params& params, int64 index,
                                               bool exists, bool first, Inputs& inputs, Sums& sums) {
  const int thread_rank = group.thread_rank();
  const Row<shape> row(params.row, index, static_cast<const typename Program::First*>(nullptr));
  inputs.template load<Program>(params, row, thread_rank);
  if (first) group.start();
  inputs.template prefetch<Program>(params, RowFeatures<shape>::Prefetch::of(group, params.row, index));

  typename Program::Values values;
  bool arrived = false;
  Program::derive(OfStage<0>(), params, index, values);
  reduce_resident<Program, 1, shape, config>(group, params, row, inputs, arrived, values);

  if (exists && thread_rank == 0) Program::store_row(params, index, values);
#pragma unroll
  for (int i = 0; i < config.register_vectors + config.shared_vectors; ++i) {
    if (row_ends<shape, config, Group::group_size, (shape.min_cols > 0 && config.shared_vectors == 0)>(row.all.end, i))
      break;
    if (i == config.register_vectors && !arrived) inputs.arrived();
    const int64 column = column_of<shape, Group::group_size>(i, thread_rank);
    const bool inside = inside_row<shape, Group::group_size>(i);
    const Row<shape> here = row_of_vector<shape, Group::group_size>(row, i);
    VectorOf<Program, shape> v;
    if constexpr (Program::kept > 0) {
      if (Inputs::can_keep(i, Program::kept)) {
        inputs.template get<Program::template uses<Program::stages + 2>().inputs>(i, v);
        load_columns<Program, Program::stages + 2>(params, here, column, inside, v);
        finish_vector<Program, true, shape, config.store>(params, here, values, column, inside, exists, i, v, sums);
        continue;
      }
    }
    inputs.template get<Program::template uses<Program::stages + 1>().inputs>(i, v);
    load_columns<Program, Program::stages + 1>(params, here, column, inside, v);
    finish_vector<Program, false, shape, config.store>(params, here, values, column, inside, exists, i, v, sums);
  }
}

/// `Storage`: where the rows reside.
template <typename Program, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage>
__device__ __forceinline__ void program_resident(const typename Program::Params& params) {
  using Inputs = typename ResidentInputsOf<typename Program::Inputs, shape, config, Group, Storage>::type;

  Group group(params.row.workspace, params.row.groups);
  Inputs inputs(config.shared_vectors > 0 ? dynamic_shared() : nullptr);
  NoColumnSums sums;
  over_rows(group, params.row.rows, [&](int64 index, bool exists) {
    program_of_row<Program, shape, config>(group, params, index, exists, true, inputs, sums);
  });
}

template <typename Program, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage>
__device__ __forceinline__ void program_sums_resident(const typename Program::Params& params) {
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
