// Parameters of kernels over a strided dimension: arrays of the shape (rows, cols, inner) whose columns are not adjacent.
#pragma once

#include "row/params.cuh"

namespace tunesmith {

/// A vector is `StridedConfig::vector` neighbouring elements of one column. Strides are in elements. RowParams has the
/// strides between rows.
struct StridedParams {
  RowParams row;
  int64 vectors;                                        ///< of one column, over all rows: rows * inner / vector
  int64 vectors_per_row;                                ///< inner / vector
  int64 first_cols, second_cols, output_cols;           ///< from one column to the next; first, second: of the inputs
  int64 first_vectors, second_vectors, output_vectors;  ///< from one vector of a column to the next
};

}  // namespace tunesmith
