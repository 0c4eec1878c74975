// Parameters of attention/modification.cuh. The host includes this file, too, and fills them.
#pragma once

#include "attention/params.cuh"

namespace tunesmith {

/// The kernel's only argument.
struct ModificationParams {
  uint64 aux[attention_aux_slots];
  const int* places;  ///< (rows, 5): batch entry, head, query, first key, number of keys
  float* scores;      ///< (rows, keys): replaced by their score_mod, or by -inf where mask_mod masks the pair
  int64 rows, keys;
  int64 stride;  ///< number of threads in the grid
};

}  // namespace tunesmith
