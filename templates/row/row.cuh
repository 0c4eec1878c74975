// Rows of a matrix: shape, kernel parameters, row addresses, and the range of columns that contribute.
#pragma once

#include "device/edges.cuh"
#include "device/group.cuh"
#include "device/stagger.cuh"
#include "row/params.cuh"

namespace tunesmith {

/// Properties that the source is specialized for.
struct RowShape {
  int64 cols;               ///< the most columns, if min_cols is set
  int64 min_cols = 0;       ///< rows have min_cols to cols columns: RowParams::cols. 0: exactly cols
  int vector;               ///< elements per vector: at most 16 bytes of the widest dtype
  bool shifted = false;     ///< rows are not vector-aligned; the offset is the same in all arrays
  int line = 0;             ///< alignment in elements; columns of a shifted row count from the last multiple at or before it
  bool logarithm = false;   ///< results are logarithms
  bool scaled = false;      ///< elements are multiplied by RowParams::scale
  bool causal = false;      ///< row r of a square matrix uses columns 0 to r
  bool valid_cols = false;  ///< each row has its own length
  bool safe = false;        ///< fully masked rows give 0 instead of NaN
  int mask_vector = 1;      ///< mask elements per load; divides `vector`
  bool wide = false;        ///< elements, values and sums are double
  int staged_rows = 0;      ///< rows of a block in shared memory (row/schedules/staged.cuh); 0: rows are in global memory
};

/// The type of a row's values and sums.
template <const RowShape& shape>
using Number = typename If<shape.wide, double, float>::type;

/// Returns the scale of a row's elements.
template <typename Number>
__device__ __forceinline__ Number scale_of(const RowParams& params) {
  return params.scale;
}

/// Compile-time choices of the generated source, to which operations add their own:
///   Edges, SeenEdges  how vectors may cross the ends of a row, and of its contributing range (device/edges.cuh)
///   Mask              NoMask, AddMask or KeepMask (row/mask.cuh)
///   Prefetch          of resident rows: NoPrefetch or PrefetchLaterRow (row/schedules/later_rows.cuh)
template <const RowShape& shape>
struct RowFeatures;

/// True if the number of contributing columns differs between rows.
template <const RowShape& shape>
constexpr bool ragged = shape.causal || shape.valid_cols;

/// Returns the number of columns: a constant, unless the shape has a range of them.
template <const RowShape& shape>
__device__ __forceinline__ int64 columns_of(const RowParams& params) {
  return shape.min_cols > 0 ? int64{params.cols} : shape.cols;
}

/// Maximum number of elements from the aligned address at or before a row's start to the row's end.
template <const RowShape& shape>
constexpr int64 row_span = shape.cols + (shape.shifted ? shape.line - 1 : 0);

/// Vectors of a row per thread, for `group_size` threads.
template <const RowShape& shape, int group_size>
constexpr int vectors_per_thread = static_cast<int>((row_span<shape> + int64{group_size} * shape.vector - 1) /
                                                    (int64{group_size} * shape.vector));

/// True if vectors beyond the end of the row are not even loaded: rows of a bucket in shared memory.
template <const RowShape& shape>
constexpr bool leaves_early = shape.min_cols > 0 && shape.staged_rows > 0 && !ragged<shape>;
/// True if no vector inside the row crosses its end: each lane has a row of its own.
template <const RowShape& shape, int group_size>
constexpr bool leaves_at_end = leaves_early<shape>&& group_size == 1 && !shape.shifted;

/// Returns whether vector i of every thread of the group is known to be inside every row of the bucket.
template <const RowShape& shape, int group_size>
__device__ __forceinline__ constexpr bool inside_row(int i) {
  if (leaves_at_end<shape, group_size> && i % 2 == 0) return true;
  return (!shape.shifted || int64{i} * group_size * shape.vector >= shape.line) &&
         (int64{i} + 1) * group_size * shape.vector <= (shape.min_cols > 0 ? shape.min_cols : shape.cols);
}

/// One row. In every array, columns count from the aligned address at or before the first element.
template <const RowShape& shape>
struct Row {
  int64 index;
  int shift;
  Range all;   ///< existing columns
  Range seen;  ///< contributing columns: fewer if the row is ragged

  template <typename Input>
  __device__ __forceinline__ Row(const RowParams& params, int64 row, const Input*) : index(row), shift(0) {
    if constexpr (shape.shifted) {
      const auto* first = static_cast<const Input*>(params.input[0]) + row * params.input_stride[0];
      shift = static_cast<int>(reinterpret_cast<uint64>(first) / sizeof(Input)) & (shape.line - 1);
    }
    // Not columns_of(): the front end folds this constant, and the optimizer would schedule loads differently after a call.
    int64 cols = shape.min_cols > 0 ? int64{params.cols} : shape.cols;
    all = {shift, shift + cols};
    if constexpr (shape.causal) cols = row % cols + 1;
    if constexpr (shape.valid_cols) {
      const auto* lengths = static_cast<const int*>(params.valid_cols);
      const int64 length = lengths[params.valid_cols_group == 1 ? row : row / params.valid_cols_group];
      cols = length < cols ? (length > 0 ? length : 0) : cols;
    }
    seen = {shift, shift + cols};
  }

  template <typename Element>
  __device__ __forceinline__ const Element* input(const RowParams& params, int which) const {
    return start(static_cast<const Element*>(params.input[which]), params.input_stride[which]);
  }
  template <typename Element>
  __device__ __forceinline__ Element* output(const RowParams& params) const {
    return start(static_cast<Element*>(params.output), params.output_stride);
  }
  /// Returns the address of column 0 in an array whose first row is at `first`: the first one of the block, if rows are
  /// staged.
  template <typename Element>
  __device__ __forceinline__ Element* start(Element* first, int64 stride) const {
    if constexpr (shape.staged_rows > 0)
      return first + static_cast<int>(index - block_index() * shape.staged_rows) *
                         static_cast<int>(shape.min_cols > 0 ? stride : shape.cols);
    else
      return first + index * stride - shift;
  }
};

/// The type of the sum of a thread's vectors, for which `Sum` is made. row/schedules/staged.cuh has another one for narrow
/// vectors.
template <const RowShape& shape, typename Sum, bool staged = (shape.staged_rows > 0)>
struct SumOfVectors {
  using type = Sum;
};

/// Stores one element of a row, wherever rows are.
template <const RowShape& shape, typename T>
__device__ __forceinline__ void store_element_of(T* address, Compute<T> value) {
  if constexpr (shape.staged_rows > 0) {
    const Compute<T> values[1] = {value};
    RowFeatures<shape>::Edges::template store<T, 1, StoreHint::plain>(address, 0, {0, 1}, true, values);
  } else {
    store_element(address, value);
  }
}

struct NoMask {
  static constexpr bool present = false, adds = false;
};

/// The interface of PrefetchLaterRow.
struct NoPrefetch {
  template <typename Group>
  static __device__ __forceinline__ NoPrefetch of(const Group&, const RowParams&, int64) {
    return {};
  }
  template <typename Element, LoadHint hint>
  __device__ __forceinline__ void start(const RowParams&, const void*, int64) const {}
};

/// Returns the first column of vector `i` of thread `thread_rank`.
template <const RowShape& shape, int group_size>
__device__ __forceinline__ int64 column_of(int i, int thread_rank) {
  return (int64(i) * group_size + thread_rank) * shape.vector;
}

/// Returns whether vector i of every thread is known to be beyond the `end` of a row that has fewer columns than its kernel
/// has room for. The same for all threads of the group, so that the following vectors cost one branch. Only where
/// instructions are the limit: in parts of warps, and with pairs and elements, for four at once, whose instructions overlap
/// (two in staged rows). Do not ask before the first use of all vectors, unless the row leaves_early: loads whose only uses
/// are behind a branch are issued late. And ask only `if constexpr (shape.min_cols > 0)`: a call changes the schedule.
template <const RowShape& shape, int group_size>
__device__ __forceinline__ bool beyond_row(int64 end, int i) {
  constexpr bool may_be = shape.min_cols > 0 && (shape.vector <= 2 || group_size < 32);
  constexpr int together = shape.vector > 2 ? 1 : leaves_early<shape> ? 2 : 4;
  const int64 first = int64{i} * group_size * shape.vector;
  return may_be && first >= shape.min_cols && i % together == 0 && static_cast<int>(first) >= static_cast<int>(end);
}

/// Returns `range` for vector `i` of a thread. Only for shapes with min_cols.
template <typename Edges, const RowShape& shape, int group_size>
__device__ __forceinline__ Range range_for(const Range& range, int i) {
  const bool may_start_before = shape.shifted && int64{i} * group_size * shape.vector < shape.line;
  return may_start_before ? range : Edges::without_begin(range);
}

/// Loads vector `i` of this thread; excluded elements read as `outside`.
template <typename Element, const RowShape& shape, LoadHint hint, int group_size>
__device__ __forceinline__ Packed<Element, shape.vector> load_of_row(const Element* row, int i, int thread_rank, Range seen,
                                                                     Compute<Element> outside) {
  using Edges = typename RowFeatures<shape>::SeenEdges;
  if constexpr (shape.min_cols > 0) seen = range_for<Edges, shape, group_size>(seen, i);
  return Edges::template load<Element, shape.vector, hint>(row, column_of<shape, group_size>(i, thread_rank), seen,
                                                           !ragged<shape> && inside_row<shape, group_size>(i), outside);
}

/// Loads the first `count` vectors of this thread and passes them to hold(i, vector); excluded elements read as `outside`.
template <typename Element, const RowShape& shape, LoadHint hint, int group_size, int count, typename Hold>
__device__ __forceinline__ void load_vectors_of_row(const Element* row, int thread_rank, Range seen,
                                                    Compute<Element> outside, const Hold& hold) {
  if constexpr (shape.min_cols > 0 && shape.vector > 2 && count > 0) {
    using Edges = typename RowFeatures<shape>::SeenEdges;
    if constexpr (Edges::late_ends) {
      Packed<Element, shape.vector> loaded[count];
      Edges::template load_all<Element, shape.vector, hint>(
          row, [&](int i) { return column_of<shape, group_size>(i, thread_rank); },
          [&](int i) { return range_for<Edges, shape, group_size>(seen, i); },
          [](int i) { return inside_row<shape, group_size>(i); }, outside, loaded);
#pragma unroll
      for (int i = 0; i < count; ++i) hold(i, loaded[i]);
      return;
    }
  }
#pragma unroll
  for (int i = 0; i < count; ++i) {
    if constexpr (leaves_early<shape>)
      if (beyond_row<shape, group_size>(seen.end, i)) break;
    hold(i, load_of_row<Element, shape, hint, group_size>(row, i, thread_rank, seen, outside));
  }
}

/// Stores the elements of vector `i` of this thread that are in the row.
template <typename Element, const RowShape& shape, StoreHint hint, int group_size>
__device__ __forceinline__ void store_of_row(Element* output, int i, int thread_rank, const Row<shape>& row,
                                             const Compute<Element> (&values)[shape.vector]) {
  using Edges = typename RowFeatures<shape>::Edges;
  const int64 column = column_of<shape, group_size>(i, thread_rank);
  if constexpr (shape.min_cols > 0)
    Edges::template store<Element, shape.vector, hint>(output, column, range_for<Edges, shape, group_size>(row.all, i),
                                                       inside_row<shape, group_size>(i), values);
  else
    Edges::template store<Element, shape.vector, hint>(output, column, row.all, inside_row<shape, group_size>(i), values);
}

}  // namespace tunesmith
