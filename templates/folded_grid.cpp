#include "templates/folded_grid.h"

#include <limits>

#include "tunesmith/error.h"

namespace tunesmith {

Dim3 folded_grid(std::int64_t blocks, std::int64_t unit) {
  constexpr std::int64_t max_grid_x = std::numeric_limits<std::int32_t>::max();
  constexpr std::int64_t max_grid_y = 65535;
  const std::int64_t most = max_grid_x / unit * unit;
  const std::int64_t folds = (blocks + most - 1) / most;
  if (folds > max_grid_y)
    throw Error(ErrorCode::invalid_argument, "the launch takes ", blocks, " blocks; a grid holds at most ",
                most * max_grid_y);
  std::int64_t wide = (blocks + folds - 1) / folds;
  wide = (wide + unit - 1) / unit * unit;
  return {static_cast<std::uint32_t>(wide), static_cast<std::uint32_t>(folds), 1};
}

KernelLaunch folded_launch(const char* entry, std::int64_t blocks, std::int64_t threads, std::int64_t dynamic_smem_bytes) {
  KernelLaunch launch;
  launch.entry = entry;
  launch.grid = folded_grid(blocks);
  launch.block = {static_cast<std::uint32_t>(threads), 1, 1};
  launch.dynamic_smem_bytes = dynamic_smem_bytes;
  return launch;
}

int max_cluster_blocks(const DeviceInfo& device) noexcept {
  return device.arch.number() == 90 ? 2 * device.max_cluster_blocks : device.max_cluster_blocks;
}

}  // namespace tunesmith
