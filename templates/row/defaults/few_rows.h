#pragma once
// Configurations for few long rows: clusters, or blocks of a cooperative grid, hold as many rows as fit on the chip, so that
// all multiprocessors work and few waves are needed. Internal to templates/row.

#include <optional>
#include <vector>

#include "templates/row/config.h"

namespace tunesmith::row {

/// Returns a shape of a bucket whose blocks are sized_by_row: min_blocks need to fit for the narrower half of the bucket's
/// widths only. The wider half then has as many blocks as with a smaller min_blocks.
Shape fitting_half_of_bucket(Shape shape);
/// Returns clusters of 8 blocks for each row, if there are enough rows for them; for rows that Shape::few_and_long().
std::optional<TypedConfig> cluster_for_few_rows(const Shape& shape, const DeviceInfo& device);
/// Returns whether all rows run at once, on nearly all places that the device has for blocks of this grid.
bool fills_device(const TypedConfig& grid, const Shape& shape, const DeviceInfo& device);
/// Returns the grid that needs the fewest waves, if it uses most of the device; for rows that Shape::few_and_long().
std::optional<TypedConfig> wave_default(const Shape& shape, const DeviceInfo& device);
/// Returns clusters of 4 and 8 blocks to try.
std::vector<TypedConfig> clusters_to_try(const Shape& shape, const DeviceInfo& device, bool full);
/// Returns grids to try, the fewest waves first.
std::vector<TypedConfig> waves_to_try(const Shape& shape, const DeviceInfo& device, bool full);

}  // namespace tunesmith::row
