#pragma once
// Staggered starts of the blocks of a multiprocessor (device/stagger.cuh). Internal to templates/row.

#include "templates/row/config.h"

namespace tunesmith::row {

/// Returns the rate at which a multiprocessor loads while all of them do, in bytes per ns: TypedConfig::stagger_bytes_per_ns
/// of a staggered kernel. 0 if this configuration has at most one block on each multiprocessor at the start.
int full_stagger(const TypedConfig& config, const Shape& shape, const DeviceInfo& device);
/// Returns the stagger of a default configuration: 0 where it was not faster, and before sm_90.
int default_stagger(const TypedConfig& config, const Shape& shape, const DeviceInfo& device);

/// Returns the delay of a block for each one before it; of a bucket's kernel, for its widest row.
int stagger_ns(const TypedConfig& config, const Shape& shape);

}  // namespace tunesmith::row
