#pragma once
// Prepares a plan for a parsed problem: select, build, load, bind. Internal.

#include <memory>
#include <string>

#include "api/engine/parts.h"
#include "templates/op.h"

namespace tunesmith {

struct PlanRequest {
  ParsedProblemPtr problem;
  Config pinned;  ///< complete, or empty to select one
  Mode mode = Mode::tune;

  /// Returns the key of the plan; equal keys mean equal plans.
  std::string key() const;
};

/// Makes a plan, without looking for an existing one. Throws the errors of Engine::prepare.
std::shared_ptr<const Plan::State> make_plan(Engine::Parts& parts, const PlanRequest& request);

}  // namespace tunesmith
