#pragma once
// Outputs `colsum`: the persistent grid that computes partial sums, and the kernel that adds them up. Internal to
// templates/.

#include <cstdint>
#include <string>

#include "core/launch.h"
#include "templates/op.h"
#include "templates/row/config.h"

namespace tunesmith::row_program {

/// Changes the launch of a row program to a persistent grid with partial sums in the workspace, and adds the launch of the
/// second kernel. Without rows, that kernel alone writes zeros.
void add_column_sums(LaunchPlan& plan, const row::TypedConfig& config, const row::Shape& shape, const DeviceInfo& device);

/// Adds the second kernel to the source. `params`: its parameters' type; `rows`: of a partial sum of the first kernel.
void add_column_sums(SourceParts& parts, const std::string& params, std::int64_t rows);
void add_column_sums(SourceParts& parts, const row::TypedConfig& config, const std::string& params);
/// Adds the launch of the second kernel.
void add_column_sums_kernel(LaunchPlan& plan, std::int64_t cols, const DeviceInfo& device);

}  // namespace tunesmith::row_program
