// The configuration used without tuning: a list of rules; the first rule with a configuration for the row decides. The
// configurations themselves are in the files that defaults.h names. They follow a small model: a row occupies the fewest
// multiprocessors that can hold two rows, so that one computes while the other moves data. With fewer rows than
// multiprocessors, blocks share rows so that all are busy.

#include <array>
#include <optional>
#include <vector>

#include "templates/row/defaults/defaults.h"
#include "templates/row/defaults/few_rows.h"
#include "templates/row/defaults/geometry.h"
#include "templates/row/defaults/model.h"
#include "templates/row/defaults/small_blocks.h"
#include "templates/row/prefetch.h"
#include "templates/row/schedules/persistent.h"
#include "templates/row/schedules/pipeline.h"
#include "templates/row/stagger.h"

namespace tunesmith::row {
namespace {

/// Returns a variant's default, or nothing if it is invalid.
std::optional<TypedConfig> default_if_valid(Variant variant, const Shape& shape, const DeviceInfo& device) {
  return if_valid(default_config(variant, shape, device), shape, device);
}

/// Returns the best persistent configuration, or nothing if none is valid.
std::optional<TypedConfig> persistent_default(const Shape& shape, const DeviceInfo& device) {
  const std::vector<TypedConfig> list = persistents_to_try(shape, device, true);
  if (list.empty()) return std::nullopt;
  return list.front();
}

// The rules, in their order.

std::optional<TypedConfig> staged_rows(const Shape& shape, const DeviceInfo& device) {
  if (!is_short_unaligned(shape) || !gains_from_staging(shape)) return std::nullopt;
  return if_valid(staged_default(shape, device), shape, device);
}

std::optional<TypedConfig> elementwise_rows(const Shape& shape, const DeviceInfo& device) {
  if (shape.cost.reduces) return std::nullopt;
  return if_valid(with_hints(elementwise_default(shape, device), shape, device), shape, device);
}

/// With few long rows, their number decides how many blocks share a row.
std::optional<TypedConfig> few_long_rows(const Shape& shape, const DeviceInfo& device) {
  if (!shape.few_and_long()) return std::nullopt;
  const std::optional<TypedConfig> cluster = cluster_for_few_rows(shape, device);
  // Programs: if a grid would share rows. 60 rows take 0.59 to 0.71 of the grid's time on an H100.
  if (shape.cost.composed) return shape.inputs == 1 && shape.rows * 2 <= device.sm_count ? cluster : std::nullopt;
  if (cluster) return cluster;
  const std::optional<TypedConfig> by_columns = default_if_valid(Variant::grid, shape, device);
  if (by_columns && fills_device(*by_columns, shape, device)) return by_columns;
  return wave_default(shape, device);
}

/// Returns whether rows occupy three eighths to half of the multiprocessors, and are so short that two or three blocks would
/// take longer to exchange their partials than one takes to read the row. two_pass takes for 64 rows of 128256 columns on an
/// H200 0.78 (bf16) and 0.87 (f32) of the time of a grid. Tiles of other rows have code for their ends: for 52 to 66 of
/// them, split takes 0.75 to 0.98 of the time of two_pass on an H100, and 0.85 for aligned rows of six tiles
/// (cross_entropy/NOTES.md, "Few long rows: two kernels").
bool reads_rows_alone(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t max_cols = 128 << 10;  // four tiles
  return shape.cost.sums_once() && !shape.shifted() && shape.rows_bucket() * 8 > device.sm_count * 3 &&
         shape.rows * 2 <= device.sm_count && shape.cols <= max_cols;
}

/// Returns whether a grid computes sums alone with blocks that do not all run at the same time. Two kernels then take 0.71
/// to 0.93 of the time on an H100.
bool takes_turns(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  return shape.cost.sums_once() && config.variant == Variant::grid &&
         shape.rows * config.blocks_per_row > config.min_blocks * device.sm_count;
}

/// Blocks share rows if there are fewer than multiprocessors.
std::optional<TypedConfig> shared_rows(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t worth_sharing_bytes = 32 << 10;
  if (shape.rows * 2 > device.sm_count || row_bytes(shape) < worth_sharing_bytes) return std::nullopt;
  if (reads_rows_alone(shape, device))
    if (const auto config = if_valid(lone_reader_default(shape, device), shape, device)) return config;
  for (const Variant variant : {Variant::grid, Variant::split}) {
    const std::optional<TypedConfig> config = default_if_valid(variant, shape, device);
    if (config && !takes_turns(*config, shape, device)) return config;
  }
  return std::nullopt;
}

/// A row that is read once and reduced to a number need not be resident. Tiles of two_pass would be larger than rows
/// of terms up to 32 KiB, or fit them badly.
std::optional<TypedConfig> rows_read_once(const Shape& shape, const DeviceInfo& device) {
  const std::int64_t worth_passing_bytes = shape.cost.terms_once ? (32 << 10) + 1 : 16 << 10;
  if (shape.cost.writes || row_bytes(shape) < worth_passing_bytes) return std::nullopt;
  if (shape.cost.composed)
    if (const std::optional<TypedConfig> whole = two_rows_block(shape, device)) return whole;
  return default_config(Variant::two_pass, shape, device);
}

/// Rows without alignment: whole vectors would cost more at both ends than narrow accesses cost everywhere.
std::optional<TypedConfig> short_unaligned_rows(const Shape& shape, const DeviceInfo& device) {
  if (!is_short_unaligned(shape)) return std::nullopt;
  return if_valid(short_rows_default(shape, shape.cols, device), shape, device);
}

std::optional<TypedConfig> unaligned_blocks(const Shape& shape, const DeviceInfo& device) {
  const std::optional<TypedConfig> narrow = narrow_blocks(shape, device);
  return narrow ? std::optional(program_block(*narrow, shape, device)) : std::nullopt;
}

/// Returns whether a lane has registers for its part of a row and its sums over rows. Persistent blocks take 0.92 to 0.97 of
/// the time of lanes with 64 sums, and 0.4 to 0.9 of the time of lanes that load more elements one by one.
bool fits_next_to_sums(const TypedConfig& warp, const Shape& shape) {
  constexpr std::int64_t max_bytes = 64, max_sums = 56, max_single = 8;
  const std::int64_t accesses = warp.vectors_per_thread(shape), elements = accesses * shape.vector();
  return elements * size_of(shape.input) <= max_bytes && elements * shape.cost.column_sums <= max_sums &&
         (shape.vector() > 1 || accesses <= max_single);
}

std::optional<TypedConfig> rows_of_warps(const Shape& shape, const DeviceInfo& device) {
  // One array of 16-bit elements takes twice the registers.
  constexpr int max_narrow_vectors_of_a_lane = 6;
  const int arrays = shape.inputs + (shape.is_masked() ? 1 : 0);
  const bool narrow = size_of(shape.input) < 4 && arrays == 1;
  int max_vectors = narrow ? max_narrow_vectors_of_a_lane : max_vectors_of_a_lane;
  // Lanes that sort their part of a row hold less each, so rows have more lanes.
  if (shape.cost.sorted_columns > 0) max_vectors /= 2;
  const TypedConfig warp = default_config(Variant::warp, shape, device);
  if (shape.cost.sums_rows() ? !fits_next_to_sums(warp, shape) : warp.vectors_per_thread(shape) * arrays > max_vectors)
    return std::nullopt;
  return if_valid(warp, shape, device);
}

/// Sums over rows stay in registers of blocks that have many rows.
std::optional<TypedConfig> rows_with_sums(const Shape& shape, const DeviceInfo& device) {
  if (!shape.cost.sums_rows()) return std::nullopt;
  return persistent_default(shape, device);
}

std::optional<TypedConfig> streamed_rows(const Shape& shape, const DeviceInfo& device) {
  if (!worth_streaming(shape, device)) return std::nullopt;
  return default_if_valid(Variant::pipeline, shape, device);
}

/// The last rule: the resident row of a block or a cluster; two passes for rows that fit nowhere.
TypedConfig resident_rows(const Shape& shape, const DeviceInfo& device) {
  const auto valid = [&](const TypedConfig& config) { return why_invalid(config, shape, device).empty(); };
  const TypedConfig block = default_config(Variant::block, shape, device);
  const TypedConfig hybrid = default_config(Variant::hybrid, shape, device);
  const TypedConfig cluster = default_config(Variant::cluster, shape, device);
  // A block alone on a multiprocessor computes while no data moves; two smaller blocks overlap. Few threads with a large
  // share of a row pay off only if they hold more rows than the many threads of hybrid.
  const bool crowded = expectation(block, shape, device).row_values > 64 && valid(hybrid);
  if (valid(block) && block.min_blocks > (crowded ? hybrid.min_blocks : 1)) return program_block(block, shape, device);
  if (valid(hybrid) && hybrid.min_blocks > 1) return hybrid;
  if (valid(cluster) && cluster.min_blocks > 1) return cluster;
  for (const TypedConfig& config : {block, hybrid, cluster})
    if (valid(config)) return config;
  return default_config(Variant::two_pass, shape, device);
}

/// Returns a configuration, or nothing if the rule has none for such rows.
using Rule = std::optional<TypedConfig> (*)(const Shape& shape, const DeviceInfo& device);

constexpr std::array<Rule, 20> rules{
    sums_in_tiles,         // sums alone of long rows
    small_cluster,         // all rows on the chip at once, few and long
    small_problem,         // the same, shorter rows
    register_sums,         // sums alone of short and medium rows
    staged_rows,           // short rows without alignment that pass through shared memory
    elementwise_rows,      // programs without reductions
    small_blocks,          // clusters of long rows
    few_long_rows,         // clusters or a grid whose blocks fill the device
    shared_rows,           // fewer rows than multiprocessors
    rows_read_once,        // sums alone, and programs that write no rows
    unaligned_blocks,      // rows without alignment of more than 1024 columns: accesses to pairs or elements
    short_unaligned_rows,  // shorter ones
    small_column_block,    // programs with arrays [col]
    narrow_summing_block,  // sums over rows of unaligned columns
    rows_of_warps,         // short rows
    gradient_block,        // short rows whose terms replace elements
    rows_with_sums,        // gradients of weights
    streamed_rows,         // pipelines
    unaligned_hybrid,      // long rows of 16 bits without alignment
    gradient_hybrid,       // two arrays with aligned rows of 16 bits
};

}  // namespace

TypedConfig default_config(const Shape& shape, const DeviceInfo& device) {
  const auto geometry = [&] {
    for (const Rule rule : rules)
      if (const std::optional<TypedConfig> config = rule(shape, device)) return *config;
    return resident_rows(shape, device);
  };
  TypedConfig config = geometry();
  bound_persistent_warps(config, shape, device);
  config.stagger_bytes_per_ns = default_stagger(config, shape, device);
  config.prefetch_blocks = default_prefetch(config, shape, device);
  return config;
}

TypedConfig default_config(Variant variant, const Shape& shape, const DeviceInfo& device) {
  switch (variant) {
    case Variant::warp: return with_hints(warp_default(shape, device), shape, device);
    case Variant::block: return with_hints(block_default(shape, device), shape, device);
    case Variant::hybrid: return with_hints(hybrid_default(shape, device), shape, device);
    case Variant::cluster: return with_hints(cluster_default(shape, device), shape, device);
    case Variant::grid: return with_hints(grid_default(shape, device), shape, device);
    case Variant::two_pass: return with_hints(two_pass_default(shape, device), shape, device);
    case Variant::split: return with_hints(split_default(shape, device), shape, device);
    case Variant::pipeline: return pipeline_default(shape, device);
    case Variant::persistent: break;
  }
  if (const std::optional<TypedConfig> config = persistent_default(shape, device)) return *config;
  TypedConfig config;
  config.variant = Variant::persistent;
  config.stages = 2;
  return config;
}

}  // namespace tunesmith::row
