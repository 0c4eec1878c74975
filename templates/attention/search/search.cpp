// The search space of attention's configurations, and the default without tuning.

#include <algorithm>

#include "templates/attention/search/config.h"
#include "templates/attention/search/split_config.h"
#include "tunesmith/error.h"

namespace tunesmith::attention {
namespace {

TypedConfig default_simt(const Settings& settings, const DeviceInfo& device) {
  TypedConfig config;
  // The largest square tile with two blocks per multiprocessor, but no larger than the number of queries.
  const std::int64_t half = std::min(device.smem_bytes_per_block, device.smem_bytes_per_sm / 2 - 1024);
  while (config.tile_q > 16 && config.tile_q / 2 >= settings.seq_q) config.tile_q /= 2;
  while (config.smem_bytes(settings) > half && (config.tile_q > 16 || config.tile_kv > 32)) {
    if (config.tile_q > config.tile_kv || config.tile_kv <= 32)
      config.tile_q /= 2;
    else
      config.tile_kv /= 2;
  }
  // Four queries and four keys to a thread.
  config.threads = std::clamp(config.tile_q * 4, 64, 256);
  const auto fills = [&](const TypedConfig& one) {
    const std::int64_t tiles = (settings.seq_q + one.tile_q - 1) / one.tile_q;
    return tiles * settings.heads * settings.batch_of_choices() >= std::int64_t{4} * device.sm_count;
  };
  const std::int64_t widest = std::max(settings.head_dim, settings.head_dim_v);
  if (config.threads < 256 || widest > 128 || !fills(config)) return config;
  // Eight queries, or sixteen if the output takes few registers: faster on an H200 (NOTES.md, "f32 on CUDA cores: 128
  // threads").
  config.threads = 128;
  TypedConfig twice = config;
  twice.tile_q = 128;
  const bool has_registers = widest <= 64 && settings.score_mod.empty() && settings.dropout == 0;
  if (has_registers && config.tile_kv == 64 && twice.smem_bytes(settings) <= half && fills(twice)) return twice;
  return config;
}

/// Uses the rest of shared memory for a second Q tile and for the output: the second Q tile lets the next tile's first
/// product overlap the end of this one, and an output that is staged as a whole waits once.
TypedConfig fitted(TypedConfig config, const Settings& settings, const DeviceInfo& device) {
  const int all = static_cast<int>(slabs(settings.head_dim_v));
  for (const int q_stages : {2, 1})
    for (int o_slabs = all; o_slabs >= 1; --o_slabs) {
      config.q_stages = q_stages;
      config.o_slabs = o_slabs;
      if (config.smem_bytes(settings) <= device.smem_bytes_per_block) return config;
    }
  return config;
}

/// The fastest on an H200 (NOTES.md, "Tiles of the default"): as many queries as registers allow, and keys that leave room
/// for stages.
TypedConfig default_wgmma(const Settings& settings, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::wgmma;
  const std::int64_t widest = std::max(settings.head_dim, settings.head_dim_v);
  // User functions and dropout take registers, too, and three warpgroups have none left: they spill.
  const bool crowded = settings.modified() || settings.dropout > 0;
  config.tile_q = widest <= 128 && !crowded ? 192 : 128;
  const bool plain = !crowded && settings.softcap == 0 && !settings.alibi && !settings.sinks;
  // Short sequences: tiles that divide them, and fewer keys waiting for the first product.
  if (settings.seq_q <= 1024 && plain && widest <= 128) config.tile_q = widest <= 64 ? 256 : 128;
  while (config.tile_q > 64 && config.tile_q - 64 >= settings.seq_q) config.tile_q -= 64;
  const bool three = config.tile_q == 192;
  // From pages of 32 on, a tile of 64 keys has one or two boxes of TMA, a tile of 80 keys five: 0.86 to 0.91 of the time.
  const bool wide_tiles = plain && !(settings.page_size > 0 && settings.page_size % 32 == 0);
  if (widest <= 64)
    config.tile_kv = config.tile_q == 256 ? 64 : three && settings.softcap != 0 ? 96 : 128;
  else if (widest <= 128)
    config.tile_kv = !three ? 128 : wide_tiles ? 80 : 64;
  else
    config.tile_kv = widest <= 192 ? 96 : 64;
  config.stages = widest <= 64 ? 4 : !three ? 2 : wide_tiles ? 3 : 4;
  config = fitted(config, settings, device);
  while (config.tile_kv > 16 && config.smem_bytes(settings) > device.smem_bytes_per_block) config.tile_kv -= 16;
  return config;
}

struct MmaTiling {
  int tile_q, warps, tile_kv, stages;
  bool q_in_registers;
  int blocks_per_sm;
};
/// Limits blocks_per_sm to what shared memory holds; 1 where more make no difference.
TypedConfig mma_config(const MmaTiling& tiling, const Settings& settings, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::mma;
  config.tile_q = tiling.tile_q;
  config.warps = tiling.warps;
  config.tile_kv = tiling.tile_kv;
  config.stages = tiling.stages;
  config.q_in_registers = tiling.q_in_registers;
  // User functions and conversions take registers, too.
  const bool crowded = settings.modified() || settings.kv_dtype == DType::e4m3;
  const int wanted = crowded ? std::min(tiling.blocks_per_sm, 2) : tiling.blocks_per_sm;
  const auto room = static_cast<int>(device.smem_bytes_per_sm / (config.smem_bytes(settings) + 1024));
  config.blocks_per_sm = std::clamp(wanted, 1, std::max(room, 1));
  if (register_limit(config, device) == 255) config.blocks_per_sm = 1;
  return config;
}

/// Returns good tilings, the best guess first: two or three blocks per multiprocessor, so that one computes while another
/// waits.
std::vector<MmaTiling> mma_tilings(const Settings& settings, const DeviceInfo& device) {
  const std::int64_t widest = std::max(settings.head_dim, settings.head_dim_v);
  if (settings.seq_q <= 16)
    return {{16, 1, 64, 2, 1, 1},  {16, 1, 32, 3, 1, 1}, {16, 1, 64, 1, 1, 1},
            {16, 1, 128, 1, 1, 1}, {16, 1, 32, 2, 1, 1}, {16, 1, 32, 2, 0, 1}};
  if (settings.seq_q <= 32)
    return {{32, 2, 64, 2, 1, 1}, {32, 2, 64, 1, 1, 1}, {32, 1, 64, 2, 0, 1},
            {32, 2, 32, 3, 1, 1}, {32, 2, 32, 2, 1, 1}, {32, 2, 32, 2, 0, 1}};
  std::vector<MmaTiling> tilings;
  if (widest <= 64)
    tilings = {{128, 4, 64, 2, 0, 3}, {128, 4, 64, 1, 0, 3},  {64, 4, 64, 2, 1, 3},  {128, 4, 64, 1, 1, 1},
               {64, 4, 128, 1, 1, 3}, {128, 4, 112, 1, 0, 1}, {128, 8, 64, 2, 1, 2}, {64, 4, 64, 1, 1, 4},
               {128, 4, 64, 2, 0, 1}, {128, 8, 128, 1, 1, 1}};
  else if (widest <= 128 && device.smem_bytes_per_block > 128 << 10)
    tilings = {{128, 4, 64, 1, 0, 1}, {64, 4, 64, 1, 0, 3},   {64, 4, 64, 1, 1, 3}, {128, 8, 64, 1, 1, 1},
               {64, 4, 64, 2, 1, 1},  {128, 8, 128, 1, 1, 1}, {64, 4, 32, 2, 0, 4}, {128, 4, 32, 2, 0, 1},
               {128, 4, 48, 1, 0, 1}, {64, 4, 128, 1, 0, 1}};
  else if (widest <= 128)
    tilings = {{64, 4, 64, 1, 1, 3},  {128, 4, 32, 1, 0, 1},  {64, 4, 64, 1, 1, 1}, {128, 8, 64, 1, 1, 1},
               {64, 4, 32, 2, 1, 3},  {128, 8, 128, 1, 1, 1}, {64, 4, 64, 2, 1, 1}, {64, 4, 64, 1, 0, 1},
               {128, 8, 64, 2, 1, 1}, {64, 4, 96, 1, 1, 1}};
  else
    tilings = {{64, 4, 64, 1, 0, 1}, {128, 8, 64, 1, 0, 1}, {64, 4, 32, 2, 0, 1},
               {64, 4, 48, 1, 0, 1}, {64, 4, 32, 1, 0, 1},  {128, 8, 32, 2, 0, 1},
               {64, 4, 96, 1, 0, 1}, {32, 2, 32, 2, 0, 1},  {64, 4, 16, 2, 0, 1}};
  if (settings.seq_q <= 64)
    std::stable_partition(tilings.begin(), tilings.end(), [](const MmaTiling& tiling) { return tiling.tile_q <= 64; });
  return tilings;
}

/// Returns the first valid tiling; there is always one where mma is valid.
TypedConfig default_mma(const Settings& settings, const DeviceInfo& device) {
  const std::vector<MmaTiling> tilings = mma_tilings(settings, device);
  for (const MmaTiling& tiling : tilings)
    if (const TypedConfig config = mma_config(tiling, settings, device); why_invalid(config, settings, device).empty())
      return config;
  return mma_config(tilings.front(), settings, device);
}

void add_mma(const Settings& settings, const DeviceInfo& device, bool full, std::vector<TypedConfig>& space) {
  for (const MmaTiling& tiling : mma_tilings(settings, device)) space.push_back(mma_config(tiling, settings, device));
  if (!full) return;
  for (const int tile_q : {128, 64, 32, 16})
    for (const int rows : {32, 16})
      for (const int tile_kv : {64, 128, 96, 32, 48, 112})
        for (const int stages : {1, 2, 3})
          for (const bool q_in_registers : {false, true})
            for (const int blocks_per_sm : {1, 2, 3, 4}) {
              const int warps = tile_q / rows;
              if (warps < 1 || warps > 8) continue;
              if (tile_q > 16 && tile_q / 2 >= settings.seq_q) continue;  // mostly idle
              const TypedConfig config =
                  mma_config({tile_q, warps, tile_kv, stages, q_in_registers, blocks_per_sm}, settings, device);
              if (config.blocks_per_sm == blocks_per_sm) space.push_back(config);
            }
}

void add_simt(const Settings& settings, bool full, std::vector<TypedConfig>& space) {
  for (const int tile_q : full ? std::vector<int>{64, 128, 32, 16} : std::vector<int>{64, 32, 128})
    for (const int tile_kv : full ? std::vector<int>{64, 32, 48, 16} : std::vector<int>{64, 32})
      for (const int threads : full ? std::vector<int>{256, 128, 64} : std::vector<int>{256, 128}) {
        if (tile_q >= 2 * settings.seq_q && tile_q > 16) continue;  // mostly idle
        TypedConfig config;
        config.tile_q = tile_q;
        config.tile_kv = tile_kv;
        config.threads = threads;
        space.push_back(config);
      }
}

void add_wgmma(const Settings& settings, const DeviceInfo& device, bool full, std::vector<TypedConfig>& space) {
  const std::int64_t widest = std::max(settings.head_dim, settings.head_dim_v);
  const std::vector<int> tiles_kv = widest <= 64    ? std::vector<int>{128, 64, 96, 48, 160, 176}
                                    : widest <= 128 ? std::vector<int>{128, 64, 80, 112, 96, 176}
                                                    : std::vector<int>{64, 80, 48, 96};
  const std::size_t some = full ? tiles_kv.size() : 3;
  for (const int tile_q : {256, 192, 128, 64})
    for (std::size_t i = 0; i < some; ++i)
      // 80 keys leave room for 3 stages.
      for (const int stages : full ? std::vector<int>{2, 3, 4, 6} : std::vector<int>{2, tiles_kv[i] == 80 ? 3 : 4}) {
        if (tile_q > 64 && tile_q - 64 >= settings.seq_q) continue;  // a warpgroup without queries
        TypedConfig config;
        config.variant = Variant::wgmma;
        config.tile_q = tile_q;
        config.tile_kv = tiles_kv[i];
        config.stages = stages;
        space.push_back(fitted(config, settings, device));
        if (tile_q > 64 && (full || i == 0)) {
          space.push_back(space.back());
          space.back().ping_pong = true;
        }
      }
}

}  // namespace

TypedConfig default_config(Variant variant, const Settings& settings, const DeviceInfo& device) {
  switch (variant) {
    case Variant::simt: return default_simt(settings, device);
    case Variant::wgmma: return default_wgmma(settings, device);
    case Variant::mma: return default_mma(settings, device);
    case Variant::split: return default_split(settings, device);
  }
  return {};
}

TypedConfig default_config(const Settings& settings, const DeviceInfo& device) {
  if (is_decoding(settings))
    if (const TypedConfig config = default_decoding(settings, device); why_invalid(config, settings, device).empty())
      return config;
  for (const Variant variant : {Variant::wgmma, Variant::mma}) {
    // Emulated only where a configuration names it.
    if (variant == Variant::wgmma && device.kind == DeviceInfo::Kind::host) continue;
    if (const TypedConfig config = default_config(variant, settings, device); why_invalid(config, settings, device).empty())
      return config;
  }
  return default_simt(settings, device);
}

Config complete_config(const Config& partial, const Settings& settings, const DeviceInfo& device) {
  const TypedConfig usual = partial.fields.contains("variant")
                                ? default_config(parse_variant(partial.fields), settings, device)
                                : default_config(settings, device);
  const Variant variant = usual.variant;
  TypedConfig typed = TypedConfig::parse(with_values(usual.to_config(), partial));
  // The default uses the shared memory that its own tiles leave; other tiles leave a different amount.
  if (variant == Variant::wgmma) {
    const auto is_free = [&](const char* field) { return !partial.fields.contains(field); };
    const auto fits = [&] { return typed.smem_bytes(settings) <= device.smem_bytes_per_block; };
    const bool refit = is_free("q_stages") && is_free("o_slabs");
    if (refit) typed = fitted(typed, settings, device);
    while (is_free("stages") && typed.stages > 1 && !fits()) {
      --typed.stages;
      if (refit) typed = fitted(typed, settings, device);
    }
  }
  Config config = typed.to_config();
  require_usable(config, why_invalid(typed, settings, device));
  return config;
}

std::vector<Config> search_space(const Settings& settings, const DeviceInfo& device, Effort effort) {
  const bool full = effort == Effort::full;
  std::vector<TypedConfig> candidates{default_config(settings, device)};
  const Variant best = candidates.front().variant;
  if (best == Variant::wgmma) {
    add_wgmma(settings, device, full, candidates);
    const std::vector<MmaTiling> tilings = mma_tilings(settings, device);
    for (std::size_t i = 0; i < std::min<std::size_t>(tilings.size(), full ? 8 : 3); ++i)
      candidates.push_back(mma_config(tilings[i], settings, device));
  }
  if (best == Variant::mma) add_mma(settings, device, full, candidates);
  if (best == Variant::split) candidates.push_back(default_mma(settings, device));
  if (best == Variant::split || settings.seq_q <= 64) add_split(settings, device, full, candidates);
  // Kernels without tensor cores are never competitive where there are some.
  if (best == Variant::simt)
    add_simt(settings, full, candidates);
  else
    candidates.push_back(default_simt(settings, device));
  std::vector<Config> space;
  for (const TypedConfig& candidate : candidates) {
    if (!why_invalid(candidate, settings, device).empty()) continue;
    if (Config config = candidate.to_config(); std::ranges::find(space, config) == space.end())
      space.push_back(std::move(config));
  }
  return space;
}

}  // namespace tunesmith::attention
