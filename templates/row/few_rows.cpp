// With G blocks for each row, a device that holds B blocks at once works on B / G rows at a time. If these are a few more
// than half of the rows, the second wave leaves the device half idle; with the largest G that fits, each row's exchange
// waits for the most blocks. So G follows from the number of waves, which is the least for which the rows of a wave fit into
// registers and shared memory. Measured on an H100 for 44 shapes (bench/LOG.md): 0.55 to 0.97 of the time of the smallest
// cluster that holds a row, or of a grid whose number of blocks depends only on the columns.

#include "templates/row/few_rows.h"

#include <algorithm>

#include "templates/row/geometry.h"

namespace tunesmith::row {
namespace {

constexpr std::int64_t most_waves = 16;
constexpr int most_blocks = 3;  // of a cluster's 256 threads on a multiprocessor

struct Wave {
  TypedConfig config;
  std::int64_t waves = 0;
  double use = 0;  ///< share of the blocks that the device could hold in all waves
};

/// Returns the configuration with the fewest waves, or with `waves` 0 if a row does not fit.
Wave fewest_waves(int threads, int min_blocks, const Shape& shape, const DeviceInfo& device) {
  const std::int64_t rows = shape.rows_bucket(), held = std::int64_t{min_blocks} * device.sm_count;
  Wave wave;
  wave.config.variant = Variant::grid;
  for (std::int64_t waves = 1; waves <= std::min(most_waves, rows); ++waves) {
    const std::int64_t at_once = (rows + waves - 1) / waves, blocks = held / at_once;
    if (blocks < 2) continue;
    if (blocks > 1024) break;
    wave.config.blocks_per_row = static_cast<int>(blocks);
    if (!fill_chip(wave.config, threads, min_blocks, shape, device)) continue;
    wave.waves = waves;
    wave.use = static_cast<double>(rows * blocks) / static_cast<double>(held * waves);
    return wave;
  }
  return wave;
}

/// Returns the number of threads: few, so that each has several vectors in flight, but not so few that most of its vectors
/// are in shared memory, or that too few warps compute the precise exponentials of float32.
int threads_for_wave(const TypedConfig& config, const Shape& shape) {
  const bool cheap = shape.inputs == 1 && (shape.keeps_exponentials || size_of(shape.input) < 4);
  const std::int64_t most_vectors = cheap ? 40 : 32;
  TypedConfig few = config;
  few.threads = 128;
  return few.vectors_per_thread(shape) * shape.inputs <= most_vectors ? 128 : 256;
}

bool is_narrow(const Shape& shape) noexcept { return size_of(shape.input) < 4; }

/// Reduces what a thread keeps in registers to what ptxas does not spill where it has 80 of them.
void leave_registers(TypedConfig& config, const Shape& shape) {
  const bool packed = config.registers == Registers::packed;
  const int most_values = packed ? 64 : shape.is_loss() ? 40 : shape.shifted() ? 48 : 56;
  config.register_vectors = std::min(config.register_vectors, most_values / (shape.inputs * shape.vector()));
}

/// Returns a cluster of this size with as much of the row in registers as `min_blocks` blocks on a multiprocessor allow.
std::optional<TypedConfig> cluster_of(int blocks_per_row, int min_blocks, const Shape& shape, const DeviceInfo& device) {
  constexpr int threads = 256;
  TypedConfig config;
  config.variant = Variant::cluster;
  config.blocks_per_row = blocks_per_row;
  config.registers = is_narrow(shape) && shape.is_loss() ? Registers::packed : Registers::float32;
  if (!fill_registers(config, threads, min_blocks, shape, device)) return std::nullopt;
  if (min_blocks == most_blocks) leave_registers(config, shape);
  return if_valid(config, shape, device);
}

}  // namespace

// Clusters exchange their results in less time than a grid and are scheduled one by one, so the last wave need not be full.
// float32 in registers costs fewer instructions than packed elements, except for losses with their gradient, whose
// exponentials replace the logits. Unaligned rows gain less from 8 blocks than from 4 that leave half of the device idle.
// Measured on an H100 for 150 shapes of 39 to 249 rows (bench/LOG.md).
std::optional<TypedConfig> cluster_for_few_rows(const Shape& shape, const DeviceInfo& device) {
  const auto held = static_cast<double>(std::int64_t{most_blocks} * device.sm_count);
  for (const int min_blocks : {most_blocks, 2})
    for (const int size : {4, 8}) {
      if (size == 8 && shape.shifted() && shape.inputs > 1 && is_narrow(shape)) continue;  // up to 1.19 of a grid's time
      const double enough = size == 4 && shape.shifted() ? 0.4 : 0.75;
      if (static_cast<double>(shape.rows_bucket() * size) < enough * held) continue;
      if (const auto config = cluster_of(size, min_blocks, shape, device)) return with_hints(*config, shape, device);
    }
  return std::nullopt;
}

std::vector<TypedConfig> clusters_to_try(const Shape& shape, const DeviceInfo& device, bool full) {
  std::vector<TypedConfig> configs;
  for (const int min_blocks : {most_blocks, 2}) {
    if (!full && !configs.empty()) break;
    for (const int size : {4, 8})
      if (const auto config = cluster_of(size, min_blocks, shape, device)) configs.push_back(*config);
  }
  return configs;
}

bool prefers_grid(const Shape& shape) noexcept {
  return is_narrow(shape) && (shape.is_loss() || (shape.inputs > 1 && shape.shifted()));
}

bool fills_device(const TypedConfig& grid, const Shape& shape, const DeviceInfo& device) {
  constexpr double nearly_all = 0.9;
  const auto blocks = static_cast<double>(shape.rows * grid.blocks_per_row);
  const auto held = static_cast<double>(std::int64_t{grid.min_blocks} * device.sm_count);
  return blocks <= held && blocks >= nearly_all * held;
}

std::optional<TypedConfig> wave_default(const Shape& shape, const DeviceInfo& device) {
  constexpr double enough = 0.85;
  Wave best;
  for (const int min_blocks : {4, 3, 2}) {
    Wave wave = fewest_waves(256, min_blocks, shape, device);
    if (wave.waves == 0) continue;
    if (const int threads = threads_for_wave(wave.config, shape); threads != 256)
      if (const Wave other = fewest_waves(threads, min_blocks, shape, device); other.waves == wave.waves) wave = other;
    const bool better =
        best.waves == 0 || wave.waves < best.waves || (wave.waves == best.waves && wave.use > best.use + 0.1);
    if (wave.use >= enough && better) best = wave;
  }
  if (best.waves == 0) return std::nullopt;
  return with_hints(best.config, shape, device);
}

std::vector<TypedConfig> waves_to_try(const Shape& shape, const DeviceInfo& device, bool full) {
  std::vector<Wave> all;
  for (const int min_blocks : full ? std::vector<int>{4, 3, 2, 1} : std::vector<int>{4, 3, 2})
    for (const int threads : full ? std::vector<int>{128, 256, 384, 512} : std::vector<int>{128, 256})
      if (const Wave wave = fewest_waves(threads, min_blocks, shape, device); wave.waves > 0) all.push_back(wave);
  std::ranges::stable_sort(
      all, [](const Wave& a, const Wave& b) { return a.waves != b.waves ? a.waves < b.waves : a.use > b.use; });
  std::vector<TypedConfig> configs;
  for (const Wave& wave : all) {
    if (configs.size() == (full ? 16U : 5U)) break;
    configs.push_back(wave.config);
  }
  return configs;
}

}  // namespace tunesmith::row
