// Defaults of variants in which several blocks share a row: for few rows (to fill the GPU) and for sums of long rows (to
// keep blocks small).

#include <algorithm>

#include "templates/row/defaults/defaults.h"
#include "templates/row/defaults/geometry.h"
#include "templates/row/defaults/memory.h"

namespace tunesmith::row {
namespace {

/// Returns the blocks of a multiprocessor that bound the registers to 48 a thread: 10 of 128 threads instead of 6 or 7.
/// Label smoothing, argmax and soft caps would spill.
int many_blocks(const Shape& shape) noexcept { return shape.cost.more_registers == 0 ? 10 : 6; }

TypedConfig split_of(int threads, int unroll, int min_blocks) {
  TypedConfig config;
  config.variant = Variant::split;
  config.threads = threads;
  config.unroll = unroll;
  config.min_blocks = min_blocks;
  return config;
}

/// Returns the blocks of a sum, each with a tile of 8 to 16 KiB, or with two.
TypedConfig block_of_tiles(const Shape& shape, const DeviceInfo& device) {
  const bool more_loads = needs_more_loads(device), few_waves = shape.traffic_bytes() <= 4 * device.l2_bytes;
  const auto with_tiles = [&](int tiles, TypedConfig config) {
    config.blocks_per_row = parts_of(tiles, config, shape);
    return config;
  };
  // With many waves of blocks, a larger tile costs less than more resident blocks gain, unless memory needs more loads.
  if (size_of(shape.input) >= 4) return with_tiles(1, split_of(128, 4, more_loads ? many_blocks(shape) : 1));
  if (few_waves) return with_tiles(more_loads ? 2 : 1, split_of(128, 4, many_blocks(shape)));
  return with_tiles(1, split_of(128, 8, more_loads && shape.cost.more_registers == 0 ? 6 : 1));
}

}  // namespace

TypedConfig grid_default(const Shape& shape, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::grid;
  const int wide = size_of(shape.input) >= 4 ? 8 : 4;
  for (const int vectors : {wide / shape.inputs, wide, 16})
    for (const int threads : {256, 512, 1024})
      if (share_row(config, threads, vectors, shape, device)) return config;
  return config;
}

TypedConfig split_default(const Shape& shape, const DeviceInfo& device) {
  const bool sums_once = shape.cost.sums_once() && !shape.wide();
  TypedConfig config = sums_once ? split_of(128, 4, many_blocks(shape)) : split_of(256, 4, 1);
  config.blocks_per_row = std::max(2, parts_of(1, config, shape));
  lower_min_blocks(config, shape, device);
  return config;
}

std::optional<TypedConfig> sums_in_tiles(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t long_row_bytes = 64 << 10;
  if (!shape.cost.sums_once() || shape.wide() || shape.rows * 2 <= device.sm_count || row_bytes(shape) <= long_row_bytes ||
      shape.rows * row_bytes(shape) < device.l2_bytes)
    return std::nullopt;
  TypedConfig config = block_of_tiles(shape, device);
  lower_min_blocks(config, shape, device);
  return if_valid(with_hints(config, shape, device), shape, device);
}

}  // namespace tunesmith::row
