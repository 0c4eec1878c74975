#include "templates/row/defaults/model.h"

#include <algorithm>
#include <cmath>

#include "templates/row/defaults/geometry.h"

namespace tunesmith::row {
namespace {

// Warps of a block wait at its barriers. Warps with rows of their own spread over time, so fewer bytes suffice.
constexpr double enough_bytes_of_blocks = 128 << 10;
constexpr double enough_bytes_of_warps = 40 << 10;
// Gradients that almost fit into L2 take a few waves of rows: more threads shorten each of them (0.93 to 0.98 on an H100).
// Three rows of 24 KiB on a multiprocessor, or two of 32 KiB, are too few, though: four and three take 0.98 to 1.01 of the
// time.
constexpr double share_of_few_waves = 0.66;
// Measured on an H200 (NOTES.md, "Registers of resident rows"): registers per thread that hold the row in the configurations
// that tuning selects.
constexpr double wanted_of_blocks = 32;
constexpr double wanted_of_warps = 16;
// Threads that sort their part of a row are bound by instructions, and few bytes in flight suffice: with half of the values,
// gates of 64 to 2048 columns take 0.75 to 0.95 of the time (H100).
constexpr double share_with_chosen_columns = 0.5, bytes_with_chosen_columns = 0.15;
// A block loads a masked row and its mask with half of the bytes and registers: the address of the mask and its loads take
// their time, which more threads hide.
constexpr double share_with_mask = 0.5;
constexpr double near_best = 0.95;

/// Returns the bytes of an element over all inputs and of its mask, as they are loaded.
double loaded_bytes(const Shape& shape) {
  std::int64_t bytes = shape.options.mask == Mask::add ? size_of(shape.options.mask_dtype) : 1;
  for (int i = 0; i < shape.inputs; ++i) bytes += size_of(shape.input_dtype(i));
  return static_cast<double>(bytes);
}

/// Returns the registers per thread that should hold the row: fewer for a masked row, by the words of its mask.
double wanted_values_of_blocks(const Shape& shape) {
  constexpr double word_bytes = 4;
  if (shape.cost.sorted_columns > 0) return share_with_chosen_columns * wanted_of_blocks;
  return shape.is_masked() ? share_with_mask * wanted_of_blocks * word_bytes / loaded_bytes(shape) : wanted_of_blocks;
}

double row_values(const TypedConfig& config, const Shape& shape) {
  const auto elements =
      static_cast<double>(config.vectors_in_registers(shape) * shape.vector() * shape.inputs * shape.words_of_value());
  return config.registers == Registers::packed ? elements / 2 : elements;
}

/// Returns the number of rows that registers and threads allow on a multiprocessor.
double rows_per_sm(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  if (config.variant != Variant::warp) return config.min_blocks;
  const int threads = std::min(32 * resident_warps(config, shape, device), device.max_threads_per_sm);
  return std::max(1, threads / config.lanes);
}

/// Returns which part of enough_bytes_of_blocks suffices for such rows.
double share_of_enough_bytes(const Shape& shape, const DeviceInfo& device) {
  if (shape.is_masked()) return share_with_mask;
  if (shape.reads_two() && shape.traffic_bytes() <= 2 * device.l2_bytes) return share_of_few_waves;
  return shape.cost.sorted_columns > 0 ? bytes_with_chosen_columns : 1;
}

struct Rated {
  TypedConfig config;
  double value, cost;
};

/// Returns nearly equal configurations in the order of cost, followed by the others.
std::vector<TypedConfig> ranked(std::vector<Rated> all) {
  double best = 0;
  for (const Rated& rated : all) best = std::max(best, rated.value);
  const auto is_near = [&](const Rated& rated) { return rated.value >= near_best * best; };
  std::ranges::stable_sort(all, [&](const Rated& a, const Rated& b) {
    if (is_near(a) != is_near(b)) return is_near(a);
    return is_near(a) ? a.cost < b.cost : a.value > b.value;
  });
  std::vector<TypedConfig> configs;
  configs.reserve(all.size());
  for (Rated& rated : all) configs.push_back(std::move(rated.config));
  return configs;
}

/// Twice or half the wanted registers cost as much as a last wave that adds a quarter, or a quarter of idle lanes.
Rated rate(const TypedConfig& config, double wanted, const Shape& shape, const DeviceInfo& device) {
  const Expectation expected = expectation(config, shape, device);
  const double distance = std::fabs(std::log2(expected.row_values / wanted));
  return {config, expected.value(), expected.tail + (1 - expected.lane_use) + distance / 4};
}

}  // namespace

double wanted_values_of_warps(const Shape& shape) {
  return shape.cost.sorted_columns > 0 ? share_with_chosen_columns * wanted_of_warps : wanted_of_warps;
}

Expectation expectation(const TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  const bool warp = config.members() <= 32;
  const double room = rows_per_sm(config, shape, device);
  const auto rows = static_cast<double>(shape.rows);
  const double held =
      std::min(room, std::ceil(rows / device.sm_count));  // with few rows, more room does not hold more of them
  Expectation result;
  const bool masked = !warp && shape.is_masked();
  const double element_bytes = masked ? loaded_bytes(shape) : static_cast<double>(shape.resident_element_bytes());
  const double enough = warp ? enough_bytes_of_warps : share_of_enough_bytes(shape, device) * enough_bytes_of_blocks;
  result.bytes = held * static_cast<double>(shape.cols) * element_bytes;
  result.resident = std::min(result.bytes / enough, 1.0);
  // A block alone on a multiprocessor computes while no data moves.
  if (!warp && room == 1 && rows > device.sm_count) result.resident /= 2;
  result.lane_use = static_cast<double>(shape.vectors_per_row()) /
                    static_cast<double>(config.members() * config.vectors_per_thread(shape));
  const double waves = rows / (room * device.sm_count);
  if (!warp && waves > 1) result.tail = std::ceil(waves) / waves - 1;
  result.row_values = row_values(config, shape);
  return result;
}

std::vector<TypedConfig> ranked_blocks(const Shape& shape, const DeviceInfo& device) {
  const double wanted = wanted_values_of_blocks(shape);
  std::vector<Rated> all;
  for (const Registers registers : {Registers::float32, Registers::packed}) {
    if (registers == Registers::packed && !may_pack(shape)) continue;
    // A single warp has no barrier between its passes: the compiler then keeps both packed arrays of a gradient unpacked
    // across them, and spills.
    const int least = registers == Registers::packed && (shape.reads_two() || shape.cost.composed) ? 64 : 32;
    for (int threads = least; threads <= device.max_threads_per_block; threads += 32) {
      TypedConfig config;
      config.threads = threads;
      config.registers = registers;
      bound_registers(config, shape, device);
      if (why_invalid(config, shape, device).empty()) all.push_back(rate(config, wanted, shape, device));
    }
  }
  return ranked(std::move(all));
}

std::vector<TypedConfig> ranked_warps(int threads, int max_vectors, const Shape& shape, const DeviceInfo& device) {
  std::vector<Rated> all;
  for (int lanes = 1; lanes <= 32; lanes *= 2) {
    TypedConfig config;
    config.variant = Variant::warp;
    config.threads = threads;
    config.lanes = lanes;
    if (config.vectors_per_thread(shape) * shape.inputs <= max_vectors && why_invalid(config, shape, device).empty())
      all.push_back(rate(config, wanted_values_of_warps(shape), shape, device));
  }
  return ranked(std::move(all));
}

}  // namespace tunesmith::row
