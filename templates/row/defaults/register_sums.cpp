// Defaults of sums of terms alone whose rows of 2 to 32 KiB are read once into registers. With most of a
// multiprocessor's threads resident, each has few registers, and ptxas orders its loads one after another. 20 to 36 warps
// with more registers each take 0.89 to 1.0 of the time of 32 to 44 on an H100 and an H200 (cross_entropy/NOTES.md, "Warps
// of losses alone").

#include "templates/row/defaults/defaults.h"
#include "templates/row/defaults/geometry.h"

namespace tunesmith::row {
namespace {

struct Threads {
  std::int64_t max_accesses;  ///< of a row
  int of_row, blocks;         ///< blocks: of a multiprocessor
};
/// About 8 accesses for each thread.
constexpr Threads of_narrow[] = {{512, 64, 10}, {1024, 128, 5}, {1536, 192, 5}, {2048, 256, 4}};
/// 3 to 5 accesses, which are half as many elements.
constexpr Threads of_wide[] = {{341, 64, 14}, {512, 96, 12}, {1024, 192, 6}, {2048, 384, 3}};

TypedConfig warp_of_row(int threads) {
  TypedConfig config;
  config.variant = Variant::warp;
  config.threads = threads;
  config.lanes = 32;
  return config;
}

TypedConfig block_of_row(const Threads& threads, Registers registers) {
  TypedConfig config;
  config.threads = threads.of_row;
  config.min_blocks = threads.blocks;
  config.registers = registers;
  return config;
}

std::optional<TypedConfig> narrow_sums(const Shape& shape) {
  constexpr std::int64_t of_short_row = 192, of_medium_row = 256, max_of_warp = 384;
  const std::int64_t accesses = shape.vectors_per_row();
  if (accesses <= of_short_row) return std::nullopt;
  if (shape.shifted())
    return accesses > of_medium_row && accesses <= max_of_warp
               ? std::optional(block_of_row({max_of_warp, 32, 20}, Registers::packed))
               : std::nullopt;
  if (accesses <= max_of_warp) return warp_of_row(accesses <= of_medium_row ? 128 : 64);
  for (const Threads& threads : of_narrow)
    if (accesses <= threads.max_accesses) return block_of_row(threads, Registers::packed);
  return std::nullopt;
}

std::optional<TypedConfig> wide_sums(const Shape& shape) {
  constexpr std::int64_t of_short_row = 224, of_warp = 264;  // of_warp: 1024 columns from any element on
  const std::int64_t accesses = shape.vectors_per_row();
  if (accesses <= of_short_row) return std::nullopt;
  if (shape.shifted()) return accesses <= of_warp ? std::optional(warp_of_row(128)) : std::nullopt;
  for (const Threads& threads : of_wide)
    if (accesses <= threads.max_accesses) return block_of_row(threads, Registers::float32);
  return std::nullopt;
}

}  // namespace

std::optional<TypedConfig> register_sums(const Shape& shape, const DeviceInfo& device) {
  if (!shape.cost.sums_once() || shape.wide() || shape.is_masked()) return std::nullopt;
  std::optional<TypedConfig> config = is_narrow(shape) ? narrow_sums(shape) : wide_sums(shape);
  if (!config) return std::nullopt;
  lower_min_blocks(*config, shape, device);
  return if_valid(with_hints(*config, shape, device), shape, device);
}

std::vector<TypedConfig> sums_to_try(const Shape& shape, const DeviceInfo& device) {
  std::vector<TypedConfig> list;
  const std::optional<TypedConfig> best = register_sums(shape, device);
  if (!best || best->variant != Variant::block) return list;
  const auto add = [&](int threads, int blocks, Registers registers, Access access = Access::vectors) {
    TypedConfig config = block_of_row({0, threads, std::max(1, blocks)}, registers);
    config.access = access;
    if (threads >= 32 && threads <= 1024 && why_invalid(config, shape, device).empty()) list.push_back(config);
  };
  const int threads = best->threads, blocks = best->min_blocks;
  if (shape.shifted() && shape.starts_at_pairs()) {
    add(threads, blocks, best->registers, Access::pairs);
    add(threads, blocks - 4, Registers::float32, Access::pairs);
  }
  if (may_pack(shape)) add(threads, blocks, Registers::float32);
  add(threads * 2, blocks * 2 / 3, best->registers);
  add(threads, blocks * 3 / 2, best->registers);
  add(threads, blocks * 2 / 3, best->registers);
  add(threads / 2 / 32 * 32, blocks * 2, best->registers);
  return list;
}

}  // namespace tunesmith::row
