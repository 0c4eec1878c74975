// Measured for 105 shapes on an H100 and 80 on an H200 (NOTES.md, "Staggered starts"). Where this rule has a delay, kernels
// take 0.88 to 1.03 of the time without it, 0.97 on average. Half of the loading time is often slower than no delay; one and
// a half times always was.
#include "templates/row/stagger.h"

#include <cmath>

#include "templates/row/defaults/geometry.h"
#include "templates/row/defaults/small_blocks.h"

namespace tunesmith::row {
int full_stagger(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  constexpr double reached = 0.76;  // of the peak bandwidth
  if (!config.staggers() || config.min_blocks < 2 || shape.rows_bucket() * config.blocks_of_row() <= device.sm_count)
    return 0;
  return static_cast<int>(std::lround(reached * device.memory_gb_per_s / device.sm_count));
}

int default_stagger(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t min_row_of_block = 7 << 10;
  constexpr int max_of_narrow_terms = 4;    // blocks of a row
  if (device.arch.number() < 90) return 0;  // not measured
  // Arrays that fit into half of L2 may be there, and arrive sooner. Rows that are only read leave nothing to overlap.
  if (!shape.cost.writes || !shape.cost.reduces || shape.traffic_bytes() < device.l2_bytes / 2) return 0;
  const int full = full_stagger(config, shape, device);
  const bool narrow = is_narrow(shape);
  switch (config.variant) {
    case Variant::grid: return full;
    case Variant::cluster:
      if (overlaps_waves(shape, config.blocks_per_row, device)) return 0;
      if (shape.cost.composed && !has_two_stages_of_one_input(shape)) return full;
      if (shape.reads_two()) return narrow ? full : 0;
      if (shape.cost.terms_once) return narrow && config.blocks_per_row > max_of_narrow_terms ? 0 : full;
      // If all rows are resident at once, with room for more, there is nothing to overlap with.
      return narrow && needed_blocks(shape, config.blocks_per_row, device) >= config.min_blocks ? 0 : full;
    case Variant::block:
      if (row_bytes(shape) < min_row_of_block) return 0;
      return shape.cost.terms_once || (narrow && shape.reads_two()) ? full * 8 / 7 : 0;
    default: return 0;
  }
}

int stagger_ns(const TypedConfig& config, const Shape& shape) {
  if (config.stagger_bytes_per_ns == 0) return 0;
  return static_cast<int>(row_bytes(shape) / config.blocks_of_row() / config.stagger_bytes_per_ns);
}

}  // namespace tunesmith::row
