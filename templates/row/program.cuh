// The interface of programs over rows, and the loads of a row's vectors. A program is a struct; schedules (row/schedules/,
// strided/schedules.cuh) are kernel templates over it:
//
//   Params            RowParams row, then addresses, row strides and numbers; the kernels' only argument
//   Inputs, Outputs   element types of the arrays [row, col]: TypeList
//   ColumnArrays      ColumnList: element types of the arrays [col], and elements per load
//   Values, Groups    the program's values that vary by row, and by group of columns
//   stages            stages of reductions; the pass after them writes the outputs
//   kept              values that replace the inputs after the last stage, if the storage of a row can hold them
//   uniform_calls     calls of uniform() whose random numbers vary by column
//   uses<pass>()      inputs and columns that a pass reads, as bits, and the last stage whose groups it needs
//   RowReductions<stage>, GroupReductions<stage>
//   terms(), derive() operands of the reductions of a stage, and values that follow from their results
//   outputs()         the elements of the outputs [row, col], and of the `sums` values whose columns are added up over the
//                     rows (row/schedules/column_sums.cuh); outputs_of_kept(): from the kept values
//
// In the struct that is generated from the text of a row program, each line of the text is a line of these functions.
#pragma once

#include "row/numbers.cuh"
#include "row/random.cuh"
#include "row/reductions/argmax.cuh"
#include "row/reductions/combined_reductions.cuh"
#include "row/reductions/log_sum_exp.cuh"
#include "row/reductions/moments.cuh"
#include "row/reductions/reductions.cuh"
#include "row/reductions/top_lists.cuh"

namespace tunesmith {

/// Names a stage in overloads.
template <int number>
struct OfStage {};

/// Arrays that a pass reads.
struct PassUses {
  unsigned inputs, columns;
  int groups;                         ///< it needs results for groups of columns up to this stage
  int maximum_of = -1;                ///< the pass only finds the maximum of this input, which has 16 bits
  int first_gather = 0, gathers = 0;  ///< sums of the stage that gather() computes (row/gather.cuh)
};

template <typename Program, unsigned used, int index, const RowShape& shape, typename Vector>
__device__ __forceinline__ void load_columns_from(const typename Program::Params&, const Row<shape>&, int64, bool, Vector&,
                                                  ColumnList<>) {}
template <typename Program, unsigned used, int index, const RowShape& shape, typename Vector, typename First,
          typename... Rest>
__device__ __forceinline__ void load_columns_from(const typename Program::Params& params, const Row<shape>& row,
                                                  int64 column, bool inside, Vector& v, ColumnList<First, Rest...>) {
  if constexpr ((used >> index & 1u) != 0) {
    if constexpr (is_same<typename First::Value, Number<shape>>) {
      First::template load<shape>(Program::template column_array<index>(params), row, column, inside, v.of_column[index]);
    } else {
      typename First::Value elements[shape.vector];
      First::template load<shape>(Program::template column_array<index>(params), row, column, inside, elements);
      convert<typename ElementOf<First>::type>(elements, v.of_column[index]);
    }
  }
  load_columns_from<Program, used, index + 1>(params, row, column, inside, v, ColumnList<Rest...>());
}

template <typename Program, int index, const RowShape& shape, StoreHint hint, typename Values>
__device__ __forceinline__ void store_outputs_from(const typename Program::Params&, const Row<shape>&, int64, bool, Values&,
                                                   TypeList<>) {}
template <typename Program, int index, const RowShape& shape, StoreHint hint, typename Values, typename First,
          typename... Rest>
__device__ __forceinline__ void store_outputs_from(const typename Program::Params& params, const Row<shape>& row,
                                                   int64 column, bool inside, Values& values, TypeList<First, Rest...>) {
  auto* const output = const_cast<First*>(Program::template output<index>(params).template at<First>(row));
  if constexpr (is_same<Compute<First>, Number<shape>>) {
    RowFeatures<shape>::Edges::template store<First, shape.vector, hint>(output, column, row.all, inside, values[index]);
  } else {
    Compute<First> elements[shape.vector];
    make_storable<First>(values[index], elements);
    RowFeatures<shape>::Edges::template store<First, shape.vector, hint>(output, column, row.all, inside, elements);
  }
  store_outputs_from<Program, index + 1, shape, hint>(params, row, column, inside, values, TypeList<Rest...>());
}

/// Loads what a pass reads of arrays [col] for a vector.
template <typename Program, int pass, const RowShape& shape, typename Vector>
__device__ __forceinline__ void load_columns(const typename Program::Params& params, const Row<shape>& row, int64 column,
                                             bool inside, Vector& v) {
  constexpr PassUses uses = Program::template uses<pass>();
  load_columns_from<Program, uses.columns, 0>(params, row, column, inside, v, typename Program::ColumnArrays());
}

/// Returns the row for vector i of a thread: in a kernel for a bucket of widths, most vectors cannot start before it.
template <const RowShape& shape, int group_size>
__device__ __forceinline__ Row<shape> row_of_vector(const Row<shape>& row, int i) {
  Row<shape> here = row;
  if constexpr (shape.min_cols > 0) here.all = range_for<typename RowFeatures<shape>::Edges, shape, group_size>(row.all, i);
  return here;
}

/// The elements of the vector at `column`, which counts from the row's shift, that are in the row.
template <const RowShape& shape>
__device__ __forceinline__ ElementsInside elements_inside(const Row<shape>& row, int64 column, bool inside) {
  ElementsInside elements{0, shape.vector, column - row.shift};
  if (inside) return elements;
  if constexpr (whole_vectors<shape>) {
    const bool whole = shape.min_cols > 0 ? GuardedVectors::holds<shape.vector>(row.all, column)
                                          : row.all.template holds<shape.vector>(column);
    if (!whole) elements.to = 0;
    return elements;
  }
  if constexpr (shape.min_cols > 0) {  // in 32 bits, as its loads
    const int begin = static_cast<int>(row.all.begin), end = static_cast<int>(row.all.end), at = static_cast<int>(column);
    elements.from = at >= begin ? 0 : at + shape.vector <= begin ? shape.vector : begin - at;
    elements.to = at + shape.vector <= end ? shape.vector : at >= end ? 0 : end - at;
    return elements;
  }
  const int64 before = row.all.begin - column, after = row.all.end - column;
  elements.from = before > 0 ? static_cast<int>(before < shape.vector ? before : shape.vector) : 0;
  elements.to = after < shape.vector ? static_cast<int>(after > 0 ? after : 0) : shape.vector;
  return elements;
}

/// Computes what a pass needs for groups of columns: neighbouring lanes hold a group together. All lanes of the warp.
template <typename Program, int stage, int last, const RowShape& shape, typename Vector>
__device__ __forceinline__ void reduce_groups(const typename Program::Params& params, const typename Program::Values& values,
                                              const Vector& v, ElementsInside inside, typename Program::Groups& groups) {
  if constexpr (stage <= last) {
    using All = typename Program::template GroupReductions<stage>;
    if constexpr (All::floats > 0) {
      constexpr int lanes = Program::columns_of_group / shape.vector;
      static_assert(lanes * shape.vector == Program::columns_of_group && lanes <= 32 && (lanes & (lanes - 1)) == 0,
                    "neighbouring lanes of a warp hold a group of columns");
      Number<shape> terms[All::operands][shape.vector];
#pragma unroll
      for (int j = 0; j < shape.vector; ++j) Program::group_terms(OfStage<stage>(), params, values, groups, v, j, terms);
      typename All::Value partial = All::identity();
      All::include(partial, terms, inside);
      partial = reduce_lanes<lanes>(partial, All());
      Program::derive_group(OfStage<stage>(), params, values, v, partial, groups);
    } else {
      Program::derive_group(OfStage<stage>(), params, values, v, typename All::Value(), groups);
    }
    reduce_groups<Program, stage + 1, last, shape>(params, values, v, inside, groups);
  }
}

/// Includes a vector in the reductions of a stage. It holds what the stage reads of arrays [row, col] and [col].
template <typename Program, int stage, const RowShape& shape, typename Vector, typename Value>
__device__ __forceinline__ void include_vector(const typename Program::Params& params, const Row<shape>& row,
                                               const typename Program::Values& values, int64 column, bool inside, Vector& v,
                                               Value& partial) {
  using All = typename Program::template RowReductions<stage>;
  constexpr PassUses uses = Program::template uses<stage>();
  v.row = row.index;
  v.column = column - row.shift;
  const ElementsInside elements = elements_inside(row, column, inside);
  typename Program::Groups groups;
  reduce_groups<Program, 1, uses.groups, shape>(params, values, v, elements, groups);
  Number<shape> terms[All::operands][shape.vector];
#pragma unroll
  for (int j = 0; j < shape.vector; ++j) Program::terms(OfStage<stage>(), params, values, groups, v, j, terms);
  All::include(partial, terms, elements);
}

/// For programs without column sums.
struct NoColumnSums {
  template <typename Params, typename Results>
  __device__ __forceinline__ void include(const Params&, int64, int, const Results&, ElementsInside, bool) const {}
};

/// Computes and stores the outputs of vector i from its values. `of_kept`: Program::kept values instead of inputs. `exists`:
/// the row may be stored.
template <typename Program, bool of_kept, const RowShape& shape, StoreHint hint, typename Vector, typename Sums>
__device__ __forceinline__ void finish_vector(const typename Program::Params& params, const Row<shape>& row,
                                              const typename Program::Values& values, int64 column, bool inside, bool exists,
                                              int i, Vector& v, Sums& sums) {
  constexpr PassUses uses = Program::template uses<Program::stages + (of_kept ? 2 : 1)>();
  v.row = row.index;
  v.column = column - row.shift;
  typename Program::Groups groups;
  if constexpr (uses.groups > 0) {
    const ElementsInside elements = elements_inside(row, column, inside);
    reduce_groups<Program, 1, uses.groups, shape>(params, values, v, elements, groups);
    constexpr int lanes = Program::columns_of_group / shape.vector;
    if (exists && lane_index() % lanes == 0 && (inside || row.all.template holds<1>(column)))
      Program::store_groups(params, row.index, static_cast<uint32>(v.column) / Program::columns_of_group, groups);
  }
  constexpr int count = Program::Outputs::count + Program::sums;
  Number<shape> results[count > 0 ? count : 1][shape.vector];
#pragma unroll
  for (int j = 0; j < shape.vector; ++j) {
    if constexpr (of_kept)
      Program::outputs_of_kept(params, values, groups, v, j, results);
    else
      Program::outputs(params, values, groups, v, j, results);
  }
  if (exists) store_outputs_from<Program, 0, shape, hint>(params, row, column, inside, results, typename Program::Outputs());
  sums.include(params, column, i, results, elements_inside(row, column, inside), exists);
}

}  // namespace tunesmith
