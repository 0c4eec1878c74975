// Geometries of rows that pass through shared memory: the default, and those that the search tries.

#include <algorithm>
#include <bit>
#include <cmath>

#include "templates/row/geometry.h"

namespace tunesmith::row {
namespace {

constexpr int max_lanes = 32;

/// Sets the number of rows for the same lanes: a power of two, so that a block has about `chunk_bytes` of rows of `cols`
/// columns, but every multiprocessor several blocks, and that blocks start at multiples of 16 bytes in every array.
void set_rounds(TypedConfig& config, const Shape& shape, std::int64_t cols, std::int64_t chunk_bytes,
                const DeviceInfo& device) {
  constexpr int most_rounds = 64, blocks_per_sm = 6;
  const std::int64_t at_once = config.threads / config.lanes;
  const auto bytes = static_cast<double>(at_once * cols * size_of(shape.input));
  const double wanted = std::log2(static_cast<double>(chunk_bytes) / bytes);
  config.rounds = 1 << std::clamp(static_cast<int>(std::lround(wanted)), 0, std::countr_zero(unsigned{most_rounds}));
  while (config.rounds > 1 && shape.rows < at_once * config.rounds * device.sm_count * blocks_per_sm) config.rounds /= 2;
  while (config.rounds < most_rounds && !why_not_staged(config, shape).empty()) config.rounds *= 2;
}

TypedConfig staged(int threads, int lanes) {
  TypedConfig config;
  config.variant = Variant::warp;
  config.access = Access::staged;
  config.threads = threads;
  config.lanes = lanes;
  return config;
}

bool is_narrow(const Shape& shape) { return size_of(shape.input) < 4; }

/// Returns the most elements of a row that one lane of several takes. Measured on an H200 (bench/LOG.md).
std::int64_t elements_of_lane(const Shape& shape) {
  if (shape.cols <= 64) return shape.is_loss() ? 40 : 32;
  if (shape.is_loss()) return shape.writes ? (is_narrow(shape) ? 28 : 20) : is_narrow(shape) ? 44 : 40;
  return (shape.writes ? 20 : 36) * staged_view(shape, 1).vector();
}

/// Returns the most columns that a lane takes alone. Its registers are the limit.
std::int64_t cols_of_one_lane(const Shape& shape) {
  if (shape.inputs > 1 && is_narrow(shape)) return 48;
  return shape.is_loss() && !shape.writes && !is_narrow(shape) ? 40 : 64;
}

}  // namespace

TypedConfig staged_default(const Shape& shape, const DeviceInfo& device, std::int64_t cols) {
  Shape row = shape;
  row.cols = cols;
  int lanes = 1;
  while (cols > cols_of_one_lane(row) && lanes < max_lanes && lanes * elements_of_lane(row) < cols) lanes *= 2;
  TypedConfig config = staged(64, lanes);
  const bool large = shape.is_loss() && shape.writes && cols > 64;  // what is done once for many rows costs more
  set_rounds(config, shape, (cols + shape.cols) / 2, (!large ? 12 : is_narrow(shape) ? 16 : 24) << 10, device);
  return config;
}
TypedConfig staged_default(const Shape& shape, const DeviceInfo& device) {
  return staged_default(shape, device, shape.cols);
}

bool gains_from_staging(const Shape& shape) noexcept {
  constexpr std::int64_t most_cols = 1024, most_of_sums = 64;
  return shape.cols < (shape.writes || shape.is_loss() ? most_cols : most_of_sums);
}

std::vector<TypedConfig> staged_to_try(const Shape& shape, const DeviceInfo& device, bool full) {
  constexpr double least_accesses = 1.5, most_accesses = 40;  // of a lane
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
  for (const int threads : full ? std::vector<int>{64, 128, 256} : std::vector<int>{64})
    for (int lanes = 1; lanes <= max_lanes; lanes *= 2) {
      const double each = accesses / lanes;
      if (each <= least_accesses || each > most_accesses) continue;
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
