// Sums whose terms are 0 in all columns but one, such as sum(select(col == target, x, 0)): threads load the inputs of this
// column again, from a cache, and compute its term, instead of a comparison and an addition for each column. All threads of
// a row load the same address. The generated functions of such a sum are
//
//   column_to_gather()  the column: an integer or a number, of any value
//   gather()            the term of a column. It is 0 in other columns, so a column out of the row may be replaced by any
#pragma once

#include "row/program.cuh"

namespace tunesmith {

/// Names a sum in overloads.
template <int number>
struct OfGather {};

/// Returns the column if the row has it, and another one of the row otherwise.
__device__ __forceinline__ int64 column_of_row(int column, int64 cols) { return column >= 0 && column < cols ? column : 0; }
template <typename Number>
__device__ __forceinline__ int64 column_of_row(Number column, int64 cols) {
  return column >= 0 && column < static_cast<Number>(cols) ? static_cast<int64>(column) : 0;  // NaN: 0
}

/// Loads what a pass reads of arrays [col] at one column.
template <typename Program, unsigned used, int index, typename Vector>
__device__ __forceinline__ void load_column(const typename Program::Params&, int64, Vector&, ColumnList<>) {}
template <typename Program, unsigned used, int index, typename Vector, typename Element, int count, LoadHint hint,
          typename... Rest>
__device__ __forceinline__ void load_column(const typename Program::Params& params, int64 column, Vector& v,
                                            ColumnList<Columns<Element, count, hint>, Rest...>) {
  if constexpr ((used >> index & 1u) != 0) {
    const void* const array = Program::template column_array<index>(params);
    if constexpr (is_same<Element, int>)
      v.of_column[index][0] = number_with<typename Vector::Value>(load_integer(array, column));
    else
      v.of_column[index][0] = load_value<Element>(array, column);
  }
  load_column<Program, used, index + 1>(params, column, v, ColumnList<Rest...>());
}

/// Loads the element of each input at v.column. source.address_of<index, Element>(column): the address of the row's column.
template <typename Program, unsigned used, int index, typename Source, typename Vector>
__device__ __forceinline__ void gather_inputs(const Source&, Vector&, TypeList<>) {}
template <typename Program, unsigned used, int index, typename Source, typename Vector, typename First, typename... Rest>
__device__ __forceinline__ void gather_inputs(const Source& source, Vector& v, TypeList<First, Rest...>) {
  if constexpr ((used >> index & 1u) != 0) {
    const First* const address = source.template address_of<index, First>(v.column);
    if constexpr (is_same<First, int>)
      v.input[index][0] = number_with<typename Vector::Value>(load_integer(address, 0));
    else
      v.input[index][0] = load_value<First>(address, 0);
  }
  gather_inputs<Program, used, index + 1>(source, v, TypeList<Rest...>());
}

/// Computes the sums from `number` to `end` of a row.
template <typename Program, int number, int end, typename Number, typename Source>
__device__ __forceinline__ void gather_from(const typename Program::Params& params, const Source& source, int64 row,
                                            int64 cols, typename Program::Values& values) {
  if constexpr (number < end) {
    constexpr PassUses uses = Program::template uses_of_gather<number>();
    RowVector<Program::Inputs::count, Program::ColumnArrays::count, 1, Number> v;
    v.row = row;
    v.column = column_of_row(Program::column_to_gather(OfGather<number>(), params, row, values), cols);
    gather_inputs<Program, uses.inputs, 0>(source, v, typename Program::Inputs());
    load_column<Program, uses.columns, 0>(params, v.column, v, typename Program::ColumnArrays());
    Program::gather(OfGather<number>(), params, v, 0, values);
    gather_from<Program, number + 1, end, Number>(params, source, row, cols, values);
  }
}

template <typename Program, const RowShape& shape>
struct ElementsOfRow {
  const typename Program::Params& params;
  const Row<shape>& row;
  template <int index, typename Element>
  __device__ __forceinline__ const Element* address_of(int64 column) const {
    return Program::template input<index>(params).template at<Element>(row) + (row.shift + column);
  }
};

/// Computes the sums of a stage. After the row's loads: the barrier keeps the compiler from moving these loads before them,
/// where all would wait for the column. All lanes of a warp.
template <typename Program, int stage, const RowShape& shape>
__device__ __forceinline__ void gather(const typename Program::Params& params, const Row<shape>& row,
                                       typename Program::Values& values) {
  constexpr PassUses uses = Program::template uses<stage>();
  if constexpr (uses.gathers > 0) {
    sync_warp();
    gather_from<Program, uses.first_gather, uses.first_gather + uses.gathers, Number<shape>>(
        params, ElementsOfRow<Program, shape>{params, row}, row.index, columns_of<shape>(params.row), values);
  }
}

}  // namespace tunesmith
