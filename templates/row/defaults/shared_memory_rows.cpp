// Defaults of blocks and clusters that keep rows in registers and shared memory.

#include <algorithm>
#include <utility>
#include <vector>

#include "templates/row/defaults/defaults.h"
#include "templates/row/defaults/geometry.h"

namespace tunesmith::row {
namespace {

/// Few threads with a moderate share in registers, converted once: on an H200 the fastest choice if exponentials stay
/// resident for the gradient.
TypedConfig keeping_exponentials(TypedConfig config, const Shape& shape, const DeviceInfo& device) {
  constexpr int moderate = 8;
  TypedConfig converted = config;
  converted.registers = Registers::float32;
  converted.register_vectors = std::min(config.register_vectors, moderate);
  return shape.cost.keeps_terms() && why_invalid(converted, shape, device).empty() ? converted : config;
}

/// Returns a block of 128 threads with a few vectors of each input in registers and the rest in shared memory.
TypedConfig small_hybrid(int register_vectors, int min_blocks, const Shape& shape) {
  TypedConfig config;
  config.variant = Variant::hybrid;
  config.threads = 128;
  config.register_vectors = register_vectors;
  config.min_blocks = min_blocks;
  config.registers = may_pack(shape) ? Registers::packed : Registers::float32;
  return config;
}

/// Returns whether a kernel of its own reads two rows that a block can hold in shared memory.
bool is_gradient_of_block(const Shape& shape) {
  constexpr std::int64_t min_bytes = 12 << 10, max_bytes = 64 << 10;
  return shape.reads_two() && !shape.is_masked() && !shape.wide() && row_bytes(shape) >= min_bytes &&
         row_bytes(shape) <= max_bytes;
}

}  // namespace

TypedConfig hybrid_default(const Shape& shape, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::hybrid;
  // Two blocks overlap well; the longest rows leave room for one only.
  for (const int blocks : {2, 1})
    for (const int threads : {shape.cost.keeps_terms() ? 256 : 512, 1024})
      if (fill_chip(config, threads, blocks, shape, device)) return keeping_exponentials(config, shape, device);
  return config;
}

TypedConfig cluster_default(const Shape& shape, const DeviceInfo& device) {
  struct Blocks {
    int number, threads, max_vectors;
  };
  std::vector<Blocks> blocks{{2, 512, 8}, {1, 512, 8}};
  if (shape.inputs == 1) blocks.insert(blocks.begin(), {3, 256, 4});
  if (shape.cost.keeps_terms()) blocks = {{2, 256, 16}, {1, 256, 16}};
  TypedConfig config;
  config.variant = Variant::cluster;
  for (const auto& [number, threads, max_vectors] : blocks)
    for (const int size : {2, 4, 8}) {
      config.blocks_per_row = size;
      if (!fill_chip(config, threads, number, shape, device)) continue;
      config.register_vectors = std::min(config.register_vectors, max_vectors);
      if (why_invalid(config, shape, device).empty()) return keeping_exponentials(config, shape, device);
    }
  config.blocks_per_row = 8;
  return config;
}

std::optional<TypedConfig> unaligned_hybrid(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t min_bytes = 34 << 10, max_bytes = 88 << 10;
  if (!shape.shifted() || shape.inputs > 1 || size_of(shape.input) != 2 || shape.cost.composed || shape.is_masked() ||
      row_bytes(shape) < min_bytes || row_bytes(shape) > max_bytes)
    return std::nullopt;
  TypedConfig config;
  config.variant = Variant::hybrid;
  for (const auto& [blocks, max_vectors] : {std::pair{4, 6}, {3, 9}}) {
    if (!fill_chip(config, 256, blocks, shape, device)) continue;
    config.register_vectors = std::min(config.register_vectors, max_vectors);
    if (why_invalid(config, shape, device).empty()) return with_hints(config, shape, device);
  }
  return std::nullopt;
}

std::optional<TypedConfig> gradient_hybrid(const Shape& shape, const DeviceInfo& device) {
  constexpr std::int64_t min_cols = 4096;
  if (!is_gradient_of_block(shape) || !is_narrow(shape) || shape.shifted() || shape.cols < min_cols ||
      shape.actual_cols != 0 || shape.traffic_bytes() <= 2 * device.l2_bytes || shape.traffic_bytes() >= 4 * device.l2_bytes)
    return std::nullopt;
  TypedConfig config = small_hybrid(1, 8, shape);
  lower_min_blocks(config, shape, device);
  return if_valid(with_hints(config, shape, device), shape, device);
}

std::vector<TypedConfig> gradients_to_try(const Shape& shape, const DeviceInfo& device) {
  std::vector<TypedConfig> list;
  if (!is_gradient_of_block(shape)) return list;
  if (is_narrow(shape)) {
    TypedConfig converted;  // once, for both passes
    converted.threads = 128;
    bound_registers(converted, shape, device);
    list.push_back(converted);
  }
  for (const auto& [vectors, blocks] : {std::pair{1, 8}, {1, 4}, {2, 6}, {4, 6}})
    list.push_back(small_hybrid(vectors, blocks, shape));
  return list;
}

}  // namespace tunesmith::row
