#pragma once
// A parsed problem and how to prepare it. Internal.

#include <string>

#include "templates/op.h"
#include "tunesmith/types.h"

namespace tunesmith {

struct PlanRequest {
  ParsedProblemPtr problem;
  Config pinned{};  ///< complete, or empty to select one
  Mode mode = Mode::tune;
  Specialize specialize = Specialize::exact;  ///< exact for operations without kernels for a capacity

  /// Returns the key of the plan; equal keys mean equal plans.
  std::string key() const;
};

}  // namespace tunesmith
