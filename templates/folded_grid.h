#pragma once
// Grids of more blocks than one dimension has places, and of clusters. Internal to templates/.

#include <cstdint>

#include "tunesmith/device_info.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// Returns a grid of at least `blocks` blocks, folded over y; `unit` blocks stay together in x (a cluster). Throws
/// Error(invalid_argument) beyond what a grid holds.
Dim3 folded_grid(std::int64_t blocks, std::int64_t unit = 1);

/// Blocks of the largest cluster: H100 and H200 form some that are not portable.
int most_cluster_blocks(const DeviceInfo& device) noexcept;

}  // namespace tunesmith
