#pragma once
// The plans and calls that an engine has prepared. Internal.

#include <cstddef>
#include <memory>

#include "api/dispatch/call_key.h"
#include "api/dispatch/single_flight.h"
#include "api/dispatch/table.h"
#include "api/engine/plan_state.h"
#include "jit/workspace_pool.h"

namespace tunesmith {

/// The plan of a one-shot call, and which of the problem type's arrays it takes: bit i for the i-th.
struct KnownCall {
  std::shared_ptr<const Plan::State> plan;
  std::uint32_t selected = 0;
};

/// Beyond `capacity`, the least recently used plans and calls are dropped. Loaded modules and shared workspaces stay as long
/// as the engine, because graphs that were captured from one-shot calls may contain them.
struct PlanTable {
  PlanTable(Device& device, std::size_t capacity)
      : plans(capacity), binaries(capacity), calls(capacity), workspaces(device) {}

  SingleFlight<std::shared_ptr<const Plan::State>> plans;      ///< by problem, configuration and mode
  SingleFlight<std::shared_ptr<const LoadedSource>> binaries;  ///< by the fields that decide the source, and configuration
  SingleFlight<std::shared_ptr<const LoadedSource>> modules;   ///< by KernelSource::key()
  DispatchTable<CallKey, KnownCall> calls;
  WorkspacePool workspaces;
};

}  // namespace tunesmith
