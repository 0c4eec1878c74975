// Registers, threads and blocks that fit on a multiprocessor, and cache hints.

#include "templates/row/defaults/geometry.h"

#include <algorithm>

#include "templates/eviction.h"

namespace tunesmith::row {

int resident_warps(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  // Each of four schedulers allocates its quarter of the registers to warps in units of 8 per thread; the compiler respects
  // this if min_blocks is given.
  constexpr int schedulers = 4, unit = 8, margin = 2;
  const int registers = (config.registers_needed(shape) + margin + unit - 1) / unit * unit;
  return schedulers * (device.registers_per_sm / schedulers / (32 * registers));
}

void bound_registers(TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  const int by_registers = resident_warps(config, shape, device) / (config.threads / 32);
  const int by_threads = device.max_threads_per_sm / config.threads;
  config.min_blocks = std::clamp(std::min(by_registers, by_threads), 1, 32);
}

void bound_persistent_warps(TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  if (config.variant == Variant::warp && config.bounds_registers(shape)) bound_registers(config, config.view(shape), device);
}

bool fill_chip(TypedConfig& config, int threads, int blocks, const Shape& shape, const DeviceInfo& device) {
  config.registers = may_pack(shape) ? Registers::packed : Registers::float32;
  return fill_registers(config, threads, blocks, shape, device);
}

bool fill_registers(TypedConfig& config, int threads, int blocks, const Shape& shape, const DeviceInfo& device) {
  config.threads = threads;
  config.min_blocks = blocks;
  const std::int64_t vectors = config.vectors_per_thread(shape);
  const std::int64_t most = config.variant == Variant::hybrid ? vectors - 1 : vectors;
  for (config.register_vectors = static_cast<int>(std::min<std::int64_t>(most, 16)); config.register_vectors >= 0;
       --config.register_vectors)
    if (why_invalid(config, shape, device).empty()) return true;
  config.register_vectors = 1;
  return false;
}

bool share_row(TypedConfig& config, int threads, int vectors, const Shape& shape, const DeviceInfo& device) {
  config.threads = threads;
  config.registers = may_pack(shape) ? Registers::packed : Registers::float32;
  config.register_vectors = vectors;
  const std::int64_t per_block = std::int64_t{threads} * vectors;
  const std::int64_t blocks = (shape.vectors_per_row() + per_block - 1) / per_block;
  config.blocks_per_row = static_cast<int>(std::clamp<std::int64_t>(blocks, 2, 1024));
  config.min_blocks = 1;
  bound_registers(config, shape, device);
  lower_min_blocks(config, shape, device);
  return blocks >= 2 && why_invalid(config, shape, device).empty();
}

int parts_of(int tiles, const TypedConfig& config, const Shape& shape) {
  const std::int64_t part = std::int64_t{config.threads} * config.unroll * tiles;
  return static_cast<int>(std::min<std::int64_t>((shape.vectors_per_row() + part - 1) / part, 1024));
}

TypedConfig with_hints(TypedConfig config, const Shape& shape, const DeviceInfo& device) {
  if (shape.cost.sums_once() && config.smem_bytes(shape) == 0) {
    // The vectors of a lane that holds a row share sectors of 32 bytes, which streaming may evict in between.
    const bool shares_sectors = config.variant == Variant::warp && config.lanes == 1 && shape.vectors_per_row() > 2;
    if (shape.traffic_bytes() <= (shares_sectors ? 2 : 8) * device.l2_bytes) config.load = LoadHint::streaming;
    return config;
  }
  if (shape.cost.writes && suits_evict_last(shape.traffic_bytes(), device)) {
    config.load = LoadHint::evict_last;
    if (config.reads_twice()) config.load_again = LoadHint::evict_first;
  } else if (!shape.in_place && (!config.reads_twice() || !shape.cost.writes) && config.smem_bytes(shape) == 0 &&
             shape.traffic_bytes() <= device.l2_bytes) {
    config.load = LoadHint::no_allocate;
  }
  return config;
}

}  // namespace tunesmith::row
