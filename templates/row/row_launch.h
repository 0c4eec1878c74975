#pragma once
// How a row kernel is started. Internal to templates/.

#include <cstddef>
#include <string>

#include "templates/row/row_config.h"
#include "tunesmith/launch.h"

namespace tunesmith::row {

/// Size of RowParams in row.cuh; the generated source asserts it.
inline constexpr std::size_t params_bytes = 160;

/// Kernels, parameters and workspace. `entry` is the kernel's name; a first kernel that leaves sums is called entry +
/// "_sums".
LaunchPlan launch_plan(const TypedConfig& config, const Shape& shape, const DeviceInfo& device, const std::string& entry,
                       const std::vector<ArrayInfo>& arrays);

}  // namespace tunesmith::row
