#pragma once
// Launch plan of a row kernel. Internal to templates/.

#include <cstddef>
#include <cstdint>
#include <string>

#include "core/launch.h"
#include "templates/row/config.h"
#include "templates/row/own_params.h"
#include "tunesmith/array_info.h"

namespace tunesmith {
struct RowParams;
}

namespace tunesmith::row {

/// Sets the parameters that depend on `scale`, the factor of the elements.
void set_scale(RowParams& params, double scale, bool wide);

/// Returns the offset in RowParams of the address of an array: the output, or an input, at `position` among all arrays.
/// Throws Error(unsupported) if RowParams have fewer inputs.
std::uint32_t offset_of_rows(const ArrayInfo& array, std::size_t position);

/// Size of a block's partial of a split row unless an operation has its own.
inline constexpr std::int64_t usual_part_bytes = 16;

/// Returns kernels, parameters and workspace. `entry` is the kernel's name; a first kernel that writes partials is named
/// entry + "_sums". Arrays that `own` does not name are, in order, the inputs and the output of the rows, or their options.
LaunchPlan launch_plan(const TypedConfig& config, const Shape& shape, const DeviceInfo& device, const std::string& entry,
                       std::span<const ArrayInfo> arrays, const OwnParams& own = {},
                       std::int64_t part_bytes = usual_part_bytes);

}  // namespace tunesmith::row
