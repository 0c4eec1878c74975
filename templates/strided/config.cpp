#include "templates/strided/config.h"

#include <algorithm>

#include "templates/folded_grid.h"

namespace tunesmith::strided {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

}  // namespace

void describe(const TypedConfig& c, Description& d) {
  d.field(
      "variant", c.variant,
      {.meaning = "resident: a block holds the columns of its positions in registers; cluster: a cluster of blocks does; "
                  "two_pass: a block reads them twice; split: several blocks share the columns",
       .required = true});
  d.field("threads", c.threads,
          {.meaning = "threads per block", .range = {32, 1024}, .power_of_two = true, .required = true});
  d.field("lanes", c.lanes,
          {.meaning = "threads that process neighbouring positions; the others share their columns",
           .range = {1, 1024},
           .power_of_two = true,
           .required = true});
  const Condition twice{c.reads_twice(), "variant=two_pass or variant=split"};
  d.field("unroll", c.unroll,
          {.meaning = "columns that a thread has in flight",
           .range = {1, 16},
           .power_of_two = true,
           .required = true,
           .only_with = twice});
  d.field("blocks_per_row", c.blocks_per_row,
          {.meaning = "blocks that share the columns; cluster: 2 to 16; split: 2 to 1024",
           .range = {2, c.variant == Variant::cluster ? 16 : 1024},
           .required = true,
           .only_with = {c.variant == Variant::cluster || c.variant == Variant::split, "variant=cluster or variant=split"}});
  d.option("min_blocks", c.min_blocks,
           {.meaning = "resident blocks per multiprocessor that bound a thread's registers", .range = {1, 32}});
  d.field("load", c.load, {.meaning = "cache hint of the loads", .required = true});
  d.field("load_again", c.load_again,
          {.meaning = "cache hint of the second pass's loads", .required = true, .only_with = twice});
  d.field("store", c.store, {.meaning = "cache hint of the stores", .required = true});
}

TypedConfig TypedConfig::parse(const Config& config) { return read_config<TypedConfig>(config.fields); }
Config TypedConfig::to_config() const { return {config_fields(*this)}; }

std::int64_t TypedConfig::columns(const Shape& shape) const noexcept {
  const std::int64_t of_block = (shape.cols + blocks_per_row - 1) / blocks_per_row;
  return reads_twice() ? unroll : (of_block + members() - 1) / members();
}

std::int64_t TypedConfig::smem_bytes(const Shape& shape) const noexcept {
  const std::int64_t groups = lanes < 32 ? threads / 32 : members();
  std::int64_t bytes = groups > 1 ? groups * lanes * shape.vector() * shape.reduction_bytes : 0;
  // Programs reduce the partials of a cluster in the same memory.
  if (variant == Variant::cluster)
    bytes += (shape.is_program ? 0 : bytes) + std::int64_t{shape.part_bytes} * blocks_per_row * lanes * shape.vector();
  const std::int64_t number_bytes = shape.wide() ? 8 : 4;
  if (lanes > 32) bytes += threads / 32 * columns(shape) * shape.column_sums * number_bytes;
  if (shape.totals > 0) bytes += threads / 32 * 2 * number_bytes;
  return bytes;
}

int TypedConfig::registers_needed(const Shape& shape) const noexcept {
  const std::int64_t vector = shape.vector();
  if (shape.is_program) {
    // Elements, addresses, and values of each position. Beyond the limit it spills.
    constexpr std::int64_t others = 32, max_of_positions = 150;
    return static_cast<int>(std::min<std::int64_t>(
        columns(shape) * shape.input_words() + others + std::min(vector * shape.program_registers, max_of_positions), 4096));
  }
  const std::int64_t words = (vector * size_of(shape.input()) + 3) / 4 * shape.inputs;
  const bool precise = shape.output() == DType::f32 || shape.wide();
  const int words_of_value = shape.wide() ? 2 : 1;
  std::int64_t needed = columns(shape) * words + 24;                                // the elements, and addresses
  needed += vector * (shape.backward() ? 4 : precise ? 6 : 3) * words_of_value;     // maxima, sums, exponentials
  if (shape.wide()) needed += 20;                                                   // the exponential of double
  if (size_of(shape.input()) == 2) needed += vector * (shape.backward() ? 10 : 2);  // elements as float32
  if (variant == Variant::cluster) needed += 2 * vector * words_of_value;           // the factors of the exponentials
  needed += vector * shape.more_registers;
  if (reads_twice()) needed += shape.backward() ? 0 : 2 * vector * words_of_value;  // the running states
  return static_cast<int>(std::min<std::int64_t>(needed, 4096));
}

std::int64_t TypedConfig::column_sums_bytes(const Shape& shape) const noexcept {
  // A sum and its rounding error, of each tile; columns are padded (row/schedules/column_sums.cuh).
  constexpr std::int64_t padded_to = 32;
  const std::int64_t pair_bytes = shape.wide() ? 16 : 8;
  const std::int64_t of_columns = pair_bytes * tiles(shape) * ((shape.cols + padded_to - 1) / padded_to * padded_to);
  // Each block has one of each sum over positions and columns (row/schedules/totals.cuh). In split, the next part is as far
  // away as after sums of columns.
  const std::int64_t of_total = variant == Variant::split ? of_columns : pair_bytes * tiles(shape) * blocks_per_row;
  return shape.column_sums * of_columns + shape.totals * of_total;
}

std::string why_invalid(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  if (std::string reason = why_too_many(config.threads, device); !reason.empty()) return reason;
  if (config.lanes > config.threads)
    return "lanes is " + number(config.lanes) + "; a block has " + number(config.threads) + " threads";
  const bool evicts = is_eviction(config.load) || is_eviction(config.load_again) || is_eviction(config.store);
  if (evicts && device.arch.number() < 80)
    return "eviction policies need sm_80 or later; the device is " + name(device.arch);
  if (shape.in_place && (config.load == LoadHint::no_allocate || config.load_again == LoadHint::no_allocate))
    return "load no_allocate reads through the read-only path, which in_place=1 rules out";
  if (config.min_blocks * config.threads > device.max_threads_per_sm)
    return "min_blocks is " + number(config.min_blocks) + " of " + number(config.threads) +
           " threads; a multiprocessor holds " + number(device.max_threads_per_sm) + " threads";
  constexpr std::int64_t static_bytes = 48 << 10;
  const std::int64_t smem_most = std::min(static_bytes, device.smem_bytes_per_sm / config.min_blocks - 1024);
  if (config.smem_bytes(shape) > smem_most)
    return "the reductions need " + number(config.smem_bytes(shape)) + " bytes of shared memory; there are " +
           number(smem_most);
  const bool shares_columns = config.variant == Variant::cluster || config.variant == Variant::split;
  if (shares_columns && shape.stages == 0)
    return "variant is " + std::string(enum_name(config.variant)) +
           "; allowed for a program without reductions: resident, two_pass";
  // Each of the four parts of a multiprocessor has its own registers and gets whole warps; registers come in eights.
  const int warps_of_part = (config.threads / 32 * config.min_blocks + 3) / 4;
  const int available = std::min(255, device.registers_per_sm / 128 / warps_of_part / 8 * 8);
  if (const int needed = config.registers_needed(shape); needed > available)
    return std::string(enum_name(config.variant)) + " with these settings needs about " + number(needed) +
           " registers a thread for " + number(shape.cols) + " columns; there are " + number(available);
  if (config.variant == Variant::cluster) {
    if (device.arch.number() < 90) return "cluster needs sm_90 or later; the device is " + name(device.arch);
    if (config.blocks_per_row > max_cluster_blocks(device))
      return "blocks_per_row is " + number(config.blocks_per_row) + "; the device's clusters have at most " +
             number(max_cluster_blocks(device)) + " blocks";
  }
  constexpr std::int64_t max_workspace_bytes = std::int64_t{1} << 30;
  if (config.column_sums_bytes(shape) > max_workspace_bytes)
    return "the sums over positions would need more than a gigabyte of workspace; use more lanes than " +
           number(config.lanes);
  if (!shares_columns) return {};
  if (config.blocks_per_row > shape.cols)
    return "blocks_per_row is " + number(config.blocks_per_row) + "; there are only " + number(shape.cols) + " columns";
  if (config.variant == Variant::cluster) return {};
  const std::int64_t part_bytes = std::int64_t{shape.part_bytes} * config.lanes * shape.vector() * config.blocks_per_row;
  if (config.tiles(shape) > max_workspace_bytes / part_bytes)
    return "split would need more than a gigabyte of workspace for " + number(shape.rows * shape.inner) + " positions";
  return {};
}

}  // namespace tunesmith::strided
