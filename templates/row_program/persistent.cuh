// A row program in one read and one write by a persistent grid. A block or cluster computes batches of rows one after
// another, each thread the same columns of each row, while the next batches are copied to shared memory asynchronously.
//
//   loads     always in flight, because a batch is requested as soon as its place in shared memory is free;
//   batches   the rows of a batch share each exchange between threads, which bounds rows that are spread over a cluster;
//   columns   arrays [col] are read once, into shared memory, if there is room for them.
//
// A thread reads only what it has copied itself, so the ring of batches needs no barrier.
#pragma once

#include "row/hybrid_row.cuh"
#include "row_program/program.cuh"

namespace tunesmith {

struct Persistence {
  int batches;         ///< batches in shared memory: the current one and those that are being loaded
  int rows_at_once;    ///< rows of a batch
  bool keeps_columns;  ///< arrays [col] stay in shared memory
};

/// A value for each row of a batch.
template <typename Value, int rows>
struct OfRows {
  Value row[rows];
};
template <int count>
__device__ __forceinline__ Floats<count> shuffle(Floats<count> floats, int source) {
#pragma unroll
  for (int i = 0; i < count; ++i) floats.value[i] = shuffle(floats.value[i], source);
  return floats;
}

/// `blocks` blocks of a cluster, or a single block. All threads of the group get the same results.
template <int block_threads, int blocks>
struct PersistentGroup {
  static constexpr int group_size = block_threads * blocks;
  static constexpr int threads = block_threads;
  static constexpr int warps = block_threads / 32;
  static constexpr int parts = warps * blocks;  ///< warps of the group

  int turn = 0;

  __device__ __forceinline__ PersistentGroup() {
    if constexpr (blocks > 1) cluster_arrive();
  }
  /// Called before the first reduce(): no block may access the shared memory of a block that has not started.
  __device__ __forceinline__ void start() const {
    if constexpr (blocks > 1) cluster_wait();
  }
  __device__ __forceinline__ int thread_rank() const {
    if constexpr (blocks > 1) return cluster_rank() * block_threads + thread_index();
    return thread_index();
  }
  __device__ __forceinline__ int64 index() const { return block_index() / blocks; }

  /// Reduces a value for each row of a batch, with one barrier. `lanes` neighbouring lanes take a row: each exchange within
  /// a warp reduces several rows at once. Every warp sends its partial results to all blocks and combines those of all warps.
  template <typename Reduction, typename Value, int rows>
  __device__ __forceinline__ OfRows<Value, rows> reduce(OfRows<Value, rows> values, Reduction reduction) {
    constexpr int lanes = 32 / rows;
    split_rows<rows, 16>(values.row, reduction);
    Value value = reduce_lanes<lanes>(values.row[0], reduction);
    if constexpr (parts > 1) {
      // Double-buffered: a warp that is one reduction ahead must not overwrite what a slower one has yet to read.
      TUNESMITH_SHARED(Value, partials, 2 * rows * parts);
      const int lane = lane_index() % lanes;
      Value* const set = partials + (turn * rows + lane_index() / lanes) * parts;
      turn ^= 1;
      if constexpr (blocks > 1) {
#pragma unroll
        for (int block = 0; block < blocks; block += lanes)
          if (block + lane < blocks) *shared_of_rank(&set[cluster_rank() * warps + warp_index()], block + lane) = value;
        sync_cluster();
      } else {
        if (lane == 0) set[warp_index()] = value;
        sync_block();
      }
      value = lane < parts ? set[lane] : Reduction::identity();
#pragma unroll
      for (int i = lanes; i < parts; i += lanes)
        if (i + lane < parts) value = reduction(value, set[i + lane]);
      value = reduce_lanes<lanes>(value, reduction);
    }
#pragma unroll
    for (int r = 0; r < rows; ++r) values.row[r] = rows == 1 ? value : shuffle(value, r * lanes);
    return values;
  }

 private:
  /// Lanes with bit `distance` keep the upper half of the rows, the others the lower half; value 0 becomes the lane's own.
  template <int rows, int distance, typename Value, typename Reduction>
  static __device__ __forceinline__ void split_rows(Value* values, Reduction reduction) {
    if constexpr (rows > 1) {
      constexpr int half = rows / 2;
      const bool upper = (lane_index() & distance) != 0;
#pragma unroll
      for (int r = 0; r < half; ++r) {
        const Value sent = upper ? values[r] : values[half + r], kept = upper ? values[half + r] : values[r];
        values[r] = reduction(kept, shuffle_xor(sent, distance));
      }
      split_rows<half, distance / 2>(values, reduction);
    }
  }
};

/// Arrays [col] in shared memory, each thread its own columns. `index`: of the first array.
template <int index, const RowShape& shape, const ResidentConfig& config, typename Group, typename... Arrays>
struct KeptColumns {
  static constexpr int bytes = 0;
  __device__ __forceinline__ explicit KeptColumns(unsigned char*) {}
  template <typename Program>
  __device__ __forceinline__ void fill(const typename Program::Params&, const Row<shape>&, int) const {}
  template <unsigned used, typename Vector>
  __device__ __forceinline__ void get(int, Vector&) const {}
};
template <int index, const RowShape& shape, const ResidentConfig& config, typename Group, typename Element, int count,
          typename... Rest>
struct KeptColumns<index, shape, config, Group, Columns<Element, count>, Rest...> {
  using Stored = typename If<sizeof(Element) == 1, float, Element>::type;
  using Place = Packed<Stored, shape.vector>;
  using Access = Bits<Place::access_bytes>;
  static constexpr int bytes = config.shared_vectors * Group::threads * Place::bytes;

  Access* places;  // this thread's first access; those of neighbouring threads are adjacent
  KeptColumns<index + 1, shape, config, Group, Rest...> rest;

  __device__ __forceinline__ explicit KeptColumns(unsigned char* memory)
      : places(reinterpret_cast<Access*>(memory) + thread_index()), rest(memory + bytes) {}

  template <typename Program>
  __device__ __forceinline__ void fill(const typename Program::Params& params, const Row<shape>& row, int thread_rank) const {
#pragma unroll
    for (int i = 0; i < config.shared_vectors; ++i) {
      float values[shape.vector];
      Columns<Element, count>::template load<shape>(Program::template column_array<index>(params), row,
                                                    column_of<shape, Group::group_size>(i, thread_rank),
                                                    inside_row<shape, Group::group_size>(i), values);
      Place packed;
      packed.pack_from(values);
#pragma unroll
      for (int k = 0; k < Place::accesses; ++k) places[(i * Place::accesses + k) * Group::threads] = packed.access[k];
    }
    rest.template fill<Program>(params, row, thread_rank);
  }
  template <unsigned used, typename Vector>
  __device__ __forceinline__ void get(int i, Vector& v) const {
    if constexpr ((used >> index & 1u) != 0) {
      Place packed;
#pragma unroll
      for (int k = 0; k < Place::accesses; ++k) packed.access[k] = places[(i * Place::accesses + k) * Group::threads];
      packed.unpack(v.of_column[index]);
    }
    rest.template get<used>(i, v);
  }
};
template <typename Arrays, const RowShape& shape, const ResidentConfig& config, typename Group>
struct KeptColumnsOf;
template <typename... Arrays, const RowShape& shape, const ResidentConfig& config, typename Group>
struct KeptColumnsOf<ColumnList<Arrays...>, shape, config, Group> {
  using type = KeptColumns<0, shape, config, Group, Arrays...>;
};

/// Computes batches of rows. `first`: of a batch; rows from `end` on are computed from whatever shared memory holds, and
/// ignored.
template <typename Program, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage,
          const Persistence& persistence>
struct PersistentRows {
  using Params = typename Program::Params;
  using Inputs = typename ResidentInputsOf<typename Program::Inputs, shape, config, Group, Storage>::type;
  using Kept = typename KeptColumnsOf<typename Program::ColumnArrays, shape, config, Group>::type;
  static constexpr int vectors = config.shared_vectors, rows = persistence.rows_at_once;
  static constexpr int copies_of_batch = rows * Program::Inputs::count;  ///< groups of asynchronous copies

  const Params& params;
  const int thread_rank;
  unsigned char* const memory;
  const Kept kept;

  __device__ __forceinline__ PersistentRows(const Params& all_params, const Group& group)
      : params(all_params),
        thread_rank(group.thread_rank()),
        memory(dynamic_shared()),
        kept(dynamic_shared() + persistence.batches * rows * Inputs::shared_bytes) {
    if constexpr (persistence.keeps_columns) kept.template fill<Program>(params, row(0), thread_rank);
  }

  __device__ __forceinline__ Row<shape> row(int64 index) const {
    return Row<shape>(params.row, index, static_cast<const typename Program::First*>(nullptr));
  }
  __device__ __forceinline__ Inputs inputs(int batch, int r) const {
    return Inputs(memory + (batch * rows + r) * Inputs::shared_bytes);
  }

  /// Requests the rows of a batch; each batch has the same number of groups of copies.
  __device__ __forceinline__ void load(int64 first, int64 end, int batch) const {
#pragma unroll
    for (int r = 0; r < rows; ++r) {
      if (first + r < end) {
        inputs(batch, r).template load<Program>(params, row(first + r), thread_rank);
      } else {
#pragma unroll
        for (int i = 0; i < Program::Inputs::count; ++i) async_copy_commit();
      }
    }
  }
  /// Waits for a batch after which `persistence.batches - 1` batches have been requested.
  __device__ __forceinline__ void arrived() const { async_copy_wait<(persistence.batches - 1) * copies_of_batch>(); }

  /// Loads what a pass reads of arrays [col].
  template <unsigned used, typename Vector>
  __device__ __forceinline__ void load_columns(const Row<shape>& of, int i, Vector& v) const {
    if constexpr (persistence.keeps_columns)
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
            Inputs resident = inputs(batch, r);
            VectorOf<Program, shape> v;
            resident.template get<uses.inputs>(i, v);
            load_columns<uses.columns>(of, i, v);
            include_vector<Program, stage, shape>(params, of, values[r], column(i), inside(i), v, partial.row[r]);
            if constexpr (stage == Program::stages && Program::kept > 0)
              if (Inputs::can_keep(i, Program::kept)) resident.keep(i, Program::kept, v);
          }
        }
        partial = group.reduce(partial, All());
      }
#pragma unroll
      for (int r = 0; r < rows; ++r)
        Program::derive(Stage<stage>(), params, existing(first + r, end), partial.row[r], values[r]);
      reduce<stage + 1>(group, first, end, batch, values);
    }
  }

  /// Computes a batch and stores its outputs.
  template <typename Sums>
  __device__ __forceinline__ void compute(Group& group, int64 first, int64 end, int batch, Sums& sums) const {
    typename Program::Values values[rows];
#pragma unroll
    for (int r = 0; r < rows; ++r) Program::derive(Stage<0>(), params, existing(first + r, end), values[r]);
    reduce<1>(group, first, end, batch, values);
#pragma unroll
    for (int r = 0; r < rows; ++r)
      if (first + r < end && thread_rank == 0) Program::store_row(params, first + r, values[r]);
#pragma unroll
    for (int i = 0; i < vectors; ++i) {
#pragma unroll
      for (int r = 0; r < rows; ++r) {
        const bool exists = first + r < end;
        const Row<shape> of = row(existing(first + r, end));
        Inputs resident = inputs(batch, r);
        constexpr bool of_kept = Program::kept > 0 && Inputs::can_keep(0, Program::kept);
        constexpr PassUses uses = Program::template uses<Program::stages + (of_kept ? 2 : 1)>();
        VectorOf<Program, shape> v;
        resident.template get<uses.inputs>(i, v);
        load_columns<uses.columns>(of, i, v);
        finish_vector<Program, of_kept, shape, config.store>(params, of, values[r], column(i), inside(i), exists, i, v, sums);
      }
    }
  }

 private:
  static __device__ __forceinline__ int64 existing(int64 index, int64 end) { return index < end ? index : end - 1; }
};

/// Computes all rows of the group and calls after_batch(is_last) after each batch.
template <typename Program, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage,
          const Persistence& persistence, typename Sums, typename AfterBatch>
__device__ __forceinline__ void over_batches(const typename Program::Params& params, Group& group, Sums& sums,
                                             const AfterBatch& after_batch) {
  constexpr int rows = persistence.rows_at_once, batches = persistence.batches;
  const int64 all = params.row.rows, groups = params.row.groups;
  if (group.index() >= groups) return;  // a folded grid has surplus blocks
  const int64 begin = all * group.index() / groups, end = all * (group.index() + 1) / groups;
  const PersistentRows<Program, shape, config, Group, Storage, persistence> work(params, group);
#pragma unroll
  for (int batch = 0; batch + 1 < batches; ++batch) work.load(begin + batch * rows, end, batch);
  group.start();
  int current = 0;
  for (int64 first = begin; first < end; first += rows) {
    const int last = current == 0 ? batches - 1 : current - 1;
    work.load(first + (batches - 1) * rows, end, last);
    work.arrived();
    work.compute(group, first, end, current, sums);
    current = current + 1 == batches ? 0 : current + 1;
    after_batch(first + rows >= end);
  }
}

template <typename Program, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage,
          const Persistence& persistence>
__device__ __forceinline__ void row_program_persistent(const typename Program::Params& params) {
  Group group;
  NoColumnSums sums;
  over_batches<Program, shape, config, Group, Storage, persistence>(params, group, sums, [](bool) {});
}

}  // namespace tunesmith
