// Defaults of kernels that do not keep rows on the chip, and of kernels that only read.

#include <cmath>

#include "templates/row/defaults/defaults.h"
#include "templates/row/defaults/geometry.h"

namespace tunesmith::row {
namespace {

/// A kernel that only reads needs bytes in flight: 1536 threads on each multiprocessor, whether it has one, two or many
/// rows. On an H200, 0.59 to 1.0 of the time of blocks of 512 threads (NOTES.md, "Bytes in flight"). Bounded registers avoid
/// losing a resident block. Threads that sort columns have fewer and larger parts of a row: 0.75 to 0.94 of the time on an
/// H100 for gates of 32000 to 128256 columns.
TypedConfig reader_default(const Shape& shape, const DeviceInfo& device) {
  const std::int64_t row_bytes = shape.cols * size_of(shape.input);
  const bool medium_rows =
      shape.cost.terms_once && size_of(shape.input) < 4 && row_bytes > 48 << 10 && row_bytes <= 64 << 10;
  TypedConfig config;
  config.variant = Variant::two_pass;
  const bool sorts = shape.cost.sorted_columns > 0;
  config.unroll = medium_rows ? 8 : sorts && size_of(shape.input) < 4 ? 2 : 4;
  const std::int64_t rows_of_sm = (shape.rows + device.sm_count - 1) / device.sm_count;
  const bool many_rows = rows_of_sm > 4 && size_of(shape.input) < 4;
  // Four blocks of 256 threads take 0.94 to 0.96 of the time of twelve of 128 where they have several waves
  // (cross_entropy/NOTES.md, "A tile for each block instead of a row").
  constexpr int blocks_of_waves = 4, rows_of_waves = 3 * blocks_of_waves;
  const bool several_waves = many_rows && !medium_rows && rows_of_sm > rows_of_waves;
  int max_threads = rows_of_sm <= 1 ? 1024 : rows_of_sm == 2 ? 512 : many_rows && !several_waves ? 128 : 256;
  if (sorts) max_threads /= 2;
  config.threads = medium_rows ? 128 : threads_for(shape.vectors_per_row(), config.unroll, 32, max_threads);
  // A row a little longer than a tile would leave most threads without work for half of the time.
  constexpr double few_idle = 1.35;
  const std::int64_t tile = std::int64_t{config.threads} * config.unroll;
  const auto vectors = static_cast<double>(shape.vectors_per_row());
  if (config.threads >= 512 &&
      std::ceil(vectors / static_cast<double>(tile)) * static_cast<double>(tile) > few_idle * vectors)
    config.threads /= 2;
  bound_registers(config, shape, device);
  if (several_waves && config.threads == 256) config.min_blocks = std::min(config.min_blocks, blocks_of_waves);
  return config;
}

}  // namespace

TypedConfig lone_reader_default(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t tiles = 4;
  TypedConfig config;
  config.variant = Variant::two_pass;
  config.threads = 1024;
  config.unroll = threads_for(shape.vectors_per_row(), tiles * config.threads, 1, 8);
  bound_registers(config, shape, device);
  return with_hints(config, shape, device);
}

TypedConfig two_pass_default(const Shape& shape, const DeviceInfo& device) {
  if (!shape.cost.writes) return reader_default(shape, device);
  TypedConfig config;
  config.variant = Variant::two_pass;
  config.unroll = 4;
  config.threads = threads_for(shape.vectors_per_row(), 4, 32, 1024);
  return config;
}

}  // namespace tunesmith::row
