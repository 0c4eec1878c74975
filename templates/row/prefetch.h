#pragma once
// Rows that blocks bring into L2 for later ones (row/schedules/later_rows.cuh). Internal to templates/row.

#include <string>

#include "templates/row/config.h"

namespace tunesmith::row {

/// Returns the blocks of a multiprocessor that run at the same time; of variant=warp, by an estimate of its registers.
int resident_blocks(const TypedConfig& config, const Shape& shape);
/// Returns the template arguments of a kernel's prefetches: "9, 16".
std::string prefetch_arguments(const TypedConfig& config, const Shape& shape);

/// Returns the blocks of a multiprocessor whose rows memory delivers in its latency: TypedConfig::prefetch_blocks of a
/// kernel with a prefetch. 0 if this configuration cannot have one, or if all blocks start at once.
int full_prefetch(const TypedConfig& config, const Shape& shape, const DeviceInfo& device);
/// Returns the prefetch_blocks of a default configuration: 0 where a prefetch was not faster, and before sm_90.
int default_prefetch(const TypedConfig& config, const Shape& shape, const DeviceInfo& device);

}  // namespace tunesmith::row
