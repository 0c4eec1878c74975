#pragma once
// Configurations of the two kernels of the cross-entropy family that are no row kernels: the gradient from lse, tile by
// tile, and the combination of shards, a thread for a row. Internal to templates/.

#include <cstdint>
#include <string>
#include <vector>

#include "templates/config_values.h"
#include "templates/cross_entropy/problem.h"
#include "tunesmith/device_info.h"
#include "tunesmith/problem.h"

namespace tunesmith::cross_entropy {

enum class TileVariant : std::uint8_t { tiles };

/// A tile of a row for each block.
struct TileConfig {
  TileVariant variant = TileVariant::tiles;
  int threads = 256;
  int unroll = 1;  ///< vectors a thread has in flight
  LoadHint load = LoadHint::plain;
  StoreHint store = StoreHint::plain;

  /// Throws Error(invalid_argument) naming the field, its value and what is allowed.
  static TileConfig parse(const Config& config);
  Config to_config() const;
  std::int64_t blocks_per_row(const row::Shape& shape) const noexcept;
};

/// Describes the fields of a configuration.
void describe(const TileConfig& config, Description& description);
std::vector<FieldInfo> tile_config_fields();
std::string why_invalid(const TileConfig& config, const row::Shape& shape, const DeviceInfo& device);
TileConfig default_tile_config(const row::Shape& shape, const DeviceInfo& device);
Config complete_tile_config(const Config& partial, const row::Shape& shape, const DeviceInfo& device);
std::vector<Config> tile_search_space(const row::Shape& shape, const DeviceInfo& device, Effort effort);

}  // namespace tunesmith::cross_entropy

namespace tunesmith {
template <>
inline constexpr std::array<std::string_view, 1> enum_names<cross_entropy::TileVariant>{"tiles"};
}  // namespace tunesmith
