#pragma once
// Configurations of the two kernels of the cross-entropy family that are no row kernels: the gradient from lse, tile by
// tile, and the combination of shards, a thread for a row. Internal to templates/.

#include <cstdint>
#include <string>
#include <vector>

#include "templates/cross_entropy/problem.h"
#include "tunesmith/device_info.h"
#include "tunesmith/problem.h"

namespace tunesmith::cross_entropy {

/// A tile of a row for each block.
struct TileConfig {
  int threads = 256;
  int unroll = 1;  ///< vectors a thread has in flight
  std::string load = "plain", store = "plain";

  /// Throws Error(invalid_argument) naming the field, its value and what is allowed.
  static TileConfig parse(const Config& config);
  Config to_config() const;
  std::int64_t blocks_per_row(const row::Shape& shape) const noexcept;
};

std::vector<FieldInfo> tile_config_fields();
std::string why_invalid(const TileConfig& config, const row::Shape& shape, const DeviceInfo& device);
TileConfig default_tile_config(const row::Shape& shape, const DeviceInfo& device);
Config complete_tile_config(const Config& partial, const row::Shape& shape, const DeviceInfo& device);
std::vector<Config> tile_search_space(const row::Shape& shape, const DeviceInfo& device, Effort effort);

}  // namespace tunesmith::cross_entropy
