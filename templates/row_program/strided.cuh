// A row program over a dimension that is not the last (strided/strided.cuh): a row is the elements of all columns at one
// position of (rows, cols, inner).
//
// resident  one read and one write: the columns of a tile of positions stay in the registers of a block
// two_pass  the columns are read once for every stage of reductions and once more for the outputs
#pragma once

#include "row_program/program.cuh"
#include "strided/strided.cuh"

namespace tunesmith {

/// Columns of each input in registers: every members-th one. `index`: of the first input.
template <int index, const StridedConfig& config, typename... Elements>
struct StridedInputs {
  template <typename Program, unsigned used, LoadHint hint, typename Place>
  __device__ __forceinline__ void load(const typename Program::Params&, const Place&, int64) {}
  template <unsigned used, int inputs>
  __device__ __forceinline__ void get(int, float (&)[inputs][config.vector]) {}
};
template <int index, const StridedConfig& config, typename First, typename... Rest>
struct StridedInputs<index, config, First, Rest...> {
  Packed<First, config.vector> first[config.columns];
  StridedInputs<index + 1, config, Rest...> rest;

  /// `column`: the first one.
  template <typename Program, unsigned used, LoadHint hint, typename Place>
  __device__ __forceinline__ void load(const typename Program::Params& params, const Place& place, int64 column) {
    if constexpr ((used >> index & 1u) != 0) {
      const First* const base = place.template at<First>(Program::template input<index>(params));
#pragma unroll
      for (int i = 0; i < config.columns; ++i)
        first[i] = place.strided.template load<hint>(base, params.inner, column + i * members<config>, 0.0f);
    }
    rest.template load<Program, used, hint>(params, place, column);
  }
  template <unsigned used, int inputs>
  __device__ __forceinline__ void get(int i, float (&values)[inputs][config.vector]) {
    if constexpr ((used >> index & 1u) != 0) first[i].unpack(values[index]);
    rest.template get<used>(i, values);
  }
};
template <typename Inputs, const StridedConfig& config>
struct StridedInputsOf;
template <typename... Elements, const StridedConfig& config>
struct StridedInputsOf<TypeList<Elements...>, config> {
  using type = StridedInputs<0, config, Elements...>;
};

/// Loads what a pass reads of arrays [col] at one column.
template <typename Program, unsigned used, int index, typename Vector>
__device__ __forceinline__ void load_column(const typename Program::Params&, int64, Vector&, ColumnList<>) {}
template <typename Program, unsigned used, int index, typename Vector, typename Element, int count, typename... Rest>
__device__ __forceinline__ void load_column(const typename Program::Params& params, int64 column, Vector& v,
                                            ColumnList<Columns<Element, count>, Rest...>) {
  if constexpr ((used >> index & 1u) != 0)
    v.of_column[index][0] = load_value<Element>(Program::template column_array<index>(params), column);
  load_column<Program, used, index + 1>(params, column, v, ColumnList<Rest...>());
}

/// The positions of one thread, and what it computes of them.
template <typename Program, const RowShape& shape, const StridedConfig& config>
struct StridedRows {
  using Params = typename Program::Params;
  using Tile = typename StridedInputsOf<typename Program::Inputs, config>::type;
  static constexpr int vector = config.vector;
  static constexpr int inputs = Program::Inputs::count > 0 ? Program::Inputs::count : 1;
  using Vector = RowVector<Program::Inputs::count, Program::ColumnArrays::count, 1>;

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
  __device__ __forceinline__ Element* at(RowsOfArray array) const {
    return static_cast<Element*>(const_cast<void*>(array.first)) + strided.row * array.stride + strided.vector * vector;
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
  __device__ __forceinline__ void set(Vector& v, const float (&elements)[inputs][vector], int j) const {
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
      float elements[inputs][vector];
      tile.template get<Program::template uses<stage>().inputs>(i, elements);
      Vector v = vector_at<stage>(column);
#pragma unroll
      for (int j = 0; j < vector; ++j) {
        set(v, elements, j);
        float terms[All::operands][1];
        Program::terms(OfStage<stage>(), params, values[j], groups, v, 0, terms);
        All::include(partial[j], terms, {0, strided.holds(column) ? 1 : 0, column});
      }
    }
  }
  /// Computes the reductions of `stage` and of those after it. `tiles` includes all columns in a stage.
  template <int stage, typename Tiles>
  __device__ __forceinline__ void reduce(Tiles& tiles) {
    if constexpr (stage <= Program::stages) {
      using All = typename Program::template RowReductions<stage>;
      typename All::Value partial[vector];
#pragma unroll
      for (int j = 0; j < vector; ++j) partial[j] = All::identity();
      if constexpr (All::floats > 0) {
        tiles.template include<stage>(*this, partial);
        reduce_members<stage, config>(partial, All());
      }
#pragma unroll
      for (int j = 0; j < vector; ++j) Program::derive(OfStage<stage>(), params, row(j), partial[j], values[j]);
      reduce<stage + 1>(tiles);
    }
  }

  /// Stores the values of each row.
  __device__ __forceinline__ void store_rows() const {
    if (!strided.exists || strided.member != 0) return;
#pragma unroll
    for (int j = 0; j < vector; ++j) Program::store_row(params, row(j), values[j]);
  }
  /// Computes and stores the outputs of a tile.
  __device__ __forceinline__ void finish(Tile& tile, int64 first) const {
    constexpr int pass = Program::stages + 1, count = Program::Outputs::count > 0 ? Program::Outputs::count : 1;
    const typename Program::Groups groups{};
#pragma unroll
    for (int i = 0; i < config.columns; ++i) {
      const int64 column = first + i * members<config>;
      float elements[inputs][vector], all[count][vector];
      tile.template get<Program::template uses<pass>().inputs>(i, elements);
      Vector v = vector_at<pass>(column);
#pragma unroll
      for (int j = 0; j < vector; ++j) {
        set(v, elements, j);
        float results[count][1];
        Program::outputs(params, values[j], groups, v, 0, results);
#pragma unroll
        for (int k = 0; k < Program::Outputs::count; ++k) all[k][j] = results[k][0];
      }
      store<0>(column, all, typename Program::Outputs());
    }
  }

 private:
  template <int index, int count>
  __device__ __forceinline__ void store(int64, const float (&)[count][vector], TypeList<>) const {}
  template <int index, int count, typename First, typename... Rest>
  __device__ __forceinline__ void store(int64 column, const float (&all)[count][vector], TypeList<First, Rest...>) const {
    strided.store(at<First>(Program::template output<index>(params)), params.inner, column, all[index]);
    store<index + 1>(column, all, TypeList<Rest...>());
  }
};

/// All columns in registers.
template <typename Rows>
struct ResidentColumns {
  typename Rows::Tile tile;
  int64 first;

  template <int stage, typename Value, int vector>
  __device__ __forceinline__ void include(const Rows& rows, Value (&partial)[vector]) {
    rows.template include<stage>(tile, first, partial);
  }
};

template <typename Program, const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void row_program_strided_resident(const typename Program::Params& params) {
  using Rows = StridedRows<Program, shape, config>;
  Rows rows(params);
  ResidentColumns<Rows> columns;
  columns.first = rows.strided.begin + rows.strided.member;
  columns.tile.template load<Program, ~0u, config.load>(params, rows, columns.first);
  rows.template reduce<1>(columns);
  rows.store_rows();
  rows.finish(columns.tile, columns.first);
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
};

template <typename Program, const RowShape& shape, const StridedConfig& config>
__device__ __forceinline__ void row_program_strided_two_pass(const typename Program::Params& params) {
  using Rows = StridedRows<Program, shape, config>;
  Rows rows(params);
  ReadColumns<Program, shape, config> columns;
  rows.template reduce<1>(columns);
  rows.store_rows();
  if constexpr (Program::Outputs::count > 0)
    over_column_tiles<shape, config>(rows.strided, [&](int64 first) {
      constexpr unsigned used = Program::template uses<Program::stages + 1>().inputs;
      typename Rows::Tile tile;
      tile.template load<Program, used, config.load_again>(params, rows, first);
      rows.finish(tile, first);
    });
}

}  // namespace tunesmith
