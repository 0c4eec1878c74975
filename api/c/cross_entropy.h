#pragma once
// Cross-entropy as the C API has it, as typed problems and arrays. Internal. All throw Error(invalid_argument).

#include "tunesmith/c_api.h"
#include "tunesmith/cross_entropy.h"

namespace tunesmith {

/// `dtype` and `out_dtype` as C numbers have them; shared by what takes float arrays.
DType float_dtype_from_c(int number, const char* argument);

struct CrossEntropyCall {
  CrossEntropyArrays arrays;
  CrossEntropyProblem problem;
};
CrossEntropyCall cross_entropy_from_c(const tunesmith_cross_entropy_arrays& arrays,
                                      const tunesmith_cross_entropy_problem& problem);

struct CrossEntropyBackwardCall {
  CrossEntropyBackwardArrays arrays;
  CrossEntropyBackwardProblem problem;
};
CrossEntropyBackwardCall cross_entropy_backward_from_c(const tunesmith_cross_entropy_backward_arrays& arrays,
                                                       const tunesmith_cross_entropy_problem& problem);

}  // namespace tunesmith
