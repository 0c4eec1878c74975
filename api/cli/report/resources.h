#pragma once
// The resources of compiled kernels, one row for each.

#include <string>
#include <vector>

#include "api/cli/report/table.h"
#include "core/launch.h"
#include "jit/compiler.h"
#include "tunesmith/device_info.h"

namespace tunesmith::cli {

/// Returns the columns of resource_rows().
std::vector<Column> resource_columns();
/// Returns registers, shared memory, spills and occupancy of each kernel of the plan.
std::vector<std::vector<std::string>> resource_rows(const DeviceInfo& device, const LaunchPlan& plan, const Binary& binary);

}  // namespace tunesmith::cli
