#pragma once
// What an engine has prepared so far. Internal.

#include <atomic>
#include <memory>

#include "api/dispatch/call_key.h"
#include "api/dispatch/single_flight.h"
#include "api/dispatch/table.h"
#include "api/engine/plan_state.h"

namespace tunesmith {

/// The plan of a one-shot call, and which of the problem type's arrays it takes: bit i for the i-th.
struct KnownCall {
  std::shared_ptr<const Plan::State> plan;
  std::uint32_t selected = 0;
};

struct PlanTable {
  SingleFlight<std::shared_ptr<const Plan::State>> plans;     ///< by problem, configuration and mode
  SingleFlight<std::shared_ptr<const LoadedSource>> modules;  ///< by source_key()
  DispatchTable<CallKey, KnownCall> calls{4096};
  std::atomic<bool> reported_stale_records{false};
};

}  // namespace tunesmith
