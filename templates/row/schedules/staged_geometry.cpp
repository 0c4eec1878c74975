// Geometries of rows that pass through shared memory: the default and the search space.

#include <algorithm>
#include <bit>
#include <cmath>

#include "templates/row/defaults/defaults.h"
#include "templates/row/defaults/geometry.h"

namespace tunesmith::row {
namespace {

constexpr int max_lanes = 32;

/// Sets the number of rows for the same lanes: a power of two, so that a block has about `chunk_bytes` of rows of `cols`
/// columns, but every multiprocessor several blocks, and that blocks start at multiples of 16 bytes in every array.
void set_rounds(TypedConfig& config, const Shape& shape, std::int64_t cols, std::int64_t chunk_bytes,
                const DeviceInfo& device) {
  constexpr int max_rounds = 64;
  // A last wave with few blocks costs more if terms replace elements, because blocks then have more fixed work.
  const int blocks_per_sm = shape.cost.terms_once && shape.cost.writes ? 24 : 6;
  const std::int64_t at_once = config.threads / config.lanes;
  const auto bytes = static_cast<double>(at_once * cols * size_of(shape.input));
  const double wanted = std::log2(static_cast<double>(chunk_bytes) / bytes);
  config.rounds = 1 << std::clamp(static_cast<int>(std::lround(wanted)), 0, std::countr_zero(unsigned{max_rounds}));
  while (config.rounds > 1 && shape.rows < at_once * config.rounds * device.sm_count * blocks_per_sm) config.rounds /= 2;
  while (config.rounds < max_rounds && !why_not_staged(config, shape).empty()) config.rounds *= 2;
}

TypedConfig staged(int threads, int lanes) {
  TypedConfig config;
  config.variant = Variant::warp;
  config.access = Access::staged;
  config.threads = threads;
  config.lanes = lanes;
  return config;
}

/// Returns the most elements of a row that one lane of several takes.
std::int64_t elements_of_lane(const Shape& shape) {
  const bool few_cols = shape.cols <= 64, narrow = is_narrow(shape);
  if (!shape.cost.writes) {
    if (shape.cost.terms_once) return !few_cols && narrow ? 44 : 40;
    return few_cols ? 32 : 36 * staged_view(shape, 1).vector();
  }
  if (few_cols) return shape.cost.terms_once ? 40 : narrow || shape.cost.composed ? 32 : 16;
  if (shape.cost.composed && narrow) return 24;
  return 16;
}

/// Returns the most columns that a lane takes alone. Its registers are the limit.
std::int64_t cols_of_one_lane(const Shape& shape) {
  const bool narrow = is_narrow(shape);
  if (shape.inputs > 1 && narrow) return 48;
  if (shape.cost.terms_once) return shape.cost.writes || narrow ? 64 : 40;
  return narrow || shape.cost.composed ? 64 : 48;
}

/// Returns the bytes of each array that pass through shared memory at once.
std::int64_t chunk_bytes(const Shape& shape, int lanes, int threads) {
  constexpr std::int64_t usual = 12 << 10;
  if (!shape.cost.writes || lanes == 1) return usual;
  if (shape.cost.terms_once) return is_narrow(shape) ? 10 << 10 : 8 << 10;
  if (shape.cost.composed) return is_narrow(shape) && threads > 64 ? 16 << 10 : usual;
  return shape.inputs > 1 ? 6 << 10 : usual;
}

}  // namespace

TypedConfig staged_default(const Shape& shape, const DeviceInfo& device, std::int64_t cols) {
  Shape row = shape;
  row.cols = cols;
  int lanes = 1;
  while (cols > cols_of_one_lane(row) && lanes < max_lanes && lanes * elements_of_lane(row) < cols) lanes *= 2;
  constexpr std::int64_t many_cols = 512;
  const bool four_warps = shape.cost.writes && !shape.cost.terms_once && shape.inputs == 1 && lanes > 1 &&
                          !(shape.cost.reads_columns() && cols > many_cols);
  TypedConfig config = staged(four_warps ? 128 : 64, lanes);
  // For most rows of a bucket. Rows of 16 bits that start at pairs and have arrays [col] lose more with too many rows than
  // with too few.
  const bool fewer = has_one_short_stage(shape) && is_narrow(shape) && shape.starts_at_pairs();
  set_rounds(config, shape, fewer ? shape.cols : (cols + shape.cols) / 2, chunk_bytes(shape, lanes, config.threads), device);
  return config;
}
TypedConfig staged_default(const Shape& shape, const DeviceInfo& device) {
  return staged_default(shape, device, shape.cols);
}

bool gains_from_staging(const Shape& shape) noexcept {
  constexpr std::int64_t max_cols = 1024;
  const bool wide = !is_narrow(shape);
  if (!shape.cost.writes) return shape.cols < (shape.cost.terms_once ? max_cols : 64);
  if (!shape.starts_at_pairs() && (!wide || shape.cost.reads_columns())) return shape.cols < max_cols;
  if (has_one_short_stage(shape)) return shape.cols < max_cols;
  std::int64_t max_staged = wide ? 256 : 800;
  if (shape.cost.terms_once) max_staged = wide ? 128 : 500;
  if (shape.inputs > 1) max_staged = !shape.cost.reduces ? (wide ? 128 : 160) : wide ? 300 : shape.reads_two() ? 128 : 400;
  return shape.cols <= max_staged;
}

std::vector<TypedConfig> staged_to_try(const Shape& shape, const DeviceInfo& device, bool full) {
  constexpr double min_accesses = 1.5, max_accesses = 40;  // of a lane
  if (!shape.shifted() || !shape.without_gaps()) return {};
  const auto accesses = static_cast<double>(shape.cols) / staged_view(shape, 1).vector();
  const TypedConfig usual = staged_default(shape, device);
  std::vector<TypedConfig> list{usual};
  const auto add = [&](const TypedConfig& config) {
    const bool known = std::ranges::any_of(list, [&](const TypedConfig& other) {
      return other.threads == config.threads && other.lanes == config.lanes && other.rounds == config.rounds;
    });
    if (!known) list.push_back(config);
  };
  for (const int threads : full ? std::vector<int>{64, 128, 256} : std::vector<int>{usual.threads})
    for (int lanes = 1; lanes <= max_lanes; lanes *= 2) {
      const double each = accesses / lanes;
      if (each <= min_accesses || each > max_accesses) continue;
      if (!full && lanes != usual.lanes * 2 && lanes * 2 != usual.lanes) continue;
      for (const std::int64_t chunk_bytes :
           full ? std::vector<std::int64_t>{8 << 10, 16 << 10, 4 << 10} : std::vector<std::int64_t>{8 << 10}) {
        TypedConfig config = staged(threads, lanes);
        set_rounds(config, shape, shape.cols, chunk_bytes, device);
        add(config);
      }
    }
  return list;
}

}  // namespace tunesmith::row
