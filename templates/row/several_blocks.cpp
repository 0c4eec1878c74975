// Defaults of variants in which several blocks share a row: of few rows, so that all multiprocessors work, and of losses of
// long rows, so that the blocks are small.

#include <algorithm>

#include "templates/row/defaults.h"
#include "templates/row/geometry.h"
#include "templates/row/prefetch.h"

namespace tunesmith::row {
namespace {

/// Returns the blocks of a multiprocessor that bound the registers to 48 a thread: 10 of 128 threads instead of 6 or 7.
/// Label smoothing, argmax and soft caps would spill.
int many_blocks(const Shape& shape) noexcept { return shape.more_registers == 0 ? 10 : 6; }

TypedConfig split_of(int threads, int unroll, int min_blocks) {
  TypedConfig config;
  config.variant = Variant::split;
  config.threads = threads;
  config.unroll = unroll;
  config.min_blocks = min_blocks;
  return config;
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
  const bool lone_loss = shape.is_loss_alone() && !shape.wide();
  TypedConfig config = lone_loss ? split_of(128, 4, many_blocks(shape)) : split_of(256, 4, 1);
  config.blocks_per_row = std::max(2, parts_of(1, config, shape));
  lower_min_blocks(config, shape, device);
  return config;
}

std::optional<TypedConfig> loss_in_tiles(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t long_row_bytes = 64 << 10;
  const bool wide = size_of(shape.input) >= 4;
  if (!shape.is_loss_alone() || shape.wide() || shape.rows * 2 <= device.sm_count || row_bytes(shape) <= long_row_bytes ||
      shape.rows * row_bytes(shape) < device.l2_bytes)
    return std::nullopt;
  // With many waves of blocks, a larger tile costs less than more resident blocks gain, unless memory needs more loads.
  const bool few_waves = !wide && shape.traffic_bytes() <= 4 * device.l2_bytes, more_loads = needs_more_loads(device);
  TypedConfig config = split_of(128, few_waves || wide ? 4 : 8, few_waves || (wide && more_loads) ? many_blocks(shape) : 1);
  if (config.unroll == 8 && more_loads && shape.more_registers == 0) config.min_blocks = 6;
  config.blocks_per_row = parts_of(few_waves && more_loads ? 2 : 1, config, shape);
  lower_min_blocks(config, shape, device);
  return if_valid(with_hints(config, shape, device), shape, device);
}

}  // namespace tunesmith::row
