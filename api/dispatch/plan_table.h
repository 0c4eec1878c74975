#pragma once
// What an engine has prepared so far. Internal.

#include <atomic>
#include <memory>

#include "api/dispatch/call_key.h"
#include "api/dispatch/single_flight.h"
#include "api/dispatch/table.h"
#include "api/engine/plan_state.h"

namespace tunesmith {

struct PlanTable {
  SingleFlight<std::shared_ptr<const Plan::State>> plans;     ///< by problem, configuration and mode
  SingleFlight<std::shared_ptr<const LoadedSource>> modules;  ///< by source_key()
  // Into the executables that `plans` keeps.
  DispatchTable<CallKey, Executable> calls;
  std::atomic<bool> reported_stale_records{false};
};

}  // namespace tunesmith
