#pragma once
// Threads, blocks and places for a row on a device: what the default configuration and the search are made from. Internal to
// templates/row.

#include "templates/row/config.h"

namespace tunesmith::row {

/// Rows may wait as they lie in memory: 16-bit arithmetic only, because the precise one works on so much at once that packed
/// rows would spill, and no mask that needs more digits.
inline bool may_pack(const Shape& shape) noexcept {
  return size_of(shape.input) == 2 && shape.output != DType::f32 && shape.options.mask != Mask::add && shape.vector() > 1;
}

/// Warps of threads that each need as many registers as estimated for this configuration that a multiprocessor has registers
/// for.
int resident_warps(const TypedConfig& config, const Shape& shape, const DeviceInfo& device);

/// min_blocks: as many resident blocks as registers and threads allow, so that the compiler does not spend registers it need
/// not.
void bound_registers(TypedConfig& config, const Shape& shape, const DeviceInfo& device);

/// hybrid, cluster: places `blocks` blocks of `threads` threads on a multiprocessor. Keeps as much of the row in registers
/// as they leave free, and the rest in shared memory. Returns false if the row does not fit, or (hybrid) fits into
/// registers.
bool fill_chip(TypedConfig& config, int threads, int blocks, const Shape& shape, const DeviceInfo& device);

/// grid: gives each thread `vectors` vectors of a row. The number of blocks depends on n_cols alone, so that results do not
/// depend on the number of rows. Returns false if one row does not fit on the device.
bool share_row(TypedConfig& config, int threads, int vectors, const Shape& shape, const DeviceInfo& device);

/// split: number of blocks per row if each block takes `tiles` tiles.
int parts_of(int tiles, const TypedConfig& config, const Shape& shape);

}  // namespace tunesmith::row
