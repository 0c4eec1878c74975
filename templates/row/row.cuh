// A row of a matrix as the row kernels see it: their shape and parameters, addresses of rows, and which columns take part.
#pragma once

#include "device/edges.cuh"
#include "device/group.cuh"

namespace tunesmith {

/// Facts that the source is specialized for.
struct RowShape {
  int64 cols;
  int vector;               ///< elements per vector: at most 16 bytes of the widest dtype
  bool shifted = false;     ///< rows start anywhere between two vectors, in all arrays alike; else each starts with a vector
  int line = 0;             ///< elements; shifted rows count columns from the last multiple of it at or before them
  bool logarithm = false;   ///< log_softmax
  bool scaled = false;      ///< elements are multiplied with RowParams::scale
  bool causal = false;      ///< row r of a square matrix takes part up to column r
  bool valid_cols = false;  ///< each row has its own length
  bool safe = false;        ///< a row that is wholly masked gives zeros, not NaN
  int mask_vector = 1;      ///< elements of the mask that one load takes: divides `vector`
};

/// What the generated source chooses for its shape by name, so that it holds nothing of the alternatives:
///   Edges, SeenEdges  how vectors lie across the ends of a row, and of the part of it that takes part (device/edges.cuh)
///   Mask              NoMask, AddMask or KeepMask (row/mask.cuh)
///   and what an operation adds.
template <const RowShape& shape>
struct RowFeatures;

/// Rows differ in how many of their columns take part.
template <const RowShape& shape>
constexpr bool ragged = shape.causal || shape.valid_cols;

/// The kernels' only argument. Strides are in elements. Forward reads input[0] = x; backward input[0] = dy, input[1] = y.
struct RowParams {
  const void* input[2];
  void* output;
  const void* mask;
  const void* valid_cols;  ///< int32
  void* workspace;
  int64 rows;
  int64 input_stride[2];
  int64 output_stride;
  /// Row r = (outer * mask_middle + middle) * mask_inner + inner has its mask at the sum of index * stride.
  int64 mask_inner, mask_middle, mask_inner_stride, mask_middle_stride, mask_outer_stride;
  int64 valid_cols_group;       ///< rows that share an entry of valid_cols
  int64 groups;                 ///< teams in the grid (GridTeam), or blocks per row (split)
  float scale;                  ///< positive
  float log2e_high, log2e_low;  ///< scale * log2(e) in two floats
  float far_below;              ///< 120 / scale
  float large_maximum;          ///< 2^20 / scale
  float reserved;
};

/// Elements from the aligned address at or before a row's start to the row's end, at most.
template <const RowShape& shape>
constexpr int64 row_span = shape.cols + (shape.shifted ? shape.line - 1 : 0);

/// Vectors of a row that each of `members` threads takes.
template <const RowShape& shape, int group_size>
constexpr int vectors_per_thread = static_cast<int>((row_span<shape> + int64{group_size} * shape.vector - 1) /
                                                    (int64{group_size} * shape.vector));

/// Whether the i-th vectors of `members` threads lie within every row, as far as the source knows.
template <const RowShape& shape, int group_size>
__device__ __forceinline__ constexpr bool inside_row(int i) {
  return (!shape.shifted || int64{i} * group_size * shape.vector >= shape.line) &&
         (int64{i} + 1) * group_size * shape.vector <= shape.cols;
}

/// One row: columns are counted from the aligned address at or before its first element, in every array.
template <const RowShape& shape>
struct Row {
  int64 index;
  int shift;
  Range all;   ///< what exists
  Range seen;  ///< what takes part: less when the row is ragged

  template <typename Input>
  __device__ __forceinline__ Row(const RowParams& params, int64 row, const Input*) : index(row), shift(0) {
    if constexpr (shape.shifted) {
      const auto* first = static_cast<const Input*>(params.input[0]) + row * params.input_stride[0];
      shift = static_cast<int>(reinterpret_cast<uint64>(first) / sizeof(Input)) & (shape.line - 1);
    }
    all = {shift, shift + shape.cols};
    int64 cols = shape.cols;
    if constexpr (shape.causal) cols = row % shape.cols + 1;
    if constexpr (shape.valid_cols) {
      const auto* lengths = static_cast<const int*>(params.valid_cols);
      const int64 length = lengths[params.valid_cols_group == 1 ? row : row / params.valid_cols_group];
      cols = length < cols ? (length > 0 ? length : 0) : cols;
    }
    seen = {shift, shift + cols};
  }

  template <typename Element>
  __device__ __forceinline__ const Element* input(const RowParams& params, int which) const {
    return static_cast<const Element*>(params.input[which]) + index * params.input_stride[which] - shift;
  }
  template <typename Element>
  __device__ __forceinline__ Element* output(const RowParams& params) const {
    return static_cast<Element*>(params.output) + index * params.output_stride - shift;
  }
};

struct NoMask {
  static constexpr bool present = false, adds = false;
  template <const RowShape& shape>
  static __device__ __forceinline__ void apply(const RowParams&, const Row<shape>&, int64, bool, float,
                                               const float (&)[shape.vector]) {}
};

/// Which columns `i` of a member are, of `members`.
template <const RowShape& shape, int group_size>
__device__ __forceinline__ int64 column_of(int i, int thread_rank) {
  return (int64(i) * group_size + thread_rank) * shape.vector;
}

/// Loads the vector at `column`; elements that take no part are `outside`.
template <typename Element, const RowShape& shape, LoadHint hint, int group_size>
__device__ __forceinline__ Packed<Element, shape.vector> load_of_row(const Element* row, int i, int thread_rank, Range seen,
                                                                     float outside) {
  return RowFeatures<shape>::SeenEdges::template load<Element, shape.vector, hint>(
      row, column_of<shape, group_size>(i, thread_rank), seen, !ragged<shape> && inside_row<shape, group_size>(i), outside);
}

}  // namespace tunesmith
