#pragma once
// Fits threads, blocks and resident rows to a device, for the default configuration and the search. Internal to
// templates/row.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <optional>

#include "templates/row/config.h"

namespace tunesmith::row {

inline constexpr std::int64_t kib = 1024;

/// Returns the least power of two that is at least `value`, within `least` and `most`, which are powers of two.
inline int power_of_two_up(std::int64_t value, int least, int most) {
  const auto clamped = static_cast<std::uint64_t>(std::clamp<std::int64_t>(value, least, most));
  return static_cast<int>(std::bit_ceil(clamped));
}

/// Returns the number of threads for these accesses with `each` in a thread: a power of two.
inline int threads_for(std::int64_t accesses, std::int64_t each, int least, int most) {
  return power_of_two_up((accesses + each - 1) / each, least, most);
}

/// Returns whether elements have 16 bits or fewer.
inline bool is_narrow(const Shape& shape) noexcept { return size_of(shape.input) < 4; }

/// Returns whether a program has one reduction of one number, such as a root mean square.
inline bool has_one_short_stage(const Shape& shape) noexcept {
  return shape.cost.composed && shape.cost.reduces && shape.cost.writes && shape.cost.stages == 1 &&
         shape.cost.exchanged_floats <= 2 && shape.inputs == 1 && !shape.cost.sums_rows();
}

/// Returns whether a program has two reductions of its only input, such as a maximum and a sum, and nothing else to load.
inline bool has_two_stages_of_one_input(const Shape& shape) noexcept {
  return shape.cost.composed && shape.cost.stages == 2 && shape.inputs == 1 && shape.more_outputs == 0 &&
         !shape.cost.reads_columns() && !shape.has_bytes() && shape.cost.lanes_of_group == 1;
}

/// Returns the resident bytes of a row over all inputs.
inline std::int64_t row_bytes(const Shape& shape) noexcept { return shape.cols * shape.resident_element_bytes(); }

/// Returns whether rows of the first input consist of whole cache lines.
inline bool has_whole_lines(const Shape& shape) noexcept { return shape.cols * size_of(shape.input) % line_bytes == 0; }

/// Returns the blocks of a multiprocessor, rounded up, if all of them share all rows with `of_row` blocks for each.
inline int needed_blocks(const Shape& shape, int of_row, const DeviceInfo& device) {
  return static_cast<int>((shape.rows_bucket() * of_row + device.sm_count - 1) / device.sm_count);
}

/// Returns whether resident rows may be packed: for 16-bit results only, because precise arithmetic keeps more values in
/// registers and packed rows would spill, and without masks that need float32.
inline bool may_pack(const Shape& shape) noexcept {
  return size_of(shape.input) == 2 && shape.output != DType::f32 && shape.options.mask != Mask::add && shape.vector() > 1;
}

/// Returns the number of warps for which a multiprocessor has registers, with the estimated registers of this configuration.
int resident_warps(const TypedConfig& config, const Shape& shape, const DeviceInfo& device);

/// Sets min_blocks to the number of blocks that registers and threads allow, so that the compiler does not use more
/// registers than necessary.
void bound_registers(TypedConfig& config, const Shape& shape, const DeviceInfo& device);
/// The same for warps of a persistent grid, whose blocks have to be resident at once; other configurations stay as they are.
void bound_persistent_warps(TypedConfig& config, const Shape& shape, const DeviceInfo& device);

/// hybrid, cluster, grid: fits `blocks` blocks of `threads` threads on a multiprocessor. Keeps as much of the row in
/// registers as they allow, and the rest in shared memory. Returns false if the row does not fit, or (hybrid) if it fits
/// into registers alone.
bool fill_chip(TypedConfig& config, int threads, int blocks, const Shape& shape, const DeviceInfo& device);
/// The same with the representation in registers that `config` has.
bool fill_registers(TypedConfig& config, int threads, int blocks, const Shape& shape, const DeviceInfo& device);

/// grid: gives each thread `vectors` vectors of a row. The number of blocks depends only on n_cols, so results do not depend
/// on the number of rows. Returns false if a row does not fit on the device.
bool share_row(TypedConfig& config, int threads, int vectors, const Shape& shape, const DeviceInfo& device);

/// split: returns the number of blocks per row if each block processes `tiles` tiles.
int parts_of(int tiles, const TypedConfig& config, const Shape& shape);

/// Sets the cache hints that are best without measurements: keep loaded data in L2 if the arrays are far larger than it.
/// Sums alone are tuned to streaming loads up to 270 MB on an H200 and 200 MB on an H100, by up to 10 and 17%; beyond,
/// nothing differs.
TypedConfig with_hints(TypedConfig config, const Shape& shape, const DeviceInfo& device);

/// Lowers min_blocks until the configuration is valid, or to 1.
inline void lower_min_blocks(TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  while (config.min_blocks > 1 && !why_invalid(config, shape, device).empty()) --config.min_blocks;
}

/// Returns `config`, or nothing if it is invalid.
inline std::optional<TypedConfig> if_valid(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  if (!why_invalid(config, shape, device).empty()) return std::nullopt;
  return config;
}

}  // namespace tunesmith::row
