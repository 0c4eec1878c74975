// Measured for 84 shapes of kernels of their own and 60 row programs on an H100, at distances of 12 to 72 KiB for each
// multiprocessor; 24 to 32 KiB were the best. Checked on 80 other shapes: 0.90 to 1.02 of the time without prefetch, 0.977
// on average. The rules for gradients and short rows were measured on an H200, also with other arrays for each launch and no
// flush (NOTES.md, "Prefetch of later rows").
#include "templates/row/prefetch.h"

#include <algorithm>
#include <cmath>

#include "templates/row/defaults/geometry.h"
#include "templates/row/defaults/memory.h"
#include "templates/row/defaults/small_blocks.h"

namespace tunesmith::row {
int resident_blocks(const TypedConfig& config, const Shape& shape) {
  if (config.bounds_registers(shape)) return config.min_blocks;
  constexpr std::int64_t registers = 65536, threads = 2048, blocks = 32, smem_bytes = 227 << 10, reserved = 1 << 10;
  const std::int64_t by_registers = registers / (std::int64_t{config.registers_needed(shape)} * config.threads);
  const std::int64_t by_memory = smem_bytes / (config.smem_bytes(shape) + reserved);
  return static_cast<int>(std::max<std::int64_t>(std::min({blocks, threads / config.threads, by_registers, by_memory}), 1));
}

std::string prefetch_arguments(const TypedConfig& config, const Shape& shape) {
  return std::to_string(config.prefetch_blocks) + ", " + std::to_string(resident_blocks(config, shape));
}

int full_prefetch(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t most = 32;
  if (!config.prefetches() || device.arch.number() < 90 || device.memory_gb_per_s == 0 || shape.cost.sums_rows()) return 0;
  const std::int64_t at_once = config.rows_of_block(), of_row = config.blocks_of_row();
  const std::int64_t blocks = (shape.rows_bucket() + at_once - 1) / at_once * of_row;
  if (blocks <= std::int64_t{resident_blocks(config, config.view(shape))} * device.sm_count) return 0;
  const double bytes_of_block = static_cast<double>(row_bytes(shape) * at_once) / static_cast<double>(of_row);
  return static_cast<int>(std::clamp<std::int64_t>(std::llround(bytes_in_latency(device) / bytes_of_block), 1, most));
}

int default_prefetch(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  const bool staged_terms = config.access == Access::staged && shape.cost.terms_once;
  // Sums of terms alone only read. Programs without reductions, or that choose columns, do not wait for memory.
  if (!shape.cost.writes || !shape.cost.reduces || shape.cost.sorted_columns > 0) return 0;
  // Two arrays are enough loads, except for loads of partial vectors, which come last.
  constexpr std::int64_t long_row = 24 << 10;
  if (shape.reads_two() && !(shape.shifted() && row_bytes(shape) >= long_row)) return 0;
  // Each row takes an instruction of its own, which costs more than it gains for parts of a few lines.
  const bool short_exchange = shape.cost.terms_once || !(shape.cost.composed || shape.cost.logarithm);
  const std::int64_t few_bytes = (short_exchange ? 4 : 2) * line_bytes;
  if (!staged_terms && !has_whole_lines(shape) && shape.cols * size_of(shape.input) < few_bytes) return 0;
  // Long exchanges, in which clusters load nothing else.
  const bool long_exchange = shape.cost.stages > 1 || shape.inputs > 1;
  if (config.variant == Variant::cluster && shape.cost.composed && long_exchange && needs_more_loads(device) &&
      (!has_two_stages_of_one_input(shape) || overlaps_waves(shape, config.blocks_per_row, device)))
    return full_prefetch(config, shape, device);
  // Hints other than plain change what L2 keeps.
  if (config.load != LoadHint::plain && !(config.load == LoadHint::no_allocate && needs_more_loads(device))) return 0;
  // Clusters of small blocks have enough loads in flight.
  const bool has_large_blocks = row_bytes(shape) > max_bytes_of_small_block * config.blocks_of_row();
  if (config.variant > Variant::block && !(config.variant == Variant::cluster && has_large_blocks)) return 0;
  if (config.access == Access::staged && !staged_terms) return 0;  // 0.97 to 1.04 of the time
  // Beyond, memory writes as much as it reads, and lines are evicted before their block starts.
  if (shape.traffic_bytes() >= 3 * device.l2_bytes && !staged_terms) return 0;
  if (shape.wide() || shape.is_masked() || shape.ragged()) return 0;  // not measured
  return full_prefetch(config, shape, device);
}

}  // namespace tunesmith::row
