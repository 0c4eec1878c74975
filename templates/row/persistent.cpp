#include "templates/row/persistent.h"

#include <algorithm>
#include <cmath>

#include "templates/row/geometry.h"

namespace tunesmith::row {
namespace {

struct Rated {
  TypedConfig config;
  double value;
};

/// Returns the share of the memory's speed that a configuration can be expected to reach. Times are those of an H200.
double expected_share(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  constexpr double bytes_per_ns = 16;         // that a multiprocessor reads while all of them read and write
  constexpr double enough_bytes = 48 << 10;   // in flight on a multiprocessor
  constexpr double block_exchange_ns = 400, cluster_exchange_ns = 1200, of_each_row = 0.1;
  constexpr double warps_that_hide = 16, ns_of_vector = 24;  // of a warp, if it has a scheduler for itself
  const auto blocks = static_cast<double>(config.min_blocks);
  const double row_bytes = static_cast<double>(shape.cols * shape.resident_element_bytes()) / config.blocks_per_row;
  const double step_bytes = row_bytes * config.batch;
  const double exchange = config.blocks_per_row > 1 ? cluster_exchange_ns : block_exchange_ns;
  const double warps = blocks * config.threads / 32, schedulers = 4;
  const double vectors = static_cast<double>(config.vectors_per_thread(shape) * config.batch * shape.inputs);
  // All warps of a multiprocessor issue; each of them waits, too.
  const double issue = ns_of_vector * vectors * std::max(1.0, warps / schedulers) / std::min(1.0, warps / warps_that_hide);
  const double ns = shape.exchanges * exchange * (1 + of_each_row * (config.batch - 1)) / blocks + issue;
  const double speed = blocks * step_bytes / std::max(ns, issue) / bytes_per_ns;
  const double reached = speed / std::cbrt(1 + speed * speed * speed);
  const double in_flight = std::min(1.0, (config.stages - 1) * step_bytes * blocks / enough_bytes);
  const auto groups = static_cast<double>(persistent_groups(config, shape.rows, device));
  const double of_group = std::ceil(static_cast<double>(shape.rows) / groups);
  const double busy = static_cast<double>(shape.rows) / (groups * std::ceil(of_group / config.batch) * config.batch);
  const double multiprocessors = std::min(1.0, groups * config.blocks_per_row / (device.sm_count * blocks));
  const double lanes = static_cast<double>(shape.vectors_per_row()) /
                       static_cast<double>(config.members() * config.vectors_per_thread(shape));
  return reached * in_flight * std::sqrt(busy) * multiprocessors * std::sqrt(lanes);
}

/// Returns `config` with as much as possible in shared memory, or with `stages` 0 if there is too little of it.
TypedConfig with_memory_filled(TypedConfig config, const Shape& shape, const DeviceInfo& device) {
  constexpr int most_stages = 4;
  const bool can_keep = shape.column_bytes > 0 && !shape.shifted();
  for (const int least : {3, 2})
    for (const int keep : {1, 0}) {
      if (keep == 1 && !can_keep) continue;
      config.keep_columns = keep;
      for (config.stages = most_stages; config.stages >= least; --config.stages)
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

std::int64_t persistent_exchange_bytes(const TypedConfig& config, const Shape& shape) noexcept {
  constexpr std::int64_t float_bytes = 4, buffers = 2, alignment = 1024;
  return buffers * (config.threads / 32) * config.blocks_per_row * config.batch * shape.exchanges * shape.exchanged_floats *
             float_bytes +
         alignment;
}

std::string why_not_persistent(const TypedConfig& config, const Shape& shape) {
  if (!shape.is_program) return "persistent is for row programs";
  if (config.load == LoadHint::no_allocate || config.load == LoadHint::streaming)
    return "load " + std::string(enum_name(config.load)) +
           " has no meaning for asynchronous copies; allowed: plain, evict_first, evict_last";
  if (config.keep_columns == 1 && shape.column_bytes == 0) return "keep_columns is 1; the program has no arrays [col]";
  if (config.keep_columns == 1 && shape.shifted())
    return "keep_columns is 1; rows that are not vector-aligned read arrays [col] at different offsets";
  return {};
}

std::vector<TypedConfig> persistents_to_try(const Shape& shape, const DeviceInfo& device, bool full) {
  std::vector<Rated> all;
  if (!shape.is_program || !shape.reduces) return {};
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
          if (shape.traffic_bytes() >= 4 * device.l2_bytes) config.load = LoadHint::evict_last;
          all.push_back({config, expected_share(config, shape, device)});
        }
  std::ranges::stable_sort(all, std::ranges::greater(), &Rated::value);
  std::vector<TypedConfig> configs;
  for (const Rated& rated : all) {
    if (configs.size() == (full ? 32U : 5U)) break;
    configs.push_back(rated.config);
  }
  return configs;
}

}  // namespace tunesmith::row
