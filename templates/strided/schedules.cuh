// A row program over a dimension that is not the last (strided/strided.cuh): a row is the elements of all columns at one
// position of (rows, cols, inner).
//
// resident  one read and one write: the columns of a tile of positions stay in the registers of a block
// cluster   the same in the registers of a cluster of blocks, which exchange their partial results once for every stage
// two_pass  the columns are read once for every stage of reductions and once more for the outputs
// split     the same with several blocks per tile: a kernel for every stage writes partial results, the last one combines
// them
#pragma once

#include "row/gather.cuh"
#include "strided/strided.cuh"

namespace tunesmith {

/// An array (rows, cols, inner) of any strides: the address of its first element, and the elements from one row, column and
/// vector of positions to the next.
struct StridedArray {
  const void* first;
  int64 rows, cols, vectors;
};

/// A thread's vector of positions in each column of an array: in the first one, and the elements to the next.
template <typename Element>
struct VectorOfColumns {
  Element* first;
  int64 stride;
};

/// Columns of each input in registers: every members-th one. `index`: of the first input.
template <int index, const StridedConfig& config, typename... Elements>
struct StridedInputs {
  template <typename Program, unsigned used, LoadHint hint, typename Place>
  __device__ __forceinline__ void load(const typename Program::Params&, const Place&, int64) {}
  template <unsigned used, typename Number, int inputs>
  __device__ __forceinline__ void get(int, Number (&)[inputs][config.vector]) {}
};
template <int index, const StridedConfig& config, typename First, typename... Rest>
struct StridedInputs<index, config, First, Rest...> {
  Packed<First, config.vector> first[config.columns];
  StridedInputs<index + 1, config, Rest...> rest;

  /// `column`: the first one.
  template <typename Program, unsigned used, LoadHint hint, typename Place>
  __device__ __forceinline__ void load(const typename Program::Params& params, const Place& place, int64 column) {
    if constexpr ((used >> index & 1u) != 0) {
      const VectorOfColumns<const First> from = place.template at<const First>(Program::template input<index>(params));
#pragma unroll
      for (int i = 0; i < config.columns; ++i)
        first[i] = place.strided.template load<hint>(from.first, from.stride, column + i * members<config>, 0.0f);
    }
    rest.template load<Program, used, hint>(params, place, column);
  }
  template <unsigned used, typename Number, int inputs>
  __device__ __forceinline__ void get(int i, Number (&values)[inputs][config.vector]) {
    if constexpr ((used >> index & 1u) != 0) {
      if constexpr (sizeof(First) < 4) first[i].forget_uses();  // float32 elements would take more registers
      unpack_numbers(first[i], values[index]);
    }
    rest.template get<used>(i, values);
  }
};
template <typename Inputs, const StridedConfig& config>
struct StridedInputsOf;
template <typename... Elements, const StridedConfig& config>
struct StridedInputsOf<TypeList<Elements...>, config> {
  using type = StridedInputs<0, config, Elements...>;
};

/// The positions of one thread, and their values.
template <typename Program, const RowShape& shape, const StridedConfig& config>
struct StridedRows {
  using Params = typename Program::Params;
  using Tile = typename StridedInputsOf<typename Program::Inputs, config>::type;
  static constexpr int vector = config.vector;
  static constexpr int inputs = Program::Inputs::count > 0 ? Program::Inputs::count : 1;
  using Vector = RowVector<Program::Inputs::count, Program::ColumnArrays::count, 1, Number<shape>>;

  const Params& params;
  const StridedPlace<shape, config> strided;
  typename Program::Values values[vector];

  static __device__ __forceinline__ StridedParams positions(const Params& all) {
    StridedParams made{};
    made.vectors = all.vectors;
    made.vectors_per_row = all.vectors_per_row;
    return made;
  }
  __device__ __forceinline__ explicit StridedRows(const Params& all) : params(all), strided(positions(all)) {
#pragma unroll
    for (int j = 0; j < vector; ++j) Program::derive(OfStage<0>(), params, row(j), values[j]);
  }
  /// The row of position j: they are numbered over all rows of the arrays.
  __device__ __forceinline__ int64 row(int j) const { return strided.row * params.inner + strided.vector * vector + j; }
  template <typename Element>
  __device__ __forceinline__ VectorOfColumns<Element> at(RowsOfArray array) const {
    Element* const first = static_cast<Element*>(const_cast<void*>(array.first));
    return {first + strided.row * array.stride + strided.vector * vector, params.inner};
  }
  template <typename Element>
  __device__ __forceinline__ VectorOfColumns<Element> at(StridedArray array) const {
    Element* const first = static_cast<Element*>(const_cast<void*>(array.first));
    return {first + strided.row * array.rows + strided.vector * array.vectors, array.cols};
  }

  /// Loads what a pass reads of arrays [col] and returns the vector of one element, without the inputs.
  template <int pass>
  __device__ __forceinline__ Vector vector_at(int64 column) const {
    Vector v;
    v.column = column;
    constexpr PassUses uses = Program::template uses<pass>();
    load_column<Program, uses.columns, 0>(params, column < shape.cols ? column : shape.cols - 1, v,
                                          typename Program::ColumnArrays());
    return v;
  }
  __device__ __forceinline__ void set(Vector& v, const Number<shape> (&elements)[inputs][vector], int j) const {
    v.row = row(j);
#pragma unroll
    for (int k = 0; k < Program::Inputs::count; ++k) v.input[k][0] = elements[k][j];
  }

  /// Includes the columns of a tile in the reductions of a stage. `first`: its first column.
  template <int stage, typename Value>
  __device__ __forceinline__ void include(Tile& tile, int64 first, Value (&partial)[vector]) const {
    using All = typename Program::template RowReductions<stage>;
    const typename Program::Groups groups{};
#pragma unroll
    for (int i = 0; i < config.columns; ++i) {
      const int64 column = first + i * members<config>;
      Number<shape> elements[inputs][vector];
      tile.template get<Program::template uses<stage>().inputs>(i, elements);
      Vector v = vector_at<stage>(column);
#pragma unroll
      for (int j = 0; j < vector; ++j) {
        set(v, elements, j);
        Number<shape> terms[All::operands][1];
        Program::terms(OfStage<stage>(), params, values[j], groups, v, 0, terms);
        All::include(partial[j], terms, {0, strided.holds(column) ? 1 : 0, column});
      }
    }
  }
  /// Reduces the columns of this block in a stage; all members get the result. `tiles` includes them.
  template <int stage, typename Tiles, typename Value>
  __device__ __forceinline__ void reduce_block(Tiles& tiles, Value (&partial)[vector]) const {
    using All = typename Program::template RowReductions<stage>;
#pragma unroll
    for (int j = 0; j < vector; ++j) partial[j] = All::identity();
    tiles.template include<stage>(*this, partial);
    reduce_members<stage, config>(partial, All());
  }
  /// Combines the partial results of all blocks of a tile, stored as [blocks][vector][lanes].
  template <int stage, typename Value>
  __device__ __forceinline__ void combine_blocks(const Value* parts, Value (&whole)[vector]) const {
    using All = typename Program::template RowReductions<stage>;
#pragma unroll
    for (int j = 0; j < vector; ++j) whole[j] = All::identity();
    if (strided.exists) {
      for (int part = strided.member; part < config.blocks_per_row; part += members<config>) {
#pragma unroll
        for (int j = 0; j < vector; ++j)
          whole[j] = All()(whole[j], parts[(part * vector + j) * config.lanes + strided.lane]);
      }
    }
    reduce_members<stage, config>(whole, All());
  }
  /// Computes the reductions of `stage` and of those after it, up to `last`, with tiles.reduce().
  template <int stage, int last = Program::stages, typename Tiles>
  __device__ __forceinline__ void reduce(Tiles& tiles) {
    if constexpr (stage <= last) {
      using All = typename Program::template RowReductions<stage>;
      typename All::Value whole[vector];
      if constexpr (All::floats > 0) {
        tiles.template reduce<stage>(*this, whole);
        gather<stage>();
      } else {
#pragma unroll
        for (int j = 0; j < vector; ++j) whole[j] = All::identity();
      }
#pragma unroll
      for (int j = 0; j < vector; ++j) Program::derive(OfStage<stage>(), params, row(j), whole[j], values[j]);
      reduce<stage + 1, last>(tiles);
    }
  }

  /// Computes the sums of a stage that have one term.
  template <int stage>
  __device__ __forceinline__ void gather() {
    constexpr PassUses uses = Program::template uses<stage>();
    if constexpr (uses.gathers > 0) {
#pragma unroll
      for (int j = 0; j < vector; ++j)
        gather_from<Program, uses.first_gather, uses.first_gather + uses.gathers, Number<shape>>(
            params, ElementsOfPosition{*this, j}, row(j), shape.cols, values[j]);
    }
  }

  /// Stores the values of each row. Of the blocks that share columns, the first one does.
  __device__ __forceinline__ void store_rows() const {
    if (!strided.exists || strided.member != 0 || strided.part != 0) return;
#pragma unroll
    for (int j = 0; j < vector; ++j) Program::store_row(params, row(j), values[j]);
  }
  /// Computes and stores the outputs of a tile, and includes it in `sums`.
  template <typename Sums>
  __device__ __forceinline__ void finish(Tile& tile, int64 first, Sums& sums) const {
    constexpr int pass = Program::stages + 1, results_count = Program::Outputs::count + Program::sums,
                  count = results_count > 0 ? results_count : 1;
    const typename Program::Groups groups{};
#pragma unroll
    for (int i = 0; i < config.columns; ++i) {
      const int64 column = first + i * members<config>;
      Number<shape> elements[inputs][vector], all[count][vector];
      tile.template get<Program::template uses<pass>().inputs>(i, elements);
      Vector v = vector_at<pass>(column);
#pragma unroll
      for (int j = 0; j < vector; ++j) {
        set(v, elements, j);
        Number<shape> results[count][1];
        Program::outputs(params, values[j], groups, v, 0, results);
#pragma unroll
        for (int k = 0; k < results_count; ++k) all[k][j] = results[k][0];
      }
      store<0>(column, all, typename Program::Outputs());
      sums.include(*this, i, column, all);
    }
    sums.store(*this, first);
  }

 private:
  struct ElementsOfPosition {
    const StridedRows& rows;
    int j;
    template <int index, typename Element>
    __device__ __forceinline__ const Element* address_of(int64 column) const {
      const VectorOfColumns<const Element> from =
          rows.template at<const Element>(Program::template input<index>(rows.params));
      return from.first + column * from.stride + j;
    }
  };

  template <int index, int count>
  __device__ __forceinline__ void store(int64, const Number<shape> (&)[count][vector], TypeList<>) const {}
  template <int index, int count, typename First, typename... Rest>
  __device__ __forceinline__ void store(int64 column, const Number<shape> (&all)[count][vector],
                                        TypeList<First, Rest...>) const {
    const VectorOfColumns<First> to = at<First>(Program::template output<index>(params));
    if constexpr (is_same<Compute<First>, Number<shape>>) {
      strided.store(to.first, to.stride, column, all[index]);
    } else {
      Compute<First> elements[vector];
      make_storable<First>(all[index], elements);
      strided.store(to.first, to.stride, column, elements);
    }
    store<index + 1>(column, all, TypeList<Rest...>());
  }
};

/// For programs without sums over positions.
struct NoPositionSums {
  template <typename Rows, typename Results>
  __device__ __forceinline__ void include(const Rows&, int, int64, const Results&) const {}
  template <typename Rows>
  __device__ __forceinline__ void store(const Rows&, int64) const {}
  template <typename Rows>
  __device__ __forceinline__ void finish(const Rows&) const {}
};

/// All columns in registers, of a block or a cluster.
template <typename Program, const RowShape& shape, const StridedConfig& config>
struct ResidentColumns {
  using Rows = StridedRows<Program, shape, config>;
  typename Rows::Tile tile;
  int64 first;

  template <int stage, typename Value, int vector>
  __device__ __forceinline__ void include(const Rows& rows, Value (&partial)[vector]) {
    rows.template include<stage>(tile, first, partial);
  }
  template <int stage, typename Value, int vector>
  __device__ __forceinline__ void reduce(const Rows& rows, Value (&whole)[vector]) {
    // No block may access the shared memory of one that has not started, or that reads results of the last stage.
    start_cluster<config>();
    rows.template reduce_block<stage>(*this, whole);
#if TUNESMITH_SM >= 900
    if constexpr (config.blocks_per_row > 1)
      rows.template combine_blocks<stage>(exchange_in_cluster(rows.strided, whole), whole);
#endif
  }
};

/// `Sums`: of values over all positions.
template <typename Program, const RowShape& shape, const StridedConfig& config, typename Sums = NoPositionSums>
__device__ __forceinline__ void program_strided_resident(const typename Program::Params& params) {
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

/// Columns that each stage reads again.
template <typename Program, const RowShape& shape, const StridedConfig& config>
struct ReadColumns {
  using Rows = StridedRows<Program, shape, config>;

  template <int stage, typename Value, int vector>
  __device__ __forceinline__ void include(const Rows& rows, Value (&partial)[vector]) {
    over_column_tiles<shape, config>(rows.strided, [&](int64 first) {
      typename Rows::Tile tile;
      tile.template load<Program, Program::template uses<stage>().inputs, config.load>(rows.params, rows, first);
      rows.template include<stage>(tile, first, partial);
    });
  }
  template <int stage, typename Value, int vector>
  __device__ __forceinline__ void reduce(const Rows& rows, Value (&whole)[vector]) {
    rows.template reduce_block<stage>(*this, whole);
  }
};

/// Reads the columns of a block once more and stores the outputs that depend on them.
template <typename Program, const RowShape& shape, const StridedConfig& config, typename Sums>
__device__ __forceinline__ void finish_columns(const StridedRows<Program, shape, config>& rows) {
  using Rows = StridedRows<Program, shape, config>;
  rows.store_rows();
  Sums sums;
  if constexpr (Program::Outputs::count + Program::sums > 0)
    over_column_tiles<shape, config>(rows.strided, [&](int64 first) {
      constexpr unsigned used = Program::template uses<Program::stages + 1>().inputs;
      typename Rows::Tile tile;
      tile.template load<Program, used, config.load_again>(rows.params, rows, first);
      rows.finish(tile, first, sums);
    });
  sums.finish(rows);  // also of a block without columns
}

template <typename Program, const RowShape& shape, const StridedConfig& config, typename Sums = NoPositionSums>
__device__ __forceinline__ void program_strided_two_pass(const typename Program::Params& params) {
  StridedRows<Program, shape, config> rows(params);
  ReadColumns<Program, shape, config> columns;
  rows.template reduce<1>(columns);
  finish_columns<Program, shape, config, Sums>(rows);
}

/// Partial results of the blocks of all tiles in the workspace, after the sums of tiles: for each stage
/// [tiles][blocks_per_row][vector][lanes].
template <typename Program, const RowShape& shape, const StridedConfig& config>
struct StoredPartials {
  using Rows = StridedRows<Program, shape, config>;
  static constexpr int size = config.vector * config.lanes;

  /// Returns the partial results of the first block. A stage begins at a multiple of 16 bytes.
  template <int stage>
  static __device__ __forceinline__ auto* first(const typename Program::Params& params) {
    return reinterpret_cast<typename Program::template RowReductions<stage>::Value*>(
        static_cast<unsigned char*>(params.row.workspace) + bytes_before<stage>(params));
  }
  template <int stage, typename Value, int vector>
  __device__ __forceinline__ void reduce(const Rows& rows, Value (&whole)[vector]) {
    rows.template combine_blocks<stage>(first<stage>(rows.params) + rows.strided.tile * (config.blocks_per_row * size),
                                        whole);
  }

 private:
  template <int stage>
  static __device__ __forceinline__ int64 bytes_before(const typename Program::Params& params) {
    if constexpr (stage == 1) {
      // The sums of tiles (PartialSums) are before them.
      constexpr int64 padded_cols = (shape.cols + 31) / 32 * 32, pair_bytes = 2 * static_cast<int>(sizeof(Number<shape>));
      return Program::sums * params.row.groups * padded_cols * pair_bytes;
    } else {
      constexpr int floats = Program::template RowReductions<stage - 1>::floats;
      const int64 tiles = (params.vectors + config.lanes - 1) / config.lanes;
      const int64 bytes = tiles * (config.blocks_per_row * size) * (floats * static_cast<int>(sizeof(Number<shape>)));
      return bytes_before<stage - 1>(params) + (bytes + 15) / 16 * 16;
    }
  }
};

/// Writes the partial results of a stage, after the kernels of the stages before it.
template <typename Program, const RowShape& shape, const StridedConfig& config, int stage>
__device__ __forceinline__ void program_strided_split_sums(const typename Program::Params& params) {
  using Stored = StoredPartials<Program, shape, config>;
  StridedRows<Program, shape, config> rows(params);
  Stored stored;
  rows.template reduce<1, stage - 1>(stored);
  ReadColumns<Program, shape, config> columns;
  typename Program::template RowReductions<stage>::Value partial[config.vector];
  rows.template reduce_block<stage>(columns, partial);
  if (rows.strided.member != 0 || !rows.strided.exists) return;
  auto* const parts = Stored::template first<stage>(params) + block_index() * Stored::size;
#pragma unroll
  for (int j = 0; j < config.vector; ++j) parts[j * config.lanes + rows.strided.lane] = partial[j];
}

/// Combines the partial results and writes the outputs. Without an output of columns, one block per tile does that.
template <typename Program, const RowShape& shape, const StridedConfig& config, typename Sums = NoPositionSums>
__device__ __forceinline__ void program_strided_split(const typename Program::Params& params) {
  StridedRows<Program, shape, config> rows(params);
  if (Program::Outputs::count + Program::sums == 0 && rows.strided.part != 0) return;
  StoredPartials<Program, shape, config> stored;
  rows.template reduce<1>(stored);
  finish_columns<Program, shape, config, Sums>(rows);
}

}  // namespace tunesmith
