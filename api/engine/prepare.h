#pragma once
// Prepares a plan for a parsed problem: select, build, load, bind. Internal.

#include <memory>

#include "api/engine/parts.h"
#include "api/engine/plan_request.h"

namespace tunesmith {

/// Makes a plan, without looking for an existing one. Throws the errors of Engine::prepare.
std::shared_ptr<const Plan::State> make_plan(Engine::Parts& parts, const PlanRequest& request);

}  // namespace tunesmith
