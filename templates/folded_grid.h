#pragma once
// Grids with more blocks than one dimension allows, and clusters. Internal to templates/.

#include <cstdint>

#include "core/launch.h"
#include "tunesmith/device_info.h"
#include "tunesmith/types.h"

namespace tunesmith {

/// Returns a grid of at least `blocks` blocks, folded into y; `unit` blocks stay together in x (a cluster). Throws
/// Error(invalid_argument) if there are more blocks than a grid allows.
Dim3 folded_grid(std::int64_t blocks, std::int64_t unit = 1);

/// Returns a launch of `entry` with at least `blocks` blocks, folded as above.
KernelLaunch folded_launch(const char* entry, std::int64_t blocks, std::int64_t threads, std::int64_t dynamic_smem_bytes);

/// Returns the maximum cluster size: H100 and H200 support non-portable sizes.
int max_cluster_blocks(const DeviceInfo& device) noexcept;

}  // namespace tunesmith
