#pragma once
// Outputs `colsum`, of columns and of one element: the persistent grid that computes partial sums, and the kernel that adds
// them up. Internal to templates/.

#include <cstdint>
#include <string>

#include "core/launch.h"
#include "templates/op.h"
#include "templates/row/config.h"

namespace tunesmith::row_program {

/// Changes the launch of a row program to a persistent grid with partial sums in the workspace, and adds the launch of the
/// second kernel. Without rows, that kernel alone writes zeros.
void add_column_sums(LaunchPlan& plan, const row::TypedConfig& config, const row::Shape& shape, const DeviceInfo& device);

/// Sums that the second kernel adds up.
struct PartialSumsText {
  std::string rows;         ///< of a partial sum of columns of the first kernel
  std::int64_t blocks = 1;  ///< that share rows
  bool totals = false;      ///< there are sums of one element
  std::string of;           ///< what has partial sums, for the source's description
};

/// Adds the second kernel to the source. `params`: its parameters' type.
void add_column_sums(SourceParts& parts, const std::string& params, const PartialSumsText& sums);
void add_column_sums(SourceParts& parts, const row::TypedConfig& config, const row::Shape& shape);
/// Adds the launch of the second kernel. `cols`: 0 without sums of columns.
void add_column_sums_kernel(LaunchPlan& plan, std::int64_t cols, const DeviceInfo& device);

}  // namespace tunesmith::row_program
