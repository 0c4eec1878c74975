#pragma once
// How a row kernel is started. Internal to templates/.

#include <cstddef>
#include <string>

#include "core/launch.h"
#include "templates/row/config.h"
#include "templates/row/own_params.h"
#include "tunesmith/array_info.h"

namespace tunesmith::row {

/// Size of RowParams in row.cuh; the generated source asserts it.
inline constexpr std::size_t params_bytes = 160;

/// Where the addresses of logits or x, and of what is written, stand in them.
inline constexpr std::uint32_t input_offset = 0, output_offset = 16, workspace_offset = 40;
/// What a block of a split row leaves for the second kernel (SoftmaxPart, GradientPart), unless an operation says otherwise.
inline constexpr std::int64_t usual_part_bytes = 16;

/// Kernels, parameters and workspace. `entry` is the kernel's name; a first kernel that leaves sums is called entry +
/// "_sums". Arrays that `own` does not name are, in their order, the inputs and the output of the rows, or options of
/// theirs.
LaunchPlan launch_plan(const TypedConfig& config, const Shape& shape, const DeviceInfo& device, const std::string& entry,
                       const std::vector<ArrayInfo>& arrays, const OwnParams& own = {},
                       std::int64_t part_bytes = usual_part_bytes);

}  // namespace tunesmith::row
