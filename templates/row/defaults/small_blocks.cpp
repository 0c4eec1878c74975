#include "templates/row/defaults/small_blocks.h"

#include <algorithm>
#include <set>
#include <string>

#include "templates/row/defaults/few_rows.h"
#include "templates/row/defaults/geometry.h"
#include "templates/row/defaults/memory.h"
#include "templates/row/schedules/pipeline.h"

namespace tunesmith::row {
namespace {

constexpr int max_of_row = 16;   // blocks
constexpr int few_needed = 4;    // blocks on each multiprocessor: too few to hide each other's latencies
constexpr int max_vectors = 16;  // in registers

/// Blocks of a row and of a multiprocessor, and values that a thread holds in registers.
struct Blocks {
  int of_row, threads, of_multiprocessor, least;  ///< least: of a multiprocessor
  Registers registers;
  int vectors;
};

/// Each vector in registers has code for both ends of the row.
bool has_ends(const Shape& shape) noexcept { return shape.shifted() && (is_narrow(shape) || shape.actual_cols != 0); }
/// Returns whether the blocks of the largest cluster have to be larger than others.
bool exceeds_blocks(const Shape& shape) { return row_bytes(shape) > max_of_row * max_bytes_of_small_block; }

bool has_kernels(const Shape& shape, const DeviceInfo& device) {
  return shape.cost.writes && shape.cost.reduces && !shape.wide() && !shape.is_masked() && !shape.cost.sums_rows() &&
         (shape.cost.stages <= 2 || !shape.has_bytes()) && device.arch.number() >= 90;
}

/// Returns the length from which on these rows are faster in clusters. Blocks hold shorter ones in registers.
std::int64_t min_row_bytes(const Shape& shape) {
  const bool narrow = is_narrow(shape);
  if (shape.cost.terms_once) return (!narrow ? 96 : shape.shifted() ? 36 : 56) * kib;
  if (shape.cost.composed && !has_two_stages_of_one_input(shape))
    return (shape.inputs > 1 ? 96 : narrow && shape.cost.stages == 1 ? 32 : 64) * kib;
  if (!narrow) return 64 * kib + 1;
  return (shape.inputs == 1 ? 31 : shape.shifted() ? 64 : 30) * kib;
}

/// Returns whether a thread needs registers for more than the values of one row.
bool needs_registers(const Shape& shape) {
  return shape.inputs > 1 || (shape.cost.composed && !has_two_stages_of_one_input(shape));
}

/// Returns the vectors of an input that a thread holds in registers unless shared memory is too small for the rest.
int best_vectors(const Shape& shape, Registers registers) {
  if (has_ends(shape)) return is_narrow(shape) ? 1 : 4;
  if (registers == Registers::packed) return 4;
  if (is_narrow(shape)) return shape.inputs > 1 ? 1 : 3;
  return needs_registers(shape) ? 4 : 8;
}

/// Returns the fewest blocks that hold a row, or more of them if few rows would leave multiprocessors without work.
int blocks_of_row(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t min_bytes = 9 * kib, min_bytes_of_largest = 15 * kib;
  int blocks = threads_for(row_bytes(shape), max_bytes_of_small_block, 2, max_of_row);
  while (blocks < max_of_row && needed_blocks(shape, blocks, device) <= few_needed) {
    const std::int64_t bytes = row_bytes(shape) / (2 * blocks);
    if (bytes < (2 * blocks == max_of_row ? min_bytes_of_largest : min_bytes)) break;
    blocks *= 2;
  }
  return blocks;
}

Blocks usual(const Shape& shape, const DeviceInfo& device) {
  const bool wide_terms = shape.cost.terms_once && !is_narrow(shape);
  Blocks blocks{};
  blocks.of_row = blocks_of_row(shape, device);
  // A stage of a program that is not the last reads the values again, and would convert packed ones again.
  const bool packed = shape.cost.composed && shape.cost.stages == 1 && may_pack(shape);
  blocks.registers = packed ? Registers::packed : Registers::float32;
  blocks.vectors = best_vectors(shape, blocks.registers);
  if (const int needed = needed_blocks(shape, blocks.of_row, device); needed <= few_needed) {
    blocks.threads = needed <= 2 ? 512 : 256;
    blocks.of_multiprocessor = needed;
    blocks.least = std::max(2, (needed + 1) / 2);
  } else if (!exceeds_blocks(shape)) {
    blocks.threads = 128;
    blocks.of_multiprocessor = is_narrow(shape) ? 7 : needs_registers(shape) ? 6 : 8;
    blocks.least = 5;
  } else {
    // With terms in float32, more of a row fits into the registers of fewer threads.
    blocks.threads = wide_terms ? 128 : 256;
    blocks.of_multiprocessor = wide_terms ? 6 : 5;
    blocks.least = wide_terms ? 4 : 3;
  }
  return blocks;
}

/// Returns whether rows of this length are faster in other variants, as measured.
bool others_are_faster(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t many_rows = 1024, moderate_row = 52 * kib, long_row = 80 * kib;
  // A grid has more blocks for each of few rows. Grids of programs exchange partials once in each stage.
  if (!shape.cost.composed && needed_blocks(shape, blocks_of_row(shape, device), device) <= few_needed) return true;
  if (exceeds_blocks(shape) && shape.inputs > 1 && !is_narrow(shape)) return true;
  // Many rows that blocks can hold: tails and exchanges hardly count.
  const std::int64_t l2_traffic = shape.traffic_bytes() / device.l2_bytes;
  if (!shape.cost.composed && l2_traffic >= 4 && row_bytes(shape) <= (l2_traffic < 8 ? moderate_row : long_row)) return true;
  // A pipeline divides many rows about evenly over multiprocessors.
  return worth_streaming(shape, device) && (shape.rows >= many_rows || (exceeds_blocks(shape) && shape.cost.terms_once));
}

/// Returns the cluster with at least blocks.vectors vectors in registers, at most `most`, as many as shared memory needs.
std::optional<TypedConfig> with_vectors(const Blocks& blocks, int most, const Shape& shape, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::cluster;
  config.threads = blocks.threads;
  config.blocks_per_row = blocks.of_row;
  config.min_blocks = blocks.of_multiprocessor;
  config.registers = blocks.registers;
  config.sized_by_row = shape.min_cols > 0 ? 1 : 0;
  if (shape.vectors_per_row() < std::int64_t{2} * config.members()) return std::nullopt;
  const auto available = static_cast<int>(std::min<std::int64_t>(config.vectors_per_thread(shape), most));
  for (int vectors = std::min(blocks.vectors, available); vectors <= available; ++vectors) {
    config.register_vectors = vectors;
    if (const auto valid = if_valid(config, shape, device)) return with_hints(*valid, shape, device);
  }
  return std::nullopt;
}

}  // namespace

bool overlaps_waves(const Shape& shape, int of_row, const DeviceInfo& device) {
  constexpr int more_than_resident = 7;
  const int few = has_two_stages_of_one_input(shape) ? 8 : 12;
  const int needed = needed_blocks(shape, of_row, device);
  const bool long_exchange = shape.cost.stages > 1 || of_row == max_of_row;
  return shape.cost.composed && needs_more_loads(device) && long_exchange && needed > more_than_resident && needed <= few;
}

std::optional<TypedConfig> small_blocks(const Shape& shape, const DeviceInfo& device) {
  constexpr int many = 8;
  if (!has_kernels(shape, device) || row_bytes(shape) < min_row_bytes(shape) || others_are_faster(shape, device))
    return std::nullopt;
  const Blocks best = usual(shape, device);
  const auto down_to = [&](int first, int least, int most, const Shape& fitting) -> std::optional<TypedConfig> {
    for (Blocks blocks = best; first >= least; --first) {
      blocks.of_multiprocessor = first;
      if (const auto config = with_vectors(blocks, most, fitting, device)) return config;
    }
    return std::nullopt;
  };
  if (best.threads == 128 && overlaps_waves(shape, best.of_row, device))
    if (const auto config = down_to(needed_blocks(shape, best.of_row, device) <= many ? 6 : 5, 5, max_vectors, shape))
      return config;
  // Prefer all rows at once, even with more vectors in registers, unless few rows would wait.
  if (const int needed = needed_blocks(shape, best.of_row, device); best.threads == 128 && needed <= many) {
    const int first = std::max(best.of_multiprocessor, needed);
    if (const auto config = down_to(first, needed, max_vectors, shape)) return config;
    if (shape.actual_cols != 0)
      if (const auto config = down_to(first, needed, max_vectors, fitting_half_of_bucket(shape))) return config;
  }
  for (const int most : {has_ends(shape) ? best.vectors : max_vectors, max_vectors})
    if (const auto config = down_to(best.of_multiprocessor, best.least, most, shape)) return config;
  return std::nullopt;
}

std::vector<TypedConfig> small_blocks_to_try(const Shape& shape, const DeviceInfo& device, bool full) {
  constexpr std::int64_t moderate_row = 48 * kib;
  std::vector<TypedConfig> list;
  std::set<std::string> known;
  if (!has_kernels(shape, device) || row_bytes(shape) * 4 < std::min(min_row_bytes(shape), moderate_row) * 3) return list;
  const Blocks best = usual(shape, device);
  const auto add = [&](int of_row, int of_multiprocessor, Registers registers, int vectors) {
    Blocks blocks = best;
    blocks.of_row = of_row;
    blocks.of_multiprocessor = of_multiprocessor;
    blocks.registers = registers;
    blocks.vectors = vectors;
    if (of_row < 2 || of_row > max_of_row || of_multiprocessor < 1) return;
    const auto config = with_vectors(blocks, max_vectors, shape, device);
    if (config && known.insert(config->to_config().text()).second) list.push_back(*config);
  };
  const bool packs = may_pack(shape);
  const Registers other = packs && best.registers == Registers::float32 ? Registers::packed : Registers::float32;
  const int vectors_of_other = best_vectors(shape, other);
  add(best.of_row, best.of_multiprocessor, best.registers, best.vectors);
  add(best.of_row, best.of_multiprocessor + 1, other, packs ? vectors_of_other : 1);
  add(best.of_row, best.of_multiprocessor - 2, best.registers, best.vectors);
  add(best.of_row * 2, best.of_multiprocessor + 1, best.registers, best.vectors);
  add(best.of_row / 2, best.of_multiprocessor - 1, best.registers, best.vectors);
  if (!full) return list;
  for (const int of_row : {best.of_row, best.of_row * 2, best.of_row / 2})
    for (int number = best.of_multiprocessor - 2; number <= best.of_multiprocessor + 1; ++number)
      for (const Registers registers : {best.registers, other})
        for (const int vectors : {1, best_vectors(shape, registers)}) add(of_row, number, registers, vectors);
  return list;
}

}  // namespace tunesmith::row
