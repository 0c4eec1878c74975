// The configuration used without tuning. A small model: a row occupies as few multiprocessors as can hold two rows, so that
// one computes while the other moves data. With fewer rows than multiprocessors, blocks share rows so that all are busy.

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "templates/row/few_rows.h"
#include "templates/row/geometry.h"
#include "templates/row/model.h"
#include "templates/row/persistent.h"
#include "templates/row/pipeline.h"

namespace tunesmith::row {
namespace {

/// With more vectors per lane, a block is faster than a warp.
constexpr int most_vectors_of_a_lane = 8;
/// The same for one array of 16-bit elements, which take twice the registers.
constexpr int most_narrow_vectors_of_a_lane = 6;
/// Values of a masked row in a thread of a block: more leave no registers for the mask.
constexpr double most_masked_values = 32;

/// Returns the most vectors of each input that a lane takes. More reach further apart, and a row of an odd number of 16
/// bytes begins in the middle of a sector: on an H100, 9 vectors in two lanes take 1.24 times as long as in four. The
/// exchanges of losses cost more than a few more loads (bench/LOG.md).
std::int64_t vectors_of_lane(const Shape& shape) {
  const bool wide = size_of(shape.input) >= 4;
  if ((!shape.writes && shape.reduces) || (shape.keeps_exponentials && !wide)) return 6;
  if (shape.inputs > 1) return shape.vectors_per_row() <= 32 ? 2 : 3;
  return shape.vectors_per_row() <= (wide ? 24 : 32) ? 3 : 4;
}

/// Returns the most vectors of a row that one lane holds alone. Its accesses are far from those of the next lane.
std::int64_t vectors_of_lone_lane(const Shape& shape) {
  if (!shape.is_loss()) return 1;
  return shape.writes ? 2 : size_of(shape.input) >= 4 ? 3 : 6;
}

TypedConfig warp_default(const Shape& shape, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::warp;
  config.threads = size_of(shape.input) >= 4 && shape.writes ? 64 : 128;
  const std::int64_t vectors = shape.vectors_per_row();
  config.lanes = threads_for(vectors, vectors_of_lane(shape), vectors > vectors_of_lone_lane(shape) ? 2 : 1, 32);
  if (why_invalid(config, shape, device).empty()) return config;
  const std::vector<TypedConfig> ranked = ranked_warps(config.threads, most_vectors_of_a_lane, shape, device);
  return ranked.empty() ? config : ranked.front();
}

TypedConfig block_default(const Shape& shape, const DeviceInfo& device) {
  // More row values per thread are slow to compile and leave few threads.
  const double most_values = shape.is_masked() ? most_masked_values : 96;
  std::vector<TypedConfig> blocks = ranked_blocks(shape, device);
  for (const TypedConfig& config : blocks)
    if (expectation(config, shape, device).row_values <= most_values) return config;
  if (!blocks.empty()) return blocks.front();
  TypedConfig config;
  config.threads = 1024;
  if (may_pack(shape)) config.registers = Registers::packed;
  return config;
}

/// Few threads with a moderate share in registers, converted once: on an H200 the fastest choice if exponentials stay
/// resident for the gradient.
TypedConfig keeping_exponentials(TypedConfig config, const Shape& shape, const DeviceInfo& device) {
  constexpr int moderate = 8;
  TypedConfig converted = config;
  converted.registers = Registers::float32;
  converted.register_vectors = std::min(config.register_vectors, moderate);
  return shape.keeps_exponentials && why_invalid(converted, shape, device).empty() ? converted : config;
}

/// The smallest cluster whose blocks of 256 threads leave room for three on a multiprocessor; otherwise, and for two arrays,
/// two blocks of 512 threads. The former takes 0.94 to 1.00 of the time of the latter on an H100, since an exchange has no
/// fence (bench/LOG.md). With more of a row in registers, kernels would spill at the exchange.
TypedConfig cluster_default(const Shape& shape, const DeviceInfo& device) {
  struct Blocks {
    int number, threads, most_vectors;
  };
  std::vector<Blocks> blocks{{2, 512, 8}, {1, 512, 8}};
  if (shape.inputs == 1) blocks.insert(blocks.begin(), {3, 256, 4});
  if (shape.keeps_exponentials) blocks = {{2, 256, 16}, {1, 256, 16}};
  TypedConfig config;
  config.variant = Variant::cluster;
  for (const auto& [number, threads, most_vectors] : blocks)
    for (const int size : {2, 4, 8}) {
      config.blocks_per_row = size;
      if (!fill_chip(config, threads, number, shape, device)) continue;
      config.register_vectors = std::min(config.register_vectors, most_vectors);
      if (why_invalid(config, shape, device).empty()) return keeping_exponentials(config, shape, device);
    }
  config.blocks_per_row = 8;
  return config;
}

/// Norms of long rows: clusters of blocks of 256 threads, five on a multiprocessor, because such kernels have few
/// instructions. A program of several stages has larger blocks, because each stage has an exchange. On an H100, 0.85 to 0.97
/// of the time of one or two blocks of 320 or 512 threads (bench/LOG.md).
std::optional<TypedConfig> norm_cluster(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t kib = 1024;
  constexpr int few = 2;  // vectors in registers
  const bool norm = shape.is_norm || (shape.is_program && shape.column_bytes > 0), once = shape.exchanges == 1;
  const std::int64_t row_bytes = shape.cols * shape.resident_element_bytes();
  const std::int64_t long_row = once && size_of(shape.input) == 2 ? 32 * kib : once ? 64 * kib : 64 * kib + 1;
  if (!norm || !shape.writes || shape.inputs > 1 || shape.more_outputs > 0 || shape.has_bytes() || shape.sums_rows() ||
      shape.wide() || row_bytes < long_row || device.arch.number() < 90)
    return std::nullopt;
  TypedConfig config;
  config.variant = Variant::cluster;
  config.blocks_per_row = threads_for(row_bytes, (once ? 24 : 32) * kib, 2, 8);
  for (const int blocks : {5, 3, 2}) {
    if (!fill_chip(config, 256, blocks, shape, device)) continue;
    config.register_vectors = std::min(config.register_vectors, few);
    if (why_invalid(config, shape, device).empty()) return with_hints(config, shape, device);
  }
  return std::nullopt;
}

TypedConfig grid_default(const Shape& shape, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::grid;
  const int wide = size_of(shape.input) >= 4 ? 8 : 4;
  for (const int vectors : {wide / shape.inputs, wide, 16})
    for (const int threads : {256, 512, 1024})
      if (share_row(config, threads, vectors, shape, device)) return config;
  return config;
}

/// A kernel that only reads needs bytes in flight: 1536 threads on each multiprocessor, whether it has one, two or many
/// rows. On an H200, 0.59 to 1.0 of the time of blocks of 512 threads (bench/LOG.md). Bounded registers avoid losing a
/// resident block.
TypedConfig reader_default(const Shape& shape, const DeviceInfo& device) {
  const std::int64_t row_bytes = shape.cols * size_of(shape.input);
  const bool medium_rows = shape.is_loss() && size_of(shape.input) < 4 && row_bytes > 48 << 10 && row_bytes <= 64 << 10;
  TypedConfig config;
  config.variant = Variant::two_pass;
  config.unroll = medium_rows ? 8 : 4;
  const std::int64_t rows_of_sm = (shape.rows + device.sm_count - 1) / device.sm_count;
  const bool many_rows = rows_of_sm > 4 && size_of(shape.input) < 4;
  const int most_threads = rows_of_sm <= 1 ? 1024 : rows_of_sm == 2 ? 512 : many_rows ? 128 : 256;
  config.threads = medium_rows ? 128 : threads_for(shape.vectors_per_row(), config.unroll, 32, most_threads);
  // A row a little longer than a tile would leave most threads without work for half of the time.
  constexpr double few_idle = 1.35;
  const std::int64_t tile = std::int64_t{config.threads} * config.unroll;
  const auto vectors = static_cast<double>(shape.vectors_per_row());
  if (config.threads >= 512 &&
      std::ceil(vectors / static_cast<double>(tile)) * static_cast<double>(tile) > few_idle * vectors)
    config.threads /= 2;
  bound_registers(config, shape, device);
  return config;
}

/// Returns whether a grid computes a loss alone with blocks that do not all run at the same time. Two kernels then take 0.71
/// to 0.93 of the time on an H100.
bool takes_turns(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  return shape.is_loss_alone() && config.variant == Variant::grid &&
         shape.rows * config.blocks_per_row > config.min_blocks * device.sm_count;
}

/// Returns whether rows occupy a third to half of the multiprocessors, and are so short that two or three blocks would take
/// longer to exchange their partials than one takes to read the row. two_pass takes for 64 rows of 128256
/// columns on an H200 0.78 (bf16) and 0.87 (f32) of the time of a grid.
bool reads_rows_alone(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t too_long_bytes = 512 << 10;
  return shape.is_loss_alone() && shape.rows * 3 > device.sm_count && shape.rows * 2 <= device.sm_count &&
         shape.cols * size_of(shape.input) <= too_long_bytes;
}

/// A multiprocessor reads such a row alone, in four tiles of 1024 threads.
TypedConfig lone_reader_default(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t tiles = 4;
  TypedConfig config;
  config.variant = Variant::two_pass;
  config.threads = 1024;
  config.unroll = threads_for(shape.vectors_per_row(), tiles * config.threads, 1, 8);
  bound_registers(config, shape, device);
  return with_hints(config, shape, device);
}

/// Elementwise programs: few accesses for each thread of a warp or a block. Rows that start and end at pairs have accesses
/// to pairs, and other short rows without alignment to elements. Measured on an H200 (bench/LOG.md).
TypedConfig elementwise_default(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t most_cols_of_pairs = 8192, most_cols_of_elements = 2048;
  TypedConfig config;
  if (shape.shifted() && shape.starts_at_pairs() && shape.cols <= most_cols_of_pairs)
    config.access = Access::pairs;
  else if (shape.shifted() && shape.cols <= most_cols_of_elements)
    config.access = Access::elements;
  const bool vectors = config.access == Access::vectors;
  const std::int64_t accesses = config.view(shape).vectors_per_row();
  if (accesses <= 32 * (vectors ? 2 : 8)) {
    config.variant = Variant::warp;
    config.threads = 128;
    config.lanes = threads_for(accesses, vectors ? 1 : 5, 1, 32);
    return config;
  }
  constexpr std::int64_t long_bytes = 32 << 10, too_long_bytes = 64 << 10;  // of a resident row
  const std::int64_t row_bytes = shape.cols * shape.resident_element_bytes();
  const bool long_row = shape.inputs > 1 && vectors && !shape.shifted() && row_bytes >= long_bytes;
  if (long_row && row_bytes <= too_long_bytes) {
    // Most of a row is copied to shared memory while the rest is loaded; longer rows pass through.
    TypedConfig hybrid;
    hybrid.variant = Variant::hybrid;
    hybrid.threads = 256;
    hybrid.register_vectors = 3;
    hybrid.min_blocks = 4;
    if (may_pack(shape)) hybrid.registers = Registers::packed;
    if (why_invalid(hybrid, shape, device).empty()) return hybrid;
  }
  if (!long_row) {
    const std::int64_t of_thread = !vectors ? 9 : shape.shifted() ? 5 : 3, most_of_thread = of_thread + 3;
    config.threads = threads_for(accesses, of_thread, 32, 512);
    if (vectors && may_pack(shape)) config.registers = Registers::packed;
    if (config.vectors_per_thread(config.view(shape)) <= most_of_thread) {
      bound_registers(config, config.view(shape), device);
      return config;
    }
  }
  config = {};
  config.variant = Variant::two_pass;
  config.unroll = shape.inputs == 1 ? 2 : 1;
  config.threads = long_row ? 256 : 128;
  bound_registers(config, shape, device);
  return config;
}

TypedConfig tiled_default(Variant variant, const Shape& shape, const DeviceInfo& device) {
  if (variant == Variant::two_pass && !shape.writes) return reader_default(shape, device);
  TypedConfig config;
  config.variant = variant;
  config.unroll = 4;
  config.threads = variant == Variant::split ? 256 : threads_for(shape.vectors_per_row(), 4, 32, 1024);
  if (variant == Variant::split) config.blocks_per_row = std::max(2, parts_of(1, config, shape));
  return config;
}

/// Returns whether two blocks of 1024 threads can each hold a row of 16-bit elements in half of their registers, so that one
/// row is in flight while another one is computed.
bool holds_two_rows(TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  config.variant = Variant::block;
  config.threads = 1024;
  config.min_blocks = 2;
  config.registers = Registers::packed;
  constexpr int vectors = 4;
  return may_pack(shape) && config.vectors_per_thread(shape) == vectors && why_invalid(config, shape, device).empty();
}

/// Row programs of several stages with arrays [col] and rows of 16 bits: up to 32 or 64 values in a thread, converted once,
/// because each stage reads them again; longer rows packed. On an H200, 0.75 to 1.00 of the time of the block with the most
/// rows in flight (bench/LOG.md).
TypedConfig program_blocks(const TypedConfig& most_rows, const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t long_row = 32 << 10;
  const std::int64_t row_bytes = shape.cols * shape.resident_element_bytes();
  // Programs that write bytes take more registers, with which only one block of 512 threads fits.
  const bool simple = shape.inputs == 1 && !shape.has_bytes();
  const std::int64_t too_long_row = simple ? (64 << 10) + 1 : 48 << 10;
  const std::int64_t values_of_thread = simple && shape.cols <= 4096 ? 32 : 64;
  if (!shape.is_program || shape.exchanges < 2 || shape.column_bytes == 0 || size_of(shape.input) != 2 || shape.shifted() ||
      row_bytes >= too_long_row)
    return most_rows;
  TypedConfig config = most_rows;
  config.registers = row_bytes >= long_row ? Registers::packed : Registers::float32;
  config.threads = threads_for(shape.cols * shape.inputs, values_of_thread, 64, 512);
  bound_registers(config, shape, device);
  return why_invalid(config, shape, device).empty() ? config : most_rows;
}

/// Rows of 16 bits without alignment: blocks of 256 threads with few vectors in registers, because whole vectors have code
/// for both ends of a row. On an H200, 0.87 to 1.02 of the time of blocks with rows in registers (bench/LOG.md).
std::optional<TypedConfig> unaligned_hybrid(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t least_bytes = 34 << 10, most_bytes = 88 << 10;
  const std::int64_t row_bytes = shape.cols * shape.resident_element_bytes();
  if (!shape.shifted() || shape.inputs > 1 || size_of(shape.input) != 2 || shape.is_program || shape.is_norm ||
      shape.is_masked() || row_bytes < least_bytes || row_bytes > most_bytes)
    return std::nullopt;
  TypedConfig config;
  config.variant = Variant::hybrid;
  for (const auto& [blocks, most_vectors] : {std::pair{4, 6}, {3, 9}}) {
    if (!fill_chip(config, 256, blocks, shape, device)) continue;
    config.register_vectors = std::min(config.register_vectors, most_vectors);
    if (why_invalid(config, shape, device).empty()) return with_hints(config, shape, device);
  }
  return std::nullopt;
}

/// Returns the most bytes, over all inputs, of a row without alignment that narrow accesses read faster than vectors.
std::int64_t most_bytes_of_short_rows(const Shape& shape) {
  const bool wide = size_of(shape.input) >= 4, several = shape.inputs > 1;
  if (wide && shape.writes && !shape.is_loss() && !shape.reads_columns()) return several ? 12 << 10 : 6 << 10;
  return several && !wide ? 6 << 10 : 4 << 10;
}

}  // namespace

TypedConfig with_hints(TypedConfig config, const Shape& shape, const DeviceInfo& device) {
  const bool has_policies = device.arch.number() >= 80;
  if (shape.is_loss_alone() && config.smem_bytes(shape) == 0) {
    if (shape.traffic_bytes() <= 8 * device.l2_bytes) config.load = LoadHint::streaming;
    return config;
  }
  if (has_policies && shape.writes && shape.traffic_bytes() >= 4 * device.l2_bytes) {
    config.load = LoadHint::evict_last;
    if (config.reads_twice()) config.load_again = LoadHint::evict_first;
  } else if (!shape.in_place && (!config.reads_twice() || !shape.writes) && config.smem_bytes(shape) == 0 &&
             shape.traffic_bytes() <= device.l2_bytes) {
    config.load = LoadHint::no_allocate;
  }
  return config;
}

std::optional<TypedConfig> gradient_block(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t threads = 64, most_vectors = 4;
  if (!shape.keeps_exponentials || shape.shifted() || size_of(shape.input) != 2 ||
      shape.vectors_per_row() > threads * most_vectors)
    return std::nullopt;
  TypedConfig config;
  config.threads = threads;
  bound_registers(config, shape, device);
  if (!why_invalid(config, shape, device).empty()) return std::nullopt;
  return with_hints(config, shape, device);
}

int resident_warps(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  // Each of four schedulers allocates its quarter of the registers to warps in units of 8 per thread; the compiler respects
  // this if min_blocks is given.
  constexpr int schedulers = 4, unit = 8, margin = 2;
  const int registers = (config.registers_needed(shape) + margin + unit - 1) / unit * unit;
  return schedulers * (device.registers_per_sm / schedulers / (32 * registers));
}

void bound_registers(TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  const int by_registers = resident_warps(config, shape, device) / (config.threads / 32);
  const int by_threads = device.max_threads_per_sm / config.threads;
  config.min_blocks = std::clamp(std::min(by_registers, by_threads), 1, 32);
}

bool fill_chip(TypedConfig& config, int threads, int blocks, const Shape& shape, const DeviceInfo& device) {
  config.threads = threads;
  config.min_blocks = blocks;
  config.registers = may_pack(shape) ? Registers::packed : Registers::float32;
  const std::int64_t vectors = config.vectors_per_thread(shape);
  const std::int64_t most = config.variant == Variant::hybrid ? vectors - 1 : vectors;
  for (config.register_vectors = static_cast<int>(std::min<std::int64_t>(most, 16)); config.register_vectors >= 0;
       --config.register_vectors)
    if (why_invalid(config, shape, device).empty()) return true;
  config.register_vectors = 1;
  return false;
}

bool share_row(TypedConfig& config, int threads, int vectors, const Shape& shape, const DeviceInfo& device) {
  config.threads = threads;
  config.registers = may_pack(shape) ? Registers::packed : Registers::float32;
  config.register_vectors = vectors;
  const std::int64_t per_block = std::int64_t{threads} * vectors;
  const std::int64_t blocks = (shape.vectors_per_row() + per_block - 1) / per_block;
  config.blocks_per_row = static_cast<int>(std::clamp<std::int64_t>(blocks, 2, 1024));
  config.min_blocks = 1;
  bound_registers(config, shape, device);
  while (config.min_blocks > 1 && !why_invalid(config, shape, device).empty()) --config.min_blocks;
  return blocks >= 2 && why_invalid(config, shape, device).empty();
}

int parts_of(int tiles, const TypedConfig& config, const Shape& shape) {
  const std::int64_t part = std::int64_t{config.threads} * config.unroll * tiles;
  return static_cast<int>(std::min<std::int64_t>((shape.vectors_per_row() + part - 1) / part, 1024));
}

TypedConfig default_config(Variant variant, const Shape& shape, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = variant;
  switch (variant) {
    case Variant::warp: config = warp_default(shape, device); break;
    case Variant::block: config = block_default(shape, device); break;
    case Variant::hybrid:
      // Two blocks overlap well; the longest rows leave room for one only.
      for (const int blocks : {2, 1})
        for (const int threads : {shape.keeps_exponentials ? 256 : 512, 1024})
          if (fill_chip(config, threads, blocks, shape, device))
            return with_hints(keeping_exponentials(config, shape, device), shape, device);
      break;
    case Variant::cluster: config = cluster_default(shape, device); break;
    case Variant::grid: config = grid_default(shape, device); break;
    case Variant::two_pass:
    case Variant::split: config = tiled_default(variant, shape, device); break;
    case Variant::pipeline: return pipeline_default(shape, device);
    case Variant::persistent:
      if (const std::vector<TypedConfig> list = persistents_to_try(shape, device, true); !list.empty()) return list.front();
      config.stages = 2;
      return config;
  }
  return with_hints(config, shape, device);
}

TypedConfig default_config(const Shape& shape, const DeviceInfo& device) {
  const auto valid = [&](const TypedConfig& config) { return why_invalid(config, shape, device).empty(); };
  const std::int64_t row_bytes = shape.cols * shape.resident_element_bytes();
  const bool wide = size_of(shape.input) >= 4;
  const bool short_unaligned = shape.shifted() && row_bytes <= most_bytes_of_short_rows(shape);
  if (short_unaligned && gains_from_staging(shape))
    if (const TypedConfig staged = staged_default(shape, device); valid(staged)) return staged;
  if (!shape.reduces)
    if (const TypedConfig config = with_hints(elementwise_default(shape, device), shape, device); valid(config))
      return config;

  if (shape.few_and_long() && !shape.is_program) {
    const TypedConfig by_columns = default_config(Variant::grid, shape, device);
    if (valid(by_columns) && fills_device(by_columns, shape, device)) return by_columns;
    if (const std::optional<TypedConfig> wave = wave_default(shape, device)) return with_hints(*wave, shape, device);
  }

  // Share rows if there are fewer than multiprocessors.
  constexpr std::int64_t worth_sharing_bytes = 32 << 10;
  if (shape.rows * 2 <= device.sm_count && row_bytes >= worth_sharing_bytes) {
    if (reads_rows_alone(shape, device))
      if (const TypedConfig config = lone_reader_default(shape, device); valid(config)) return config;
    for (const Variant variant : {Variant::grid, Variant::split}) {
      const TypedConfig config = default_config(variant, shape, device);
      if (valid(config) && !takes_turns(config, shape, device)) return config;
    }
  }

  // A row that is read once and reduced to a number need not be resident. Tiles of two_pass would be larger than the rows of
  // losses up to 32 KiB, or fit them badly.
  const std::int64_t worth_passing_bytes = shape.is_loss() ? (32 << 10) + 1 : 16 << 10;
  if (!shape.writes && row_bytes >= worth_passing_bytes) {
    if (TypedConfig whole; shape.is_program && holds_two_rows(whole, shape, device)) return with_hints(whole, shape, device);
    return default_config(Variant::two_pass, shape, device);
  }

  // Rows without alignment: whole vectors would cost more at both ends than narrow accesses cost everywhere.
  if (const std::optional<TypedConfig> blocks = narrow_blocks(shape, device)) return *blocks;
  if (short_unaligned) {
    const TypedConfig narrow = short_rows_default(shape, shape.cols, device);
    if (valid(narrow)) return narrow;
  }
  const TypedConfig warp = default_config(Variant::warp, shape, device);
  const int arrays = shape.inputs + (shape.is_masked() ? 1 : 0);
  const int most_vectors = !wide && arrays == 1 ? most_narrow_vectors_of_a_lane : most_vectors_of_a_lane;
  if (warp.vectors_per_thread(shape) * arrays <= most_vectors && valid(warp)) return warp;
  if (const std::optional<TypedConfig> gradient = gradient_block(shape, device)) return *gradient;

  if (shape.sums_rows())
    if (const std::vector<TypedConfig> list = persistents_to_try(shape, device, true); !list.empty()) return list.front();

  if (worth_streaming(shape, device))
    if (const TypedConfig streamed = default_config(Variant::pipeline, shape, device); valid(streamed)) return streamed;

  if (const std::optional<TypedConfig> norm = norm_cluster(shape, device)) return *norm;
  if (const std::optional<TypedConfig> hybrid = unaligned_hybrid(shape, device)) return *hybrid;
  const TypedConfig block = default_config(Variant::block, shape, device);
  const TypedConfig hybrid = default_config(Variant::hybrid, shape, device);
  const TypedConfig cluster = default_config(Variant::cluster, shape, device);
  // A block alone on a multiprocessor computes while no data moves; two smaller blocks overlap. Few threads with a large
  // share of a row pay off only if they hold more rows than the many threads of hybrid.
  const bool crowded = expectation(block, shape, device).row_values > 64 && valid(hybrid);
  if (valid(block) && block.min_blocks > (crowded ? hybrid.min_blocks : 1)) return program_blocks(block, shape, device);
  if (valid(hybrid) && hybrid.min_blocks > 1) return hybrid;
  if (valid(cluster) && cluster.min_blocks > 1) return cluster;
  for (const TypedConfig& config : {block, hybrid, cluster})
    if (valid(config)) return config;
  return default_config(Variant::two_pass, shape, device);
}

}  // namespace tunesmith::row
