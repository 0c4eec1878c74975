// A row program in one read and one write by a persistent grid. A block or cluster computes batches of rows one after
// another, each thread the same columns of each row, while the next batches are copied to shared memory asynchronously.
//
//   loads     always in flight, because a batch is requested as soon as its place in shared memory is free;
//   batches   the rows of a batch share each exchange between threads, which bounds rows that are spread over a cluster;
//   columns   arrays [col] are read once, into shared memory, if there is room for them.
//
// With column sums (row/schedules/column_sums.cuh), each thread adds the values of its columns in registers.
#pragma once

#include "row/schedules/column_sums.cuh"
#include "row/schedules/persistent_group.cuh"
#include "row/schedules/persistent_inputs.cuh"

namespace tunesmith {

/// Computes batches of rows. `first`: of a batch; rows from `end` on are computed from whatever shared memory holds, and
/// ignored.
template <typename Program, const RowShape& shape, const PersistentConfig& config, typename Group>
struct PersistentRows {
  using Params = typename Program::Params;
  using Inputs = typename StagedInputsOf<typename Program::Inputs, shape, config, Group>::type;
  using Kept = typename KeptColumnsOf<typename Program::ColumnArrays, shape, config, Group>::type;
  static constexpr int vectors = config.vectors, rows = config.rows_at_once;

  const Params& params;
  const int thread_rank;
  unsigned char* const memory;
  const Kept kept;

  __device__ __forceinline__ PersistentRows(const Params& all_params, const Group& group)
      : params(all_params),
        thread_rank(group.thread_rank()),
        memory(dynamic_shared()),
        kept(dynamic_shared() + config.batches * rows * Inputs::bytes) {
    if constexpr (config.keeps_columns) kept.template fill<Program>(params, row(0), thread_rank);
  }

  __device__ __forceinline__ Row<shape> row(int64 index) const {
    return Row<shape>(params.row, index, static_cast<const typename Program::First*>(nullptr));
  }
  __device__ __forceinline__ Inputs inputs(int batch, int r) const {
    return Inputs(memory + (batch * rows + r) * Inputs::bytes);
  }

  /// Requests the rows of a batch.
  __device__ __forceinline__ void request(int64 first, int64 end, int batch) const {
#pragma unroll
    for (int r = 0; r < rows; ++r)
      if (first + r < end) inputs(batch, r).template request<Program>(params, row(first + r), thread_rank);
    async_copy_commit();
  }
  /// Waits for a batch after which `config.batches - 1` batches have been requested.
  __device__ __forceinline__ void arrived() const { async_copy_wait<config.batches - 1>(); }

  /// Loads what a pass reads of arrays [col].
  template <unsigned used, typename Vector>
  __device__ __forceinline__ void load_columns(const Row<shape>& of, int i, Vector& v) const {
    if constexpr (config.keeps_columns)
      kept.template get<used>(i, v);
    else
      load_columns_from<Program, used, 0>(params, of, column(i), inside(i), v, typename Program::ColumnArrays());
  }
  __device__ __forceinline__ int64 column(int i) const { return column_of<shape, Group::group_size>(i, thread_rank); }
  static __device__ __forceinline__ constexpr bool inside(int i) { return inside_row<shape, Group::group_size>(i); }

  /// Computes the reductions of `stage` and of those after it.
  template <int stage>
  __device__ __forceinline__ void reduce(Group& group, int64 first, int64 end, int batch,
                                         typename Program::Values (&values)[rows]) const {
    if constexpr (stage <= Program::stages) {
      using All = typename Program::template RowReductions<stage>;
      OfRows<typename All::Value, rows> partial;
#pragma unroll
      for (int r = 0; r < rows; ++r) partial.row[r] = All::identity();
      if constexpr (All::floats > 0) {
        constexpr PassUses uses = Program::template uses<stage>();
#pragma unroll
        for (int i = 0; i < vectors; ++i) {
#pragma unroll
          for (int r = 0; r < rows; ++r) {
            const Row<shape> of = row(existing(first + r, end));
            const Inputs staged = inputs(batch, r);
            VectorOf<Program, shape> v;
            staged.template get<uses.inputs>(i, v);
            load_columns<uses.columns>(of, i, v);
            include_vector<Program, stage, shape>(params, of, values[r], column(i), inside(i), v, partial.row[r]);
            if constexpr (stage == Program::stages && Program::kept > 0)
              if (Inputs::can_keep(Program::kept)) staged.keep(i, Program::kept, v);
          }
        }
      }
      if constexpr (Program::template uses<stage>().gathers > 0) {
#pragma unroll
        for (int r = 0; r < rows; ++r) gather<Program, stage, shape>(params, row(existing(first + r, end)), values[r]);
      }
      if constexpr (All::floats > 0) {
#pragma unroll
        for (int r = 0; r < rows; ++r) All::settle_all(partial.row[r]);
        partial = group.reduce_rows(partial, All());
      }
#pragma unroll
      for (int r = 0; r < rows; ++r)
        Program::derive(OfStage<stage>(), params, existing(first + r, end), partial.row[r], values[r]);
      reduce<stage + 1>(group, first, end, batch, values);
    }
  }

  /// Computes a batch and stores its outputs.
  template <typename Sums>
  __device__ __forceinline__ void compute(Group& group, int64 first, int64 end, int batch, Sums& sums) const {
    typename Program::Values values[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) Program::derive(OfStage<0>(), params, existing(first + r, end), values[r]);
    reduce<1>(group, first, end, batch, values);
#pragma unroll
    for (int r = 0; r < rows; ++r)
      if (first + r < end && thread_rank == 0) Program::store_row(params, first + r, values[r]);
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const Row<shape> of = row(existing(first + r, end));
        constexpr bool of_kept = Program::kept > 0 && Inputs::can_keep(Program::kept);
        constexpr PassUses uses = Program::template uses<Program::stages + (of_kept ? 2 : 1)>();
        VectorOf<Program, shape> v;
        inputs(batch, r).template get<uses.inputs>(i, v);
        load_columns<uses.columns>(of, i, v);
        finish_vector<Program, of_kept, shape, config.store>(params, of, values[r], column(i), inside(i), first + r < end, i,
                                                             v, sums);
      }
    }
  }

 private:
  static __device__ __forceinline__ int64 existing(int64 index, int64 end) { return index < end ? index : end - 1; }
};

/// Computes all rows of the group and calls after_batch(is_last) after each batch.
template <typename Program, const RowShape& shape, const PersistentConfig& config, typename Group, typename Sums,
          typename AfterBatch>
__device__ __forceinline__ void over_batches(const typename Program::Params& params, Group& group, Sums& sums,
                                             const AfterBatch& after_batch) {
  constexpr int rows = config.rows_at_once, batches = config.batches;
  const int64 all = params.row.rows, groups = params.row.groups;
  if (group.first_row() >= groups) return;  // a folded grid has surplus blocks
  const int64 begin = all * group.first_row() / groups, end = all * (group.first_row() + 1) / groups;
  const PersistentRows<Program, shape, config, Group> work(params, group);
#pragma unroll
  for (int batch = 0; batch + 1 < batches; ++batch) work.request(begin + batch * rows, end, batch);
  group.start();
  int current = 0;
  for (int64 first = begin; first < end; first += rows) {
    work.request(first + (batches - 1) * rows, end, current == 0 ? batches - 1 : current - 1);
    work.arrived();
    work.compute(group, first, end, current, sums);
    current = current + 1 == batches ? 0 : current + 1;
    after_batch(first + rows >= end);
  }
}

template <typename Program, const RowShape& shape, const PersistentConfig& config, typename Group>
__device__ __forceinline__ void program_persistent(const typename Program::Params& params) {
  Group group;
  NoColumnSums sums;
  over_batches<Program, shape, config>(params, group, sums, [](bool) {});
}

template <typename Program, const RowShape& shape, const PersistentConfig& config, typename Group>
__device__ __forceinline__ void program_sums_persistent(const typename Program::Params& params) {
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
