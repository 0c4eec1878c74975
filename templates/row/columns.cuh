// Arrays with one element per column, such as weights. All rows read them, so they stay in L1 while the rows pass through
// it: without that, LayerNorm reads more weights than rows from L2.
#pragma once

#include "device/edges.cuh"
#include "row/row.cuh"

namespace tunesmith {

/// Whether each vector is within the row or beyond it.
template <const RowShape& shape>
inline constexpr bool whole_vectors = is_same<typename RowFeatures<shape>::Edges, WholeVectors> ||
                                      is_same<typename RowFeatures<shape>::Edges, GuardedVectors> || shape.staged_rows > 0;

/// RowFeatures<shape>::Edges; if these are for rows in shared memory, the edges of columns in global memory.
template <const RowShape& shape>
using ColumnEdges = typename If<(shape.staged_rows == 0), typename RowFeatures<shape>::Edges,
                                typename If<(shape.min_cols > 0), GuardedVectors, WholeVectors>::type>::type;

/// `count`: elements per load; divides the vectors of the rows, and is 1 for shifted rows. ptxas may move loads with the
/// hint read_only before stores, which takes registers.
template <typename Element, int count, LoadHint hint = LoadHint::stay_in_l1>
struct Columns {
  static constexpr bool present = true;
  using Value = Compute<Element>;

  /// Loads the elements for the vector at `column` of a row; elements outside of the row read as 0.
  template <const RowShape& shape>
  static __device__ __forceinline__ void load(const void* array, const Row<shape>& row, int64 column, bool inside,
                                              Value (&values)[shape.vector]) {
    const Element* const first = static_cast<const Element*>(array) - row.shift;
#pragma unroll
    for (int begin = 0; begin < shape.vector; begin += count) {
      Value part[count];
      if constexpr (whole_vectors<shape>)
        ColumnEdges<shape>::template load<Element, count, hint>(first, column + begin, row.all, inside, 0.0f).unpack(part);
      else if constexpr (shape.min_cols > 0 && count == 1 && sizeof(Element) > 1)  // many may be outside: no branches
        GuardedVectors::load<Element, count, hint>(first, column + begin, row.all, inside, 0.0f).unpack(part);
      else
        BranchedEdges::load<Element, count, hint>(first, column + begin, row.all, inside, 0.0f).unpack(part);
#pragma unroll
      for (int j = 0; j < count; ++j) values[begin + j] = part[j];
    }
  }
};

/// For problems without such an array.
struct NoColumns {
  static constexpr bool present = false;
};

}  // namespace tunesmith
