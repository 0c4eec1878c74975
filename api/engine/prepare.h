#pragma once
// From a parsed problem to a plan that can be launched: choose, build, load, bind. Internal.

#include <memory>
#include <string>

#include "api/engine/parts.h"
#include "templates/op.h"

namespace tunesmith {

struct PlanRequest {
  ParsedProblemPtr problem;
  Config pinned;  ///< complete, or empty: select
  Mode mode = Mode::tune;

  /// Equal texts, equal plans.
  std::string key() const;
};

/// Does the work, whatever has been done before. Throws what Engine::prepare documents.
std::shared_ptr<const Plan::State> make_plan(Engine::Parts& parts, const PlanRequest& request);

}  // namespace tunesmith
