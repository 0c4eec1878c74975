// Parameters of kernels that compute gradients of user arrays. The host includes this file, too, and fills them.
#pragma once

#include "attention/modification_params.cuh"
#include "attention_backward/wgmma_params.cuh"

namespace tunesmith {

/// Gradients of the arrays in AttentionParams::aux. Their elements are numbered array by array.
struct AuxGradients {
  float* to[attention_aux_slots];      ///< nullptr: none
  int64 first[attention_aux_slots];    ///< number of the array's first element
  int64 lengths[attention_aux_slots];  ///< 0: none
  int64 elements;                      ///< of all arrays
  int64 sums_at, largest_at;           ///< bytes from the start of the workspace
  int64 stride;                        ///< threads of the first and of the last kernel
  int shift;                           ///< integers are sums in units of 2^-shift of a power of two above the largest term
};

/// The kernels' only argument.
struct AttentionBackwardAuxParams {
  AttentionBackwardParams backward;
  AuxGradients aux;
};
/// The same for wgmma.
struct WgmmaBackwardAuxParams {
  WgmmaBackwardParams wgmma;
  AuxGradients aux;
};

/// Of the kernel that evaluates derivatives alone.
struct AuxTermParams {
  ModificationParams modification;  ///< scores are replaced by derivatives
  int64* elements;                  ///< (rows, keys): number of the element, -1: there are no more reads
  int64 first[attention_aux_slots];
  int wanted;  ///< number of the read
};

}  // namespace tunesmith
