// Few long rows in grids. With G blocks for each row, a device that holds B blocks at once works on B / G rows at a time. If
// these are a few more than half of the rows, the second wave leaves the device half idle; with the largest G that fits,
// each row's exchange waits for the most blocks. So G follows from the number of waves: the smallest number with which the
// rows of a wave fit into registers and shared memory. Measured on an H100 for 44 shapes (NOTES.md, "Few long rows: as few
// waves as possible"): 0.55 to 0.97 of the time of the smallest cluster that holds a row, or of a grid whose number of
// blocks depends only on the columns.

#include <algorithm>

#include "templates/row/defaults/few_rows.h"
#include "templates/row/defaults/geometry.h"

namespace tunesmith::row {
namespace {

constexpr std::int64_t max_waves = 16;

struct Wave {
  TypedConfig config;
  std::int64_t waves = 0;
  double use = 0;  ///< share of the blocks that the device could hold in all waves
};

/// Moves vectors from registers to shared memory if all but a few fit there. Asynchronous copies have no code for the end of
/// a row, and many vectors in registers spill in kernels of buckets: 0.80 to 0.84 of the time there, 0.89 to 1.02 in kernels
/// of one width (H100).
void prefer_shared_memory(TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  TypedConfig fewer = config;
  fewer.register_vectors = std::min(config.register_vectors, is_narrow(shape) || shape.cost.terms_once ? 4 : 6);
  if (why_invalid(fewer, shape, device).empty()) config = fewer;
}

/// Returns the configuration with the fewest waves, or with `waves` 0 if a row does not fit.
Wave fewest_waves(int threads, int min_blocks, const Shape& shape, const DeviceInfo& device) {
  const std::int64_t rows = shape.rows_bucket(), held = std::int64_t{min_blocks} * device.sm_count;
  Wave wave;
  wave.config.variant = Variant::grid;
  wave.config.sized_by_row = shape.min_cols > 0 ? 1 : 0;
  for (std::int64_t waves = 1; waves <= std::min(max_waves, rows); ++waves) {
    const std::int64_t at_once = (rows + waves - 1) / waves, blocks = held / at_once;
    if (blocks < 2) continue;
    if (blocks > 1024) break;
    wave.config.blocks_per_row = static_cast<int>(blocks);
    if (!fill_chip(wave.config, threads, min_blocks, shape, device)) continue;
    wave.waves = waves;
    prefer_shared_memory(wave.config, shape, device);
    wave.use = static_cast<double>(rows * blocks) / static_cast<double>(held * waves);
    return wave;
  }
  return wave;
}

/// Returns the number of threads: few, so that each has several vectors in flight, but not so few that most of its vectors
/// are in shared memory, or that too few warps compute the precise exponentials of float32. With 128 threads in a bucket of
/// unaligned rows of 16 bits, five vectors of each may cross the end, and the kernel spills: 1.13 to 1.44 of the time of
/// 256.
int threads_for_wave(const TypedConfig& config, const Shape& shape) {
  if (shape.actual_cols != 0 && shape.shifted() && is_narrow(shape)) return 256;
  const bool cheap = shape.inputs == 1 && (shape.cost.keeps_terms() || size_of(shape.input) < 4);
  const std::int64_t max_vectors = cheap ? 40 : 32;
  TypedConfig few = config;
  few.threads = 128;
  return few.vectors_per_thread(shape) * shape.inputs <= max_vectors ? 128 : 256;
}

}  // namespace

bool fills_device(const TypedConfig& grid, const Shape& shape, const DeviceInfo& device) {
  constexpr double nearly_all = 0.9;
  const auto blocks = static_cast<double>(shape.rows * grid.blocks_per_row);
  const auto held = static_cast<double>(std::int64_t{grid.min_blocks} * device.sm_count);
  return blocks <= held && blocks >= nearly_all * held;
}

std::optional<TypedConfig> wave_default(const Shape& shape, const DeviceInfo& device) {
  constexpr double enough = 0.85;
  constexpr std::int64_t very_few_rows = 2;
  // Each block of a row reads the partials of all others: 528 blocks for one row take 1.5 to 1.8 times as long as 132.
  if (shape.rows_bucket() <= very_few_rows)
    if (const Wave wave = fewest_waves(256, 1, shape, device); wave.waves == 1)
      return with_hints(wave.config, shape, device);
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
