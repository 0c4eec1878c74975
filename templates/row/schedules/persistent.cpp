#include "templates/row/schedules/persistent.h"

#include <algorithm>
#include <cmath>

#include "templates/row/defaults/geometry.h"

namespace tunesmith::row {
namespace {

struct RatedShare {
  TypedConfig config;
  double value;
};

/// Returns the share of the memory's speed that a configuration can be expected to reach. Fitted to gradients of RMSNorm and
/// LayerNorm of 4096 and 32768 columns on an H200 (row_program/NOTES.md, "Gradients with column sums: persistent").
double expected_share(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  constexpr double bytes_per_ns = 16;        // that a multiprocessor reads while all of them read and write
  constexpr double enough_bytes = 48 << 10;  // in flight on a multiprocessor
  constexpr double instructions_per_ns = 4 * 1.98 * 1.4;
  constexpr double block_ns = 500, cluster_ns = 500, rank_ns = 350;  // of an exchange
  constexpr double kept_ns = 150, loaded_ns = 1200;                  // of a pass that reads arrays [col]
  const int passes = shape.cost.stages + 1;
  const auto blocks = static_cast<double>(config.min_blocks), rows = static_cast<double>(config.batch);
  const double warps = config.threads / 32.0;
  // Instructions of a warp for a row: of its vectors, and of its reductions, which batches share.
  const double of_vector = shape.vector() * (passes * (3.0 * shape.inputs + 3) + 3.0 * shape.cost.column_sums + 3);
  const double of_reduction = 40.0 * shape.cost.exchanged_floats / std::sqrt(rows);
  const double instructions =
      static_cast<double>(config.vectors_per_thread(shape)) * of_vector + shape.cost.stages * of_reduction;
  const double of_scheduler = blocks * warps / 4;  // warps that a scheduler can choose from
  const double issue_ns = warps * instructions / instructions_per_ns * (1 + 1.5 / of_scheduler);
  const double exchange_ns = config.blocks_per_row == 1 ? block_ns : cluster_ns + rank_ns * config.blocks_per_row;
  const bool loads_columns = shape.cost.column_bytes > 0 && config.keep_columns == 0;
  const double waiting_ns = shape.cost.stages * exchange_ns + passes * (loads_columns ? loaded_ns : kept_ns);
  const double row_ns = issue_ns + waiting_ns / blocks / rows;  // of a multiprocessor for its part of a row

  const double row_bytes = static_cast<double>(shape.cols * shape.resident_element_bytes()) / config.blocks_per_row;
  const double speed = row_bytes / row_ns / bytes_per_ns;
  const double reached = speed / std::cbrt(1 + speed * speed * speed);
  const double in_flight = std::min(1.0, (config.stages - 1) * rows * row_bytes * blocks / enough_bytes);
  const auto groups = static_cast<double>(persistent_groups(config, shape.rows, device));
  const double of_group = std::ceil(static_cast<double>(shape.rows) / groups);
  const double busy = static_cast<double>(shape.rows) / (groups * std::ceil(of_group / rows) * rows);
  const double multiprocessors = std::min(1.0, groups * config.blocks_per_row / (device.sm_count * blocks));
  return reached * in_flight * std::sqrt(busy) * multiprocessors;
}

/// Returns `config` with as much as possible in shared memory, or with `stages` 0 if there is too little of it.
TypedConfig with_memory_filled(TypedConfig config, const Shape& shape, const DeviceInfo& device) {
  constexpr int max_stages = 4;
  const bool can_keep = shape.cost.column_bytes > 0 && !shape.shifted();
  for (const int least : {3, 2})
    for (const int keep : {1, 0}) {
      if (keep == 1 && !can_keep) continue;
      config.keep_columns = keep;
      for (config.stages = max_stages; config.stages >= least; --config.stages)
        if (why_invalid(config, shape, device).empty()) return config;
    }
  config.stages = 0;
  return config;
}

}  // namespace

std::int64_t persistent_groups(const TypedConfig& config, std::int64_t rows, const DeviceInfo& device) noexcept {
  std::int64_t groups = std::int64_t{config.min_blocks} * device.sm_count / config.blocks_per_row;
  if (config.blocks_per_row > 2) {
    // A cluster occupies a part of the device with 16 or 18 multiprocessors, on Hopper.
    const std::int64_t parts = std::max(1, device.sm_count / 16);
    groups = parts * (device.sm_count / parts * config.min_blocks / config.blocks_per_row);
  }
  return std::clamp<std::int64_t>(groups, 1, std::max<std::int64_t>(rows, 1));
}

std::int64_t message_bytes(const TypedConfig& config, const Shape& shape) noexcept {
  constexpr std::int64_t float_bytes = 4, buffers = 2, alignment = 1024;
  const std::int64_t floats = (shape.cost.exchanged_floats + 3) / 4 * 4;  // messages have multiples of 16 bytes
  const std::int64_t warps = config.threads / 32;
  const std::int64_t totals = shape.cost.totals > 0 ? warps * 2 * float_bytes * shape.words_of_value() : 0;
  return buffers * warps * config.blocks_per_row * config.batch * shape.cost.stages * floats * float_bytes + totals +
         alignment;
}

std::string why_not_persistent(const TypedConfig& config, const Shape& shape) {
  if (!shape.cost.composed) return "persistent is for row programs";
  // ptxas 13.0 makes illegal instructions of asynchronous copies with a policy and a uniform part of the address.
  if (config.load != LoadHint::plain)
    return "load is " + std::string(enum_name(config.load)) + "; allowed for persistent: plain";
  constexpr int max_stages = 8;  // the hardware counts few groups of copies
  if (config.stages > max_stages) return "stages is " + std::to_string(config.stages) + "; persistent allows up to 8";
  if (config.keep_columns == 1 && shape.cost.column_bytes == 0) return "keep_columns is 1; the program has no arrays [col]";
  if (config.keep_columns == 1 && shape.shifted())
    return "keep_columns is 1; rows that are not vector-aligned read arrays [col] at different offsets";
  return {};
}

std::vector<TypedConfig> persistents_to_try(const Shape& shape, const DeviceInfo& device, bool full) {
  std::vector<RatedShare> all;
  if (!shape.cost.composed || !shape.cost.reduces) return {};
  for (const int blocks_per_row : {1, 2, 4, 8})
    for (const int min_blocks : {1, 2, 3, 4})
      for (const int threads : {128, 256, 512, 1024})
        for (const int batch : {1, 2, 4}) {
          TypedConfig config;
          config.variant = Variant::persistent;
          config.blocks_per_row = blocks_per_row;
          config.min_blocks = min_blocks;
          config.threads = threads;
          config.batch = batch;
          if (config.members() > shape.vectors_per_row() || config.vectors_per_thread(shape) > 16) continue;
          config = with_memory_filled(config, shape, device);
          if (config.stages == 0) continue;
          all.push_back({config, expected_share(config, shape, device)});
        }
  std::ranges::stable_sort(all, std::ranges::greater(), &RatedShare::value);
  std::vector<TypedConfig> configs;
  for (const RatedShare& rated : all) {
    if (configs.size() == (full ? 32U : 6U)) break;
    configs.push_back(rated.config);
  }
  return configs;
}

}  // namespace tunesmith::row
