// Shared by kernels over a strided dimension of the logits: parameters, and the targets of a thread's positions. A row of
// cross-entropy is the logits of all classes at one position.
#pragma once

#include "cross_entropy/running.cuh"
#include "strided/strided.cuh"

namespace tunesmith {

/// Parameters of a cross-entropy kernel, in which rows are positions, and the places of logits and dlogits.
template <typename Params>
struct StridedLogits : Params {
  StridedParams strided;
};

/// The targets of a thread's vector of positions.
template <typename TargetType, const RowShape& shape, const StridedConfig& config>
struct StridedTargets {
  int64 first;  ///< the first position
  Later<Target<TargetType>> of[config.vector];
  int own[config.vector];  ///< which of this thread's columns is the target, or a negative number

  template <typename Params>
  __device__ __forceinline__ StridedTargets(const Params& params, const StridedPlace<shape, config>& place)
      : first((place.row * params.strided.vectors_per_row + place.vector) * config.vector) {
#pragma unroll
    for (int j = 0; j < config.vector; ++j) {
      of[j].value = Target<TargetType>(params, first + j, shape.cols);
      const int64 column = of[j].value.column;
      const int from_member = static_cast<int>(column - place.begin) - place.member;
      const bool mine =
          column >= place.begin && column < place.end && from_member >= 0 && from_member % members<config> == 0;
      own[j] = mine ? from_member / members<config> : -1;
    }
  }
};

/// The columns before `end` as a row of adjacent ones, which the functions for rows take.
template <const RowShape& shape>
__device__ __forceinline__ Row<shape> columns_before(const RowParams& params, int64 end) {
  Row<shape> row(params, 0, static_cast<const float*>(nullptr));
  row.all.end = end;
  return row;
}

}  // namespace tunesmith
