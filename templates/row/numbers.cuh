// Elements of arrays as the numbers that a row program computes with, and vectors of them.
#pragma once

#include "device/float8.cuh"
#include "row/columns.cuh"
#include "row/functions.cuh"

namespace tunesmith {

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

}  // namespace tunesmith
