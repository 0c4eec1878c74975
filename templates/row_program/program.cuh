// What kernels of row programs are templates over, and how they load vectors of a row. A generated struct Program has
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
//                     rows (row_program/column_sums.cuh); outputs_of_kept(): from the kept values
//
// Each line of the program becomes a line of these functions.
#pragma once

#include "device/float8.cuh"
#include "row/columns.cuh"
#include "row_program/random.cuh"
#include "row_program/reductions.cuh"
#include "row_program/top_lists.cuh"

namespace tunesmith {

/// Names a stage in overloads.
template <int number>
struct OfStage {};

template <typename... T>
struct TypeList {
  static constexpr int count = sizeof...(T);
};
/// The type at a position of a list.
template <int at, typename First, typename... Rest>
struct TypeAt {
  using type = typename TypeAt<at - 1, Rest...>::type;
};
template <typename First, typename... Rest>
struct TypeAt<0, First, Rest...> {
  using type = First;
};
template <typename... LoadedColumns>
struct ColumnList {
  static constexpr int count = sizeof...(LoadedColumns);
};
template <typename LoadedColumns>
struct ElementOf;
template <typename Element, int count, LoadHint hint>
struct ElementOf<Columns<Element, count, hint>> {
  using type = Element;
};

/// What a pass reads.
struct PassUses {
  unsigned inputs, columns;
  int groups;                         ///< it needs results for groups of columns up to this stage
  int maximum_of = -1;                ///< the pass only finds the maximum of this input, which has 16 bits
  int first_gather = 0, gathers = 0;  ///< sums of the stage that gather() computes (row_program/gather.cuh)
};

/// Rows of an array: the address of the first one, and the elements between two.
struct RowsOfArray {
  const void* first;
  int64 stride;

  template <typename Element, const RowShape& shape>
  __device__ __forceinline__ const Element* at(const Row<shape>& row) const {
    return row.start(static_cast<const Element*>(first), stride);
  }
};

/// A vector of a row, as the generated functions read it: element j is column `column + j`. `shared_calls`: of uniform(),
/// whose random numbers four neighbouring elements compute together.
template <int inputs, int columns, int size, typename Number, int shared_calls = 0>
struct RowVector {
  using Value = Number;
  static constexpr int vector = size;
  static constexpr bool shares_numbers = shared_calls > 0;
  Number input[inputs > 0 ? inputs : 1][size];
  Number of_column[columns > 0 ? columns : 1][size];
  int64 row, column;
  mutable uint32 random[shares_numbers ? shared_calls : 1][4];
};
/// Returns the calls of uniform() for which vectors start at a multiple of four columns.
template <typename Program, const RowShape& shape>
__device__ __forceinline__ constexpr int shared_calls() {
  return shape.vector % 4 == 0 && !shape.shifted ? Program::uniform_calls : 0;
}
template <typename Program, const RowShape& shape>
using VectorOf = RowVector<Program::Inputs::count, Program::ColumnArrays::count, shape.vector, Number<shape>,
                           shared_calls<Program, shape>()>;

/// Integers in vectors of numbers: the bits of a float, which only moves, or a double.
template <typename Number>
__device__ __forceinline__ Number number_with(int integer) {
  if constexpr (is_same<Number, float>)
    return float_of(static_cast<uint32>(integer));
  else
    return integer;
}
template <typename Number>
__device__ __forceinline__ int integer_of_number(Number number) {
  if constexpr (is_same<Number, float>)
    return static_cast<int>(bits_of(number));
  else
    return static_cast<int>(number);
}

/// Programs that compute in double convert elements of other arrays.
template <typename Element, typename Value, typename Number, int vector>
__device__ __forceinline__ void convert(const Value (&elements)[vector], Number (&values)[vector]) {
#pragma unroll
  for (int j = 0; j < vector; ++j) {
    if constexpr (is_same<Element, int>)
      values[j] = number_with<Number>(integer_of_number(elements[j]));
    else
      values[j] = elements[j];
  }
}
/// Gets vector i of `source`, which has elements of this type, as the program's numbers.
template <typename Element, typename Source, typename Number, int vector>
__device__ __forceinline__ void get_numbers(Source& source, int i, Number (&values)[vector]) {
  if constexpr (is_same<Compute<Element>, Number>) {
    source.get(i, values);
  } else {
    Compute<Element> elements[vector];
    source.get(i, elements);
    convert<Element>(elements, values);
  }
}
/// The same of a vector as it was loaded.
template <typename Element, typename Number, int vector>
__device__ __forceinline__ void unpack_numbers(const Packed<Element, vector>& packed, Number (&values)[vector]) {
  if constexpr (is_same<Compute<Element>, Number>) {
    packed.unpack(values);
  } else {
    Compute<Element> elements[vector];
    packed.unpack(elements);
    convert<Element>(elements, values);
  }
}
/// Returns a number as elements of an array are stored from it, so that a store rounds once.
template <typename Element, typename Number>
__device__ __forceinline__ Compute<Element> storable(Number value) {
  if constexpr (is_same<Number, Compute<Element>>)
    return value;
  else if constexpr (is_same<Element, float>)
    return static_cast<float>(value);
  else if constexpr (is_same<Element, int>)
    return number_with<float>(integer_of_number(value));
  else
    return rounded_to_odd(value);
}
template <typename Element, typename Number, int vector>
__device__ __forceinline__ void make_storable(const Number (&values)[vector], Compute<Element> (&elements)[vector]) {
#pragma unroll
  for (int j = 0; j < vector; ++j) elements[j] = storable<Element>(values[j]);
}

template <typename T>
__device__ __forceinline__ Compute<T> load_value(const void* array, int64 index) {
  return load_element(static_cast<const T*>(array) + index);
}
template <>
__device__ __forceinline__ float load_value<int>(const void*, int64) = delete;
__device__ __forceinline__ int load_integer(const void* array, int64 index) { return static_cast<const int*>(array)[index]; }

/// Loads the element that the columns of a vector share. A plain load, so that the compiler loads once for a vector.
template <typename T, int columns, typename Vector>
__device__ __forceinline__ Compute<T> load_of_group(const void* array, int64 stride, int cols, const Vector& v) {
  const int64 column = v.column < cols ? v.column : cols - 1;  // vectors after the row's end are loaded and ignored
  const T element = static_cast<const T*>(array)[v.row * stride + static_cast<uint32>(column) / columns];
  if constexpr (is_same<T, int>)
    return number_with<float>(element);
  else
    return to_float(element);
}

template <typename T, typename Number>
__device__ __forceinline__ void store_value(void* array, int64 index, Number value) {
  store_element(static_cast<T*>(array) + index, storable<T>(value));
}
__device__ __forceinline__ void store_integer(void* array, int64 index, int value) {
  static_cast<int*>(array)[index] = value;
}

/// Stores the values of the chosen columns, in pieces of 16 bytes where the address allows it. T: an element type, or int.
template <typename T, typename Value, int k>
__device__ __forceinline__ void store_chosen(void* array, int64 first, const Value (&values)[k]) {
  T* const to = static_cast<T*>(array) + first;
  if constexpr (sizeof(T) == 4 && sizeof(Value) == 4 && k % 4 == 0) {
    if (reinterpret_cast<uint64>(to) % 16 == 0) {
#pragma unroll
      for (int rank = 0; rank < k; rank += 4) {
        float four[4];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          if constexpr (is_same<Value, float>)
            four[j] = values[rank + j];
          else
            four[j] = float_of(static_cast<uint32>(values[rank + j]));
        }
        store_whole<float, 4, StoreHint::plain>(reinterpret_cast<float*>(to), rank, four);
      }
      return;
    }
  }
#pragma unroll
  for (int rank = 0; rank < k; ++rank) {
    if constexpr (is_same<Value, int>)
      to[rank] = values[rank];
    else
      store_element(to + rank, storable<T>(values[rank]));
  }
}

/// The inputs of a row, resident in registers and shared memory. `index`: of the first one. `all_bytes`: of the vectors of
/// all inputs.
template <int index, int all_bytes, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage,
          typename... Elements>
struct ResidentInputs {
  __device__ __forceinline__ explicit ResidentInputs(unsigned char*) {}
  template <typename Program>
  __device__ __forceinline__ void load(const typename Program::Params&, const Row<shape>&, int) {}
  template <typename Program, typename Later>
  __device__ __forceinline__ void prefetch(const typename Program::Params&, const Later&) const {}
  __device__ __forceinline__ void arrived() {}
  template <unsigned used, typename Vector>
  __device__ __forceinline__ void get(int, Vector&) {}
  template <int which>
  __device__ __forceinline__ int maximum() const {
    return 0;
  }
  static __device__ __forceinline__ constexpr bool can_keep(int, int) { return true; }
  template <typename Vector>
  __device__ __forceinline__ void keep(int, int, const Vector&) {}
};
template <int index, int all_bytes, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage,
          typename First, typename... Rest>
struct ResidentInputs<index, all_bytes, shape, config, Group, Storage, First, Rest...> {
  using Resident =
      typename Storage::template Row<First, shape, config, Group, all_bytes - Packed<First, shape.vector>::bytes>;
  Resident first;
  ResidentInputs<index + 1, all_bytes, shape, config, Group, Storage, Rest...> rest;

  /// `memory`: dynamic shared memory for all inputs, or nullptr.
  __device__ __forceinline__ explicit ResidentInputs(unsigned char* memory)
      : first(memory), rest(memory + Resident::bytes_to_next) {}
  template <typename Program>
  __device__ __forceinline__ void load(const typename Program::Params& params, const Row<shape>& row, int thread_rank) {
    first.load(Program::template input<index>(params).template at<First>(row), row, thread_rank, 0.0f);
    rest.template load<Program>(params, row, thread_rank);
  }
  template <typename Program, typename Later>
  __device__ __forceinline__ void prefetch(const typename Program::Params& params, const Later& later) const {
    const RowsOfArray rows = Program::template input<index>(params);
    later.template start<First, config.load>(params.row, rows.first, rows.stride);
    rest.template prefetch<Program>(params, later);
  }
  __device__ __forceinline__ void arrived() { first.arrived(); }  // all copies of a thread are awaited together
  template <unsigned used, typename Vector>
  __device__ __forceinline__ void get(int i, Vector& v) {
    if constexpr ((used >> index & 1u) != 0) get_numbers<First>(first, i, v.input[index]);
    rest.template get<used>(i, v);
  }
  /// Returns the maximum of no elements of an input, which includes its packed vectors; an integer if there is no such
  /// input.
  template <int which>
  __device__ __forceinline__ auto maximum() const {
    if constexpr (which == index)
      return PackedMaximum<First>();
    else
      return rest.template maximum<which>();
  }
  /// Returns vector i of an input in the layout of global memory.
  template <int which>
  __device__ __forceinline__ auto packed_at(int i) const {
    if constexpr (which == index)
      return first.packed_at(i);
    else
      return rest.template packed_at<which>(i);
  }
  /// Returns whether vector i of the first `count` inputs holds any number without rounding.
  static __device__ __forceinline__ constexpr bool can_keep(int i, int count) {
    return index >= count ||
           (Resident::exact(i) && is_same<Compute<First>, Number<shape>> && decltype(rest)::can_keep(i, count));
  }
  /// Replaces vector i of the first `count` inputs.
  template <typename Vector>
  __device__ __forceinline__ void keep(int i, int count, const Vector& v) {
    if (index >= count) return;
    if constexpr (is_same<Compute<First>, Number<shape>>) first.put(i, v.input[index]);
    rest.keep(i, count, v);
  }
};
template <typename Inputs, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage>
struct ResidentInputsOf;
template <typename... Elements, const RowShape& shape, const ResidentConfig& config, typename Group, typename Storage>
struct ResidentInputsOf<TypeList<Elements...>, shape, config, Group, Storage> {
  using type =
      ResidentInputs<0, (Packed<Elements, shape.vector>::bytes + ... + 0), shape, config, Group, Storage, Elements...>;
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
  if constexpr (shape.least_cols > 0)
    here.all = range_for<typename RowFeatures<shape>::Edges, shape, group_size>(row.all, i);
  return here;
}

/// The elements of the vector at `column`, which counts from the row's shift, that are in the row.
template <const RowShape& shape>
__device__ __forceinline__ ElementsInside elements_inside(const Row<shape>& row, int64 column, bool inside) {
  ElementsInside elements{0, shape.vector, column - row.shift};
  if (inside) return elements;
  if constexpr (whole_vectors<shape>) {
    const bool whole = shape.least_cols > 0 ? GuardedVectors::holds<shape.vector>(row.all, column)
                                            : row.all.template holds<shape.vector>(column);
    if (!whole) elements.to = 0;
    return elements;
  }
  if constexpr (shape.least_cols > 0) {  // in 32 bits, as its loads
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

/// Computes and stores the outputs of vector i, which holds what they are made of. `of_kept`: Program::kept values instead
/// of inputs. `exists`: the row may be stored.
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
