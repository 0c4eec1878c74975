#pragma once
// Configuration of the gradient from lse over a strided dimension: each block processes one tile of positions and columns.
// Internal to templates/cross_entropy.

#include <string>
#include <vector>

#include "core/launch.h"
#include "templates/cross_entropy/config.h"
#include "templates/strided/config.h"

namespace tunesmith::cross_entropy {

struct PositionTiles {
  TileVariant variant = TileVariant::tiles;
  int threads = 256;
  int lanes = 32;  ///< threads that process neighbouring vectors of positions
  int unroll = 8;  ///< columns of a thread
  LoadHint load = LoadHint::plain;
  StoreHint store = StoreHint::plain;

  /// Throws Error(invalid_argument) with the field, its value and the allowed values.
  static PositionTiles parse(const Config& config);
  Config to_config() const;
  bool operator==(const PositionTiles&) const = default;
  /// Returns the same tiles as slices of the columns; a block processes a slice at once.
  strided::TypedConfig as_slices(const strided::Shape& shape) const;
  std::vector<KernelLaunch> launches(const strided::Shape& shape, const std::string& entry) const;
};

/// A configuration of the loss, or of the gradient from lse.
struct StridedLossConfig {
  std::variant<strided::TypedConfig, PositionTiles> kind;

  Config to_config() const;
  bool operator==(const StridedLossConfig&) const = default;
};

/// Describes the fields of a configuration.
void describe(const PositionTiles& config, Description& description);
std::string why_invalid(const PositionTiles& config, const strided::Shape& shape, const DeviceInfo& device);
PositionTiles default_position_tiles(const strided::Shape& shape, const DeviceInfo& device);
Config complete_position_tiles(const Config& partial, const strided::Shape& shape, const DeviceInfo& device);
std::vector<Config> position_tiles_space(const strided::Shape& shape, const DeviceInfo& device, Effort effort);

}  // namespace tunesmith::cross_entropy
