// Which configurations are worth trying, and which one is used without trying.
//
// The rules of thumb come from measurements on an H200 (bench/RESULTS.md): 64 to 128 bytes a thread in flight; a row in the
// registers of one warp up to 8 vectors a lane; evict_last loads once a tensor is well beyond the L2 cache.

#include <algorithm>
#include <bit>

#include "templates/softmax/softmax_config.h"
#include "templates/softmax/softmax_op.h"

namespace tunesmith {
namespace softmax {
namespace {

int power_of_two_up(std::int64_t value, int least, int most) {
  const auto clamped = static_cast<std::uint64_t>(std::clamp<std::int64_t>(value, least, most));
  return static_cast<int>(std::bit_ceil(clamped));
}

/// As many resident blocks as registers and threads allow, so that the compiler does not spend registers it need not.
void bound_registers(TypedConfig& config, const Shape& shape, const DeviceInfo& device) {
  const int by_registers = device.registers_per_sm / (config.threads * std::max(1, config.registers_needed(shape) + 6));
  const int by_threads = device.max_threads_per_sm / config.threads;
  config.min_blocks = std::clamp(std::min(by_registers, by_threads), 1, 32);
}

/// So many blocks of so many threads on a multiprocessor, as much of the row in registers as they leave, the rest in shared
/// memory. False when the row does not fit, or fits into the registers.
bool hybrid_geometry(TypedConfig& config, int threads, int blocks, const Shape& shape, const DeviceInfo& device) {
  config.variant = Variant::hybrid;
  config.threads = threads;
  config.min_blocks = blocks;
  config.registers = shape.output != DType::f32 && size_of(shape.input) == 2 && shape.vector() > 1 ? "packed" : "float32";
  for (config.register_vectors = static_cast<int>(std::min<std::int64_t>(config.vectors_per_thread(shape) - 1, 16));
       config.register_vectors > 0; --config.register_vectors)
    if (why_invalid(config, shape, device).empty()) return true;
  config.register_vectors = 1;
  return false;
}

bool is_large(const Shape& shape, const DeviceInfo& device) { return shape.traffic_bytes() >= 4 * device.l2_bytes; }

TypedConfig config_with_hints(TypedConfig config, const Shape& shape, const DeviceInfo& device) {
  const bool has_policies = device.arch.number() >= 80;
  const bool one_read = config.variant != Variant::online;
  if (has_policies && is_large(shape, device)) {
    config.load = "evict_last";
    if (!one_read) config.load_again = "evict_first";
  } else if (!shape.in_place && one_read && shape.traffic_bytes() <= device.l2_bytes) {
    config.load = "no_allocate";
  }
  return config;
}

struct Hints {
  const char *load, *load_again, *store;
};

std::vector<Hints> hints_to_try(const Shape& shape, const DeviceInfo& device, Effort effort) {
  const bool has_policies = device.arch.number() >= 80;
  std::vector<Hints> hints{{"plain", "plain", "plain"}};
  if (has_policies) hints.push_back({"evict_last", "evict_first", "plain"});
  if (!shape.in_place) hints.push_back({"no_allocate", "no_allocate", "streaming"});
  if (effort == Effort::quick) return hints;
  hints.push_back({"plain", "plain", "streaming"});
  hints.push_back({"streaming", "streaming", "streaming"});
  if (!shape.in_place) hints.push_back({"no_allocate", "no_allocate", "plain"});
  if (has_policies) {
    hints.push_back({"evict_last", "evict_first", "evict_first"});
    hints.push_back({"evict_first", "evict_first", "plain"});
  }
  return hints;
}

/// Geometries without hints, most promising first.
std::vector<TypedConfig> geometries(const Shape& shape, const DeviceInfo& device, Effort effort) {
  const bool full = effort == Effort::full;
  const std::int64_t vectors = shape.vectors_per_row();
  std::vector<TypedConfig> result;
  for (int lanes = full ? 1 : 2; lanes <= 32; lanes *= 2) {
    const std::int64_t per_lane = (vectors + lanes - 1) / lanes;
    if (per_lane > (full ? 16 : 8) || vectors * 2 <= lanes) continue;
    for (const int threads : full ? std::vector<int>{64, 128, 256, 512} : std::vector<int>{64, 256}) {
      TypedConfig config;
      config.variant = Variant::warp;
      config.lanes = lanes;
      config.threads = threads;
      result.push_back(config);
    }
  }
  for (int threads = 32; threads <= 1024; threads *= 2) {
    const std::int64_t per_thread = (vectors + threads - 1) / threads;
    const std::int64_t elements = per_thread * shape.vector();
    if (vectors * 2 <= threads || elements > (full ? 128 : 64) || (!full && elements < 8)) continue;
    for (const char* const registers : {"float32", "packed"}) {
      // Packed rows are for 16-bit arithmetic; the precise one works on so much at once that they would spill.
      if (*registers == 'p' && (size_of(shape.input) == 4 || shape.output == DType::f32)) continue;
      TypedConfig config;
      config.variant = Variant::block;
      config.threads = threads;
      config.registers = registers;
      bound_registers(config, shape, device);
      result.push_back(config);
      if (full && config.min_blocks > 1) {
        config.min_blocks = 1;  // the compiler's own choice of registers
        result.push_back(config);
      }
    }
  }
  for (const int threads : {256, 512, 1024})
    for (int blocks = 1; blocks <= (full ? 4 : 2); ++blocks) {
      TypedConfig config;
      if (!hybrid_geometry(config, threads, blocks, shape, device)) continue;
      // Worth it where the registers alone hold no row, or no two of them.
      const std::int64_t row_bytes = shape.cols * size_of(shape.input);
      if (row_bytes >= (full ? 32 << 10 : 60 << 10)) result.push_back(config);
    }
  for (const int threads : full ? std::vector<int>{128, 256, 512, 1024} : std::vector<int>{512, 1024})
    for (const int unroll : full ? std::vector<int>{1, 2, 4, 8} : std::vector<int>{2, 4}) {
      const std::int64_t tile_vectors = std::int64_t{threads} * unroll;
      if (tile_vectors >= 2 * vectors && !(result.empty() && threads == 128)) continue;
      TypedConfig config;
      config.variant = Variant::online;
      config.threads = threads;
      config.unroll = unroll;
      // Two passes pay only where a row does not fit on the chip; below that a few serve as a check of that rule.
      const bool fits = vectors <= 8192;
      if (!fits || full) result.push_back(config);
    }
  return result;
}

}  // namespace

TypedConfig default_config(Variant variant, const Shape& shape, const DeviceInfo& device) {
  const std::int64_t vectors = shape.vectors_per_row();
  TypedConfig config;
  config.variant = variant;
  switch (variant) {
    case Variant::warp:
      config.threads = size_of(shape.input) == 4 ? 64 : 256;
      config.lanes = power_of_two_up((vectors + 3) / 4, 1, 32);
      break;
    case Variant::block: {
      // About 32 elements a thread: enough in flight, few enough for several blocks on a multiprocessor. Longer 16-bit rows
      // go packed, 64 elements in the same registers, before a block grows beyond 512 threads.
      const bool wide = size_of(shape.input) == 4;
      config.threads = power_of_two_up((shape.cols + 31) / 32, 64, wide || shape.cols > 512 * 64 ? 1024 : 512);
      if (!wide && shape.output != DType::f32 && config.vectors_per_thread(shape) * shape.vector() > 32)
        config.registers = "packed";
      bound_registers(config, shape, device);
      break;
    }
    case Variant::hybrid:
      // Two blocks overlap well; one is what is left for the longest rows.
      for (const int blocks : {2, 1})
        for (const int threads : {512, 1024})
          if (hybrid_geometry(config, threads, blocks, shape, device)) return config_with_hints(config, shape, device);
      break;
    case Variant::online:
      config.threads = power_of_two_up((vectors + 3) / 4, 32, 1024);
      config.unroll = 4;
      break;
  }
  return config_with_hints(config, shape, device);
}

TypedConfig default_config(const Shape& shape, const DeviceInfo& device) {
  const TypedConfig warp = default_config(Variant::warp, shape, device);
  if (warp.vectors_per_thread(shape) <= 8 && why_invalid(warp, shape, device).empty()) return warp;
  const TypedConfig block = default_config(Variant::block, shape, device);
  const TypedConfig hybrid = default_config(Variant::hybrid, shape, device);
  const bool block_fits = why_invalid(block, shape, device).empty();
  const bool hybrid_fits = why_invalid(hybrid, shape, device).empty();
  // A block that has a multiprocessor to itself computes while no data moves; two smaller shares overlap.
  if (block_fits && (block.threads * block.min_blocks > 1024 || block.threads <= 512 || !hybrid_fits)) return block;
  if (hybrid_fits) return hybrid;
  return default_config(Variant::online, shape, device);
}

}  // namespace softmax

Config SoftmaxOp::default_config(const Problem& problem, const DeviceInfo& device) const {
  return softmax::default_config(softmax::Shape(problem), device).to_config();
}

std::vector<Config> SoftmaxOp::search_space(const Problem& problem, const DeviceInfo& device, Effort effort) const {
  const softmax::Shape shape(problem);
  std::vector<Config> space{default_config(problem, device)};
  for (softmax::TypedConfig config : softmax::geometries(shape, device, effort))
    for (const softmax::Hints& hints : softmax::hints_to_try(shape, device, effort)) {
      config.load = hints.load;
      config.store = hints.store;
      if (config.variant == softmax::Variant::online) config.load_again = hints.load_again;
      if (!softmax::why_invalid(config, shape, device).empty()) continue;
      Config candidate = config.to_config();
      if (std::ranges::find(space, candidate) == space.end()) space.push_back(std::move(candidate));
    }
  return space;
}

}  // namespace tunesmith
