// Defaults of warps and blocks that keep rows in registers.

#include <algorithm>

#include "templates/row/defaults/defaults.h"
#include "templates/row/defaults/geometry.h"
#include "templates/row/defaults/model.h"

namespace tunesmith::row {
namespace {

/// Values of a masked row in a thread of a block: more leave no registers for the mask.
constexpr double max_masked_values = 32;

/// Returns the most vectors of each of several inputs that a lane takes.
std::int64_t vectors_of_lane_of_several(const Shape& shape) {
  const std::int64_t vectors = shape.vectors_per_row();
  if (size_of(shape.input) >= 4) return vectors <= 32 ? 2 : 3;
  if (shape.reads_two()) return 3;
  constexpr int few_floats = 2;  // exchanged: one sum, not the moments of a row
  const std::int64_t max_alone = shape.cost.exchanged_floats <= few_floats ? 16 : 7;
  return vectors <= max_alone ? 1 : vectors <= 32 ? 2 : 3;
}

/// Returns the most vectors of each input that a lane takes next to its sums over rows: 32 bytes, or half as many more if
/// fewer vectors of lanes are then beyond the end of the row. Above 8 accesses, the compiler keeps the addresses and
/// predicates of all of them for the next rows.
std::int64_t vectors_of_summing_lane(const Shape& shape) {
  constexpr std::int64_t bytes = 32, max_accesses = 8;
  const std::int64_t few = std::clamp(bytes / (shape.vector() * size_of(shape.input)), std::int64_t{1}, max_accesses);
  const std::int64_t more = std::min(few + (few + 1) / 2, max_accesses);
  const auto slots = [&](std::int64_t most) {
    const std::int64_t vectors = shape.vectors_per_row(), lanes = threads_for(vectors, most, 1, 32);
    return lanes * ((vectors + lanes - 1) / lanes);
  };
  return slots(more) < slots(few) ? more : few;
}

/// Returns the most vectors of each input that a lane takes. More reach further apart, and a row of an odd number of 16
/// bytes begins in the middle of a sector: on an H100, 9 vectors in two lanes take 1.24 times as long as in four. The
/// exchanges before logarithms cost more than a few more loads (NOTES.md, "Short rows: lanes").
std::int64_t vectors_of_lane(const Shape& shape) {
  const bool wide = size_of(shape.input) >= 4;
  const std::int64_t vectors = shape.vectors_per_row();
  if (shape.cost.sorted_columns > 0) return std::max(1, static_cast<int>(wanted_values_of_warps(shape)) / shape.vector());
  if (!shape.cost.writes && shape.cost.reduces) return 6;
  if (shape.cost.sums_rows()) return vectors_of_summing_lane(shape);
  if (shape.inputs > 1) return vectors_of_lane_of_several(shape);
  if (shape.cost.keeps_terms()) return vectors <= 12 ? (wide ? 3 : 4) : wide ? 5 : 6;
  if (shape.cost.logarithm && !wide && !has_whole_lines(shape)) return 4;
  return vectors <= (wide ? 24 : 32) ? 3 : 4;
}

/// Returns the most vectors of a row that one lane holds alone. Its accesses are far from the next lane's.
std::int64_t vectors_of_lone_lane(const Shape& shape) {
  const bool wide = size_of(shape.input) >= 4;
  if (!shape.cost.terms_once) return shape.cost.logarithm && shape.inputs == 1 && !wide ? 3 : 1;
  if (shape.cost.writes) return wide ? 2 : 3;
  return wide ? 3 : 6;
}

}  // namespace

TypedConfig warp_default(const Shape& shape, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::warp;
  config.threads = size_of(shape.input) >= 4 && shape.cost.writes ? 64 : 128;
  if (shape.cost.sums_rows()) config.threads = shape.vector() == 1 ? 256 : 128;
  const std::int64_t vectors = shape.vectors_per_row();
  config.lanes = threads_for(vectors, vectors_of_lane(shape), vectors > vectors_of_lone_lane(shape) ? 2 : 1, 32);
  if (why_invalid(config, shape, device).empty()) return config;
  const std::vector<TypedConfig> ranked = ranked_warps(config.threads, max_vectors_of_a_lane, shape, device);
  return ranked.empty() ? config : ranked.front();
}

TypedConfig block_default(const Shape& shape, const DeviceInfo& device) {
  // More row values per thread are slow to compile and leave few threads.
  const double max_values = shape.is_masked() ? max_masked_values : 96;
  std::vector<TypedConfig> blocks = ranked_blocks(shape, device);
  for (const TypedConfig& config : blocks)
    if (expectation(config, shape, device).row_values <= max_values) return config;
  if (!blocks.empty()) return blocks.front();
  TypedConfig config;
  config.threads = 1024;
  if (may_pack(shape)) config.registers = Registers::packed;
  return config;
}

std::optional<TypedConfig> two_rows_block(const Shape& shape, const DeviceInfo& device) {
  constexpr int vectors = 4;  // of a thread
  TypedConfig config;
  config.threads = 1024;
  config.min_blocks = 2;
  config.registers = Registers::packed;
  if (!may_pack(shape) || config.vectors_per_thread(shape) != vectors || !why_invalid(config, shape, device).empty())
    return std::nullopt;
  return with_hints(config, shape, device);
}

std::optional<TypedConfig> narrow_summing_block(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t min_cols = 192, max_elements = 17;  // of a thread
  const bool single = shape.vector() == 1, narrow = size_of(shape.input) < 4;
  const std::int64_t max_threads = single && narrow ? 64 : 256;
  if (!shape.cost.sums_rows() || shape.wide() || shape.vector() > 2 || shape.cols <= min_cols ||
      shape.cols > max_elements * max_threads)
    return std::nullopt;
  TypedConfig config;
  config.threads = threads_for(shape.cols, max_elements, 32, static_cast<int>(max_threads));
  bound_registers(config, shape, device);
  if (!why_invalid(config, shape, device).empty()) return std::nullopt;
  return with_hints(config, shape, device);
}

std::optional<TypedConfig> gradient_block(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t threads = 64, max_vectors = 4;
  if (!shape.cost.keeps_terms() || shape.shifted() || size_of(shape.input) != 2 ||
      shape.vectors_per_row() > threads * max_vectors)
    return std::nullopt;
  TypedConfig config;
  config.threads = threads;
  bound_registers(config, shape, device);
  if (!why_invalid(config, shape, device).empty()) return std::nullopt;
  return with_hints(config, shape, device);
}

}  // namespace tunesmith::row
