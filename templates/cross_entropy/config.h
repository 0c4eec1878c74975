#pragma once
// Configurations of the two cross-entropy kernels that are not row kernels: the gradient from lse, one tile per block, and
// the combination of shards, one thread per row. Internal to templates/.

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "templates/config_values.h"
#include "templates/cross_entropy/problem.h"
#include "templates/row/config.h"
#include "tunesmith/device_info.h"
#include "tunesmith/problem.h"

namespace tunesmith::cross_entropy {

enum class TileVariant : std::uint8_t { tiles };

/// One tile of a row per block.
struct TileConfig {
  TileVariant variant = TileVariant::tiles;
  int threads = 256;
  int unroll = 1;  ///< vectors in flight per thread
  LoadHint load = LoadHint::plain;
  StoreHint store = StoreHint::plain;

  /// Throws Error(invalid_argument) with the field, its value and the allowed values.
  static TileConfig parse(const Config& config);
  Config to_config() const;
  bool operator==(const TileConfig&) const = default;
  std::int64_t blocks_per_row(const row::Shape& shape) const noexcept;
};

/// The one configuration of the kernel that combines shards: a thread per row.
struct CombineConfig {
  static constexpr int threads = 128;

  static CombineConfig parse(const Config& config);
  Config to_config() const;
  bool operator==(const CombineConfig&) const = default;
};

/// A configuration of one kind of kernel (Settings::kind).
struct LossConfig {
  std::variant<row::TypedConfig, TileConfig, CombineConfig> kind;

  Config to_config() const;
  bool operator==(const LossConfig&) const = default;
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
