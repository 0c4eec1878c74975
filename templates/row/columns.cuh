// Arrays with one element for each column, such as weights. All rows read them, so they stay in the caches.
#pragma once

#include "device/edges.cuh"
#include "row/row.cuh"

namespace tunesmith {

/// `count` elements in one load: divides the vectors of the rows, and 1 where those are shifted.
template <typename Element, int count>
struct Columns {
  static constexpr bool present = true;

  /// The elements for the vector at `column` of a row; those outside of the row read as 0.
  template <const RowShape& shape>
  static __device__ __forceinline__ void load(const void* array, const Row<shape>& row, int64 column, bool inside,
                                              float (&values)[shape.vector]) {
    const Element* const first = static_cast<const Element*>(array) - row.shift;
#pragma unroll
    for (int begin = 0; begin < shape.vector; begin += count) {
      float part[count];
      BranchedEdges::load<Element, count, LoadHint::plain>(first, column + begin, row.all, inside, 0.0f).unpack(part);
#pragma unroll
      for (int j = 0; j < count; ++j) values[begin + j] = part[j];
    }
  }
};

/// The problem has no such array.
struct NoColumns {
  static constexpr bool present = false;
};

}  // namespace tunesmith
