// Defaults of problems so small that all rows are on the chip at once. Their time is the latency of one row, not bandwidth:
// few accesses for each thread, so that they are all in flight, and as many threads as that takes. Measured on an H100
// (bench/LOG.md).

#include "templates/row/defaults.h"
#include "templates/row/geometry.h"

namespace tunesmith::row {
namespace {

constexpr std::int64_t accesses_of_multiprocessor = 3072;  ///< 3 for each of 1024 threads
constexpr std::int64_t most_row_bytes = 32 << 10;          ///< blocks share longer rows

/// Returns whether all rows are resident at once in registers with few accesses for each thread. The kernel of a bucket of
/// widths serves larger problems, too.
bool is_small(const Shape& shape, const DeviceInfo& device) {
  return shape.actual_cols == 0 && shape.reduces && !shape.is_program && !shape.wide() && !shape.is_masked() &&
         row_bytes(shape) <= most_row_bytes &&
         shape.rows * shape.vectors_per_row() * shape.inputs <= accesses_of_multiprocessor * device.sm_count;
}

}  // namespace

std::optional<TypedConfig> small_problem(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t most_of_lane = 4, of_lane = 3, of_thread = 4;
  if (!is_small(shape, device)) return std::nullopt;
  const std::int64_t accesses = shape.vectors_per_row() * shape.inputs;
  TypedConfig config;
  if (accesses <= most_of_lane * 32) {
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
