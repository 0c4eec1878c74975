// Parameters of the kernels in finalize.cuh. The host includes this file, too, and fills them.
#pragma once

#include "device/integers.cuh"

namespace tunesmith {

struct DivisorParams {
  const void* targets;    ///< (rows)
  const float* weight;    ///< (cols), or nullptr: all 1
  const float* dloss;     ///< (1), or nullptr: 1
  float* divisor;         ///< (1)
  float* gradient_scale;  ///< (1)
  float* scaled_weight;   ///< (cols), with `scales_weight`
  int64 rows, cols, ignore_index;
};

struct UpstreamParams {
  const float* dloss;   ///< (losses)
  const float* dlse;    ///< (rows)
  float* factor;        ///< (1)
  float* scaled_dloss;  ///< (losses)
  float* scaled_dlse;   ///< (rows)
  int64 losses, rows;
};

struct ReduceParams {
  const float* losses;    ///< (rows)
  const float* z_losses;  ///< (rows), or nullptr
  const float* divisor;   ///< (1), or nullptr: 1
  float* loss;            ///< (1)
  float* z_loss;          ///< (1), with z_losses
  int64 rows;
};

}  // namespace tunesmith
