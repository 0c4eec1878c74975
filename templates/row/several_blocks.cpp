// Defaults of variants in which several blocks share a row: of few rows, so that all multiprocessors work, and of losses of
// long rows, so that the blocks are small.

#include <algorithm>

#include "templates/row/defaults.h"
#include "templates/row/geometry.h"

namespace tunesmith::row {

TypedConfig grid_default(const Shape& shape, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::grid;
  const int wide = size_of(shape.input) >= 4 ? 8 : 4;
  for (const int vectors : {wide / shape.inputs, wide, 16})
    for (const int threads : {256, 512, 1024})
      if (share_row(config, threads, vectors, shape, device)) return config;
  return config;
}

TypedConfig split_default(const Shape& shape) {
  TypedConfig config;
  config.variant = Variant::split;
  config.unroll = 4;
  config.threads = 256;
  config.blocks_per_row = std::max(2, parts_of(1, config, shape));
  return config;
}

std::optional<TypedConfig> loss_in_tiles(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t long_row_bytes = 64 << 10;
  const bool wide = size_of(shape.input) >= 4;
  const std::int64_t row_bytes = shape.cols * size_of(shape.input);
  if (!shape.is_loss_alone() || shape.wide() || shape.rows * 2 <= device.sm_count || row_bytes <= long_row_bytes ||
      shape.rows * row_bytes < device.l2_bytes)
    return std::nullopt;
  TypedConfig config;
  config.variant = Variant::split;
  config.threads = 128;
  config.unroll = wide ? 4 : 8;
  config.blocks_per_row = parts_of(1, config, shape);
  return if_valid(with_hints(config, shape, device), shape, device);
}

}  // namespace tunesmith::row
