// Fewer long rows than small_blocks() needs: clusters. Clusters exchange results in less time than a grid and are scheduled
// one by one, so that the last wave need not be full. Measured on an H100 for 150 shapes of 8 to 256 rows and 90 of buckets
// (NOTES.md, "Clusters for 40 rows and more").

#include <algorithm>

#include "templates/row/capacity.h"
#include "templates/row/defaults/few_rows.h"
#include "templates/row/defaults/geometry.h"

namespace tunesmith::row {
namespace {

/// Several inputs of float32, or terms of them, are many values in registers, so that few, large blocks suffice.
bool has_large_blocks(const Shape& shape) noexcept {
  return !is_narrow(shape) && (shape.inputs > 1 || shape.cost.terms_once);
}

/// A cluster's blocks, their threads, and the blocks that a multiprocessor holds.
struct Cluster {
  int blocks, threads, min_blocks;
  bool operator==(const Cluster&) const = default;
};

bool is_narrow_gradient(const Shape& shape) noexcept { return is_narrow(shape) && shape.inputs > 1; }

bool is_of_bucket(const Shape& shape) noexcept { return shape.actual_cols != 0; }
/// Each vector in registers of a kernel for a bucket of unaligned rows has code for the ends of the row.
bool has_code_for_ends(const Shape& shape) noexcept { return is_of_bucket(shape) && shape.shifted(); }

/// Returns clusters to try, the best first: with blocks small enough for all rows to be on the chip at once. Kernels for
/// buckets take up to 1.24 of the time of the width's own kernel with three blocks of 256 threads, and up to 1.1 with four.
std::vector<Cluster> clusters_of(const Shape& shape, const DeviceInfo& device) {
  if (has_large_blocks(shape)) return {{4, 256, 3}, {8, 256, 3}, {4, 256, 2}, {8, 256, 2}};
  constexpr int most = 4;
  const int needed = needed_blocks(shape, 8, device);
  std::vector<Cluster> list;
  if (needed < most && !is_narrow_gradient(shape) && !is_of_bucket(shape)) list.push_back({8, 256, std::max(needed, 2)});
  for (const Cluster other : {Cluster{8, 256, 4}, {8, 256, 3}, {8, 256, 2}})
    if (list.empty() || other != list.front()) list.push_back(other);
  return list;
}

/// Returns the most vectors of an input that a thread holds in registers. 12 of float32 with code for ends take up to 1.26
/// of the time of the kernel for the width.
int max_vectors_of(const Shape& shape) {
  if (!has_code_for_ends(shape) || has_large_blocks(shape)) return 16;
  return is_narrow(shape) ? 4 : 8;
}

/// Values of a thread in registers.
struct Held {
  int best, most;
};

/// Returns how many values a thread with this many registers holds; ptxas spills with more. Gradients of 16 bits, or with
/// code for ends, are faster with a single vector of each input.
Held held_values(int registers, bool packed, const Shape& shape) {
  constexpr int moderate = 32, many = 56, usual_others = 32;
  if (packed) return {moderate, 2 * (registers - usual_others)};
  const int others = shape.cost.terms_once ? 40 : shape.shifted() ? usual_others : 24, most = registers - others;
  if (is_narrow_gradient(shape) || (shape.inputs > 1 && has_code_for_ends(shape)))
    return {shape.inputs * shape.vector(), most};
  if (has_large_blocks(shape)) return {most, most};
  return {std::min(registers - usual_others, is_narrow(shape) ? most : many), most};
}

/// Returns the configuration of a cluster that holds rows in registers and shared memory. `more`: with more than the best
/// number of values in registers if shared memory is too small for the rest.
std::optional<TypedConfig> config_of(const Cluster& cluster, bool more, const Shape& shape, const DeviceInfo& device) {
  constexpr int unit = 8;  // in which registers are allocated
  const int registers = std::min(device.registers_per_sm / (cluster.threads * cluster.min_blocks) / unit * unit, 255);
  TypedConfig config;
  config.variant = Variant::cluster;
  config.blocks_per_row = cluster.blocks;
  config.threads = cluster.threads;
  config.min_blocks = cluster.min_blocks;
  config.sized_by_row = shape.min_cols > 0 ? 1 : 0;
  // float32 costs fewer instructions, except where terms replace the elements.
  const bool packed = is_narrow(shape) && shape.cost.terms_once;
  config.registers = packed ? Registers::packed : Registers::float32;
  const Held held = held_values(registers, packed, shape);
  const int values = shape.inputs * shape.vector();  // of a vector of each input
  const auto vectors = static_cast<int>(config.vectors_per_thread(shape));
  const int most = std::min({held.most / values, vectors, max_vectors_of(shape)}), best = std::min(held.best / values, most);
  std::vector<int> tries;
  for (int count = best; count <= (more ? most : best); ++count) tries.push_back(count);
  for (int count = best - 1; count > 0; --count) tries.push_back(count);
  for (const int in_registers : tries) {
    config.register_vectors = in_registers;
    if (why_invalid(config, shape, device).empty()) return with_hints(config, shape, device);
  }
  return std::nullopt;
}

/// Returns whether there are enough rows for clusters to be faster than grids.
bool has_enough_rows(const Cluster& cluster, const Shape& shape, const DeviceInfo& device) {
  constexpr double least = 0.48, few = 1.2, usual = 1.5, many = 2.25;  // blocks for each multiprocessor
  constexpr std::int64_t moderate_bytes = 40 << 10, many_bytes = 128 << 10;
  const double blocks = static_cast<double>(shape.rows_bucket() * cluster.blocks) / device.sm_count;
  if (has_large_blocks(shape)) return blocks >= (cluster.blocks == 4 && shape.shifted() ? few : many);
  if (!is_narrow(shape)) return blocks >= many;
  const std::int64_t bytes_of_block = row_bytes(shape) / cluster.blocks;
  if (bytes_of_block <= moderate_bytes * shape.inputs)
    return blocks >= (shape.cost.terms_once && !has_code_for_ends(shape) ? few : least);
  return blocks >= (bytes_of_block <= many_bytes ? usual : many);
}

/// Returns whether a cluster whose blocks have more than the best number of values in registers is faster than others.
bool is_worth_more_registers(const Cluster& cluster, const Shape& shape, const DeviceInfo& device) {
  if (!is_narrow_gradient(shape)) return true;
  const bool holds_all = std::int64_t{cluster.min_blocks} * device.sm_count >= shape.rows_bucket() * cluster.blocks;
  return has_code_for_ends(shape) && holds_all;
}

}  // namespace

Shape fitting_half_of_bucket(Shape shape) {
  const std::int64_t end = capacity_of(shape.cols), before_first = min_cols_of(end) - 1;
  shape.min_cols = shape.cols - (end - before_first) / 2;
  return shape;
}

std::optional<TypedConfig> cluster_for_few_rows(const Shape& shape, const DeviceInfo& device) {
  for (const bool any : {false, true})
    for (const Cluster& cluster : clusters_of(shape, device)) {
      if (!has_enough_rows(cluster, shape, device)) continue;
      const bool more = any || is_worth_more_registers(cluster, shape, device);
      if (const auto config = config_of(cluster, more, shape, device)) return config;
      if (!is_of_bucket(shape)) continue;
      if (const auto config = config_of(cluster, more, fitting_half_of_bucket(shape), device)) return config;
    }
  return std::nullopt;
}

std::vector<TypedConfig> clusters_to_try(const Shape& shape, const DeviceInfo& device, bool full) {
  std::vector<Cluster> clusters = clusters_of(shape, device);
  if (!has_large_blocks(shape))  // of half as many blocks
    clusters.insert(clusters.begin() + 1, Cluster{4, 256, 3});
  const std::size_t most = full ? clusters.size() : 2;
  std::vector<TypedConfig> configs;
  for (const Cluster& cluster : clusters) {
    if (configs.size() == most) break;
    if (const auto config = config_of(cluster, true, shape, device)) configs.push_back(*config);
  }
  return configs;
}

}  // namespace tunesmith::row
