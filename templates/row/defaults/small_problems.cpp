// Defaults of problems so small that all rows are on the chip at once. Their time is the latency of one row, not bandwidth:
// few accesses for each thread, so that all are in flight, and enough threads. Blocks of a cluster share long rows: their
// exchange takes about a microsecond less than a grid's. Measured on an H100 (NOTES.md, "Few rows on the chip at once:
// clusters instead of grids").

#include "templates/row/defaults/defaults.h"
#include "templates/row/defaults/geometry.h"

namespace tunesmith::row {
namespace {

constexpr std::int64_t accesses_of_multiprocessor = 3072;  ///< 3 for each of 1024 threads
constexpr std::int64_t max_row_bytes = 32 << 10;           ///< blocks share longer rows

std::int64_t accesses_of_row(const Shape& shape) { return shape.vectors_per_row() * shape.inputs; }

/// Returns whether these rules are for such rows. The kernel of a bucket of widths serves larger problems, too.
bool has_rules(const Shape& shape) {
  return shape.actual_cols == 0 && shape.cost.reduces && !shape.wide() && !shape.is_masked();
}

/// Returns whether all rows are resident at once in registers with few accesses for each thread.
bool is_small(const Shape& shape, const DeviceInfo& device) {
  return has_rules(shape) && !shape.cost.composed && row_bytes(shape) <= max_row_bytes &&
         shape.rows * accesses_of_row(shape) <= accesses_of_multiprocessor * device.sm_count;
}

/// Returns whether clusters of 8 and 16 blocks take less time than the blocks of a grid. Shorter rows have a block of their
/// own unless most multiprocessors would be idle. Programs that sum columns or only read were not measured.
bool is_small_with_long_rows(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t of_multiprocessor = accesses_of_multiprocessor / 2, least = 1536, most = 20 << 10;
  const std::int64_t accesses = accesses_of_row(shape);
  const bool idle = row_bytes(shape) >= max_row_bytes ? shape.rows * 2 <= device.sm_count
                                                      : accesses >= least && shape.rows * 6 <= device.sm_count;
  return has_rules(shape) && (!shape.cost.composed || (shape.cost.writes && !shape.cost.sums_rows())) && idle &&
         accesses <= (shape.cost.writes ? most : 2 * most) && shape.rows * accesses <= of_multiprocessor * device.sm_count;
}

}  // namespace

std::optional<TypedConfig> small_cluster(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t max_of_block = 1024, of_thread = 5;
  if (!is_small_with_long_rows(shape, device)) return std::nullopt;
  const std::int64_t accesses = accesses_of_row(shape);
  TypedConfig config;
  config.variant = Variant::cluster;
  config.blocks_per_row = accesses <= 8 * max_of_block ? 8 : 16;
  config.threads = threads_for(accesses / config.blocks_per_row, of_thread, 128, 256);
  config.registers = Registers::float32;
  config.register_vectors = static_cast<int>(config.vectors_per_thread(shape));
  return if_valid(with_hints(config, shape, device), shape, device);
}

std::optional<TypedConfig> small_problem(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t max_of_lane = 4, of_lane = 3, of_thread = 4;
  if (!is_small(shape, device)) return std::nullopt;
  const std::int64_t accesses = accesses_of_row(shape);
  TypedConfig config;
  if (accesses <= max_of_lane * 32) {
    config.variant = Variant::warp;
    config.threads = 128;
    config.lanes = threads_for(accesses, of_lane, 1, 32);
  } else {
    config.threads = threads_for(accesses, of_thread, 64, 1024);
    bound_registers(config, shape, device);
  }
  return if_valid(with_hints(config, shape, device), shape, device);
}

}  // namespace tunesmith::row
