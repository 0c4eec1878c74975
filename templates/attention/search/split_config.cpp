#include "templates/attention/search/split_config.h"

#include <algorithm>

#include "templates/folded_grid.h"

namespace tunesmith::attention {
namespace {

/// Rows per key head: with more, reading keys is not the bottleneck, and other kernels are faster.
constexpr std::int64_t max_rows = 128;
/// Keys per split: with fewer, starting a block and combining its result cost more than they save.
constexpr std::int64_t min_keys = 128;
constexpr int max_splits = 1024;

std::int64_t rows_of(const Settings& settings) { return settings.group() * settings.seq_q; }

std::int64_t row_tiles(const TypedConfig& config, const Settings& settings) {
  return (rows_of(settings) + config.tile_q - 1) / config.tile_q;
}

/// Returns the largest number of visible K/V tiles of a Q tile in the longest sequence.
std::int64_t key_tiles(const TypedConfig& config, const Settings& settings) {
  const std::int64_t rows = rows_of(settings), offset = settings.offset(settings.seq_q, settings.seq_kv);
  std::int64_t most = 0;
  for (std::int64_t row = 0; row < rows; row += config.tile_q) {
    const std::int64_t first = row / settings.group(), last = (std::min(row + config.tile_q, rows) - 1) / settings.group();
    std::int64_t begin = 0, end = settings.seq_kv;
    if (settings.bounded_left()) begin = std::max<std::int64_t>(0, first + offset - settings.left());
    if (settings.bounded_right()) end = std::min(end, last + offset + settings.right() + 1);
    if (begin < end) most = std::max(most, (end + config.tile_kv - 1) / config.tile_kv - begin / config.tile_kv);
  }
  return most;
}

/// Returns the number of resident blocks per multiprocessor.
std::int64_t blocks_per_sm(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  constexpr std::int64_t reserved_smem = 1024;  // of each block
  const std::int64_t threads = config.block_threads();
  const std::int64_t by_smem = device.smem_bytes_per_sm / (config.smem_bytes(settings) + reserved_smem);
  const std::int64_t by_registers = device.registers_per_sm / (threads * config.registers_needed(settings));
  return std::max<std::int64_t>(1, std::min({by_smem, by_registers, device.max_threads_per_sm / threads}));
}

/// The share of resident block slots that have work, by the number of splits. Blocks run in waves, and the last wave is
/// rarely full.
class Filled {
 public:
  Filled(const TypedConfig& config, const Settings& settings, const DeviceInfo& device)
      : tiles_(std::max<std::int64_t>(row_tiles(config, settings) * settings.kv_heads * settings.batch, 1)),
        resident_(std::max(device.sm_count, 1) * blocks_per_sm(config, settings, device)) {}

  double operator()(std::int64_t splits) const {
    const std::int64_t blocks = tiles_ * splits, waves = (blocks + resident_ - 1) / resident_;
    return static_cast<double>(blocks) / static_cast<double>(waves * resident_);
  }

 private:
  std::int64_t tiles_, resident_;
};

/// Returns the smallest number of splits whose share is at least `near` times the best.
int fewest_splits(double near, const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  const std::int64_t most = std::clamp<std::int64_t>(key_tiles(config, settings) * config.tile_kv / min_keys, 1, max_splits);
  const Filled filled(config, settings, device);
  double best = 0;
  for (std::int64_t splits = 1; splits <= most; ++splits) best = std::max(best, filled(splits));
  std::int64_t splits = 1;
  while (splits < most && filled(splits) < near * best) ++splits;
  return static_cast<int>(splits);
}

/// Reduces stages, then warps, until shared memory suffices.
TypedConfig fitted_split(TypedConfig config, const Settings& settings, const DeviceInfo& device) {
  const auto too_large = [&] { return config.smem_bytes(settings) > device.smem_bytes_per_block; };
  while (config.stages > 2 && too_large()) --config.stages;
  while (config.warps > 1 && too_large()) config.warps /= 2;
  return config;
}

}  // namespace

bool is_decoding(const Settings& settings) noexcept {
  TypedConfig one;
  one.tile_q = 16;
  one.tile_kv = 16;
  return settings.seq_q <= 16 && rows_of(settings) <= 64 && key_tiles(one, settings) * one.tile_kv >= 512;
}

std::int64_t split_smem_bytes(const TypedConfig& config, const Settings& settings) noexcept {
  const std::int64_t stages = config.stages * tile_bytes(config, settings);
  const std::int64_t staged = config.tile_q * (settings.head_dim_v + 8) * 4;
  const std::int64_t q = config.tile_q * settings.head_dim * 2;
  std::int64_t ends = config.tile_q * 4;
  if (config.cluster > 1) {
    const std::int64_t share = (settings.head_dim_v / 4 + config.cluster - 1) / config.cluster;
    ends = 16 + config.cluster * config.tile_q * (16 + share * 16);
  }
  return config.warps * (std::max(stages, staged) + config.tile_q * 8) + q + ends;
}

int split_registers_needed(const TypedConfig& config, const Settings& settings) noexcept {
  const std::int64_t blocks = config.tile_q / 16, q = (settings.head_dim + 15) / 16 * 4, o = settings.head_dim_v / 2;
  const std::int64_t q_registers = blocks * (o + q) <= 160 ? q : 4;  // as SplitTiles decides
  return static_cast<int>(64 + blocks * (o + q_registers + config.tile_kv / 2) + conversion_registers(settings));
}

namespace {

std::string why_no_cluster(const TypedConfig& config, const DeviceInfo& device) {
  if (config.cluster == 1) return {};
  const std::string is = "cluster is " + std::to_string(config.cluster);
  if (device.arch.number() < 90) return is + ", which needs sm_90 or later; the device is " + tunesmith::name(device.arch);
  if (const int most = max_cluster_blocks(device); config.cluster > most)
    return is + "; the device's clusters have at most " + std::to_string(most) + " blocks";
  if (config.splits != 0)
    return is + ", which is also the number of parts; splits is " + std::to_string(config.splits) + " and must be 0";
  return {};
}

}  // namespace

namespace {

std::string why_not_in_steps(const TypedConfig& config, const Settings& settings) {
  const std::string is = "split_keys is " + std::to_string(settings.split_keys);
  if (config.cluster > 1 || config.splits > 0) return is + ", which decides the splits; cluster must be 1 and splits 0";
  if (settings.split_keys % config.tile_kv != 0)
    return is + ", which must be a multiple of tile_kv, " + std::to_string(config.tile_kv);
  return {};
}

}  // namespace

std::string why_split_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  if (device.arch.number() < 80) return "split needs sm_80 or later; the device is " + tunesmith::name(device.arch);
  if (settings.dtype == DType::f32) return "split multiplies f16 and bf16; dtype is f32";
  if (std::string reason = why_bytes_invalid(config, settings, device); !reason.empty()) return reason;
  if (settings.dropout > 0) return "split has no dropout";
  if (rows_of(settings) > max_rows)
    return "split takes up to " + std::to_string(max_rows) + " queries of the heads that share keys; there are " +
           std::to_string(rows_of(settings));
  if (std::string reason = why_no_cluster(config, device); !reason.empty()) return reason;
  if (settings.split_keys > 0)
    if (std::string reason = why_not_in_steps(config, settings); !reason.empty()) return reason;
  const double blocks = static_cast<double>(row_tiles(config, settings) * settings.kv_heads * settings.batch) *
                        split_count(config, settings, device);
  const double rows = static_cast<double>(rows_of(settings) * settings.kv_heads) * static_cast<double>(settings.batch);
  if (std::max(blocks, rows) >= 0x1p31) return "split counts blocks in 31 bits; there would be more";
  const int limit = std::min(255, device.registers_per_sm / config.block_threads() / 8 * 8);
  if (const int registers = config.registers_needed(settings); registers > limit)
    return "tiles of these sizes take " + std::to_string(registers) + " registers a thread; there are " +
           std::to_string(limit);
  return {};
}

int split_count(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  if (config.cluster > 1) return config.cluster;
  const std::int64_t tiles = std::max<std::int64_t>(key_tiles(config, settings), 1);
  if (const std::int64_t of_split = settings.split_keys / config.tile_kv; of_split > 0) {
    // The window of a shorter sequence may begin within a tile.
    const std::int64_t most = tiles + (settings.bounded_left() ? 1 : 0);
    return static_cast<int>((most + of_split - 1) / of_split);
  }
  if (config.splits > 0) return static_cast<int>(std::min<std::int64_t>(config.splits, tiles));
  return fewest_splits(0.9, config, settings, device);
}

TypedConfig default_split(const Settings& settings, const DeviceInfo& device) {
  TypedConfig config;
  config.variant = Variant::split;
  // Every additional Q tile reads the keys again.
  config.tile_q = static_cast<int>(std::clamp<std::int64_t>((rows_of(settings) + 15) / 16 * 16, 16, 64));
  config.tile_kv = 64;
  // Small tiles leave a warp more time for the next one; three stages of 8 KiB per warp keep device memory busy.
  constexpr std::int64_t stage_bytes = 8 << 10;
  const int least = settings.kv_dtype == DType::e4m3 ? 32 : 16;
  while (config.tile_kv > least &&
         config.tile_kv * (settings.head_dim + settings.head_dim_v) * size_of(settings.kv_dtype) > stage_bytes)
    config.tile_kv /= 2;
  config.stages = 3;
  config.warps = 4;
  while (config.registers_needed(settings) > 255 && (config.tile_kv > least || config.tile_q > 16)) {
    if (config.tile_kv > least)
      config.tile_kv /= 2;
    else
      config.tile_q -= 16;
  }
  return fitted_split(config, settings, device);
}

namespace {

/// Returns the configuration with cluster sizes within a tenth of the best share, the smallest first; only the smallest
/// unless `all`; none if single blocks reach that share. Clusters of more than 8 blocks may not all be resident; then half
/// of the parts in clusters of 8 may be faster.
std::vector<TypedConfig> in_clusters(TypedConfig config, bool all, const Settings& settings, const DeviceInfo& device) {
  constexpr int max_blocks = 16, portable_blocks = 8;
  std::vector<TypedConfig> found;
  config.splits = 0;
  const auto share = [&](const TypedConfig& one) { return Filled(one, settings, device)(one.cluster); };
  const double alone = share(config);
  double best = alone;
  for (config.cluster = 2; config.cluster <= max_blocks && why_no_cluster(config, device).empty(); config.cluster *= 2) {
    if (config.cluster * min_keys > key_tiles(config, settings) * config.tile_kv) break;
    best = std::max(best, share(config));
    found.push_back(config);
  }
  if (alone >= 0.9 * best) return {};
  const auto fills = [&](const TypedConfig& one) { return share(one) >= 0.9 * best; };
  const auto first = std::ranges::find_if(found, fills);
  if (!all && first != found.end()) found.erase(first + 1, found.end());
  std::erase_if(found, [&](const TypedConfig& one) {
    return !fills(one) && !(one.cluster == portable_blocks && share(one) >= 0.4 * best);
  });
  return found;
}

}  // namespace

TypedConfig default_decoding(const Settings& settings, const DeviceInfo& device) {
  const TypedConfig plain = default_split(settings, device);
  if (settings.split_keys > 0 || settings.group() == 1 || split_count(plain, settings, device) == 1) return plain;
  TypedConfig config = plain;
  // On an H200, 0.87 to 0.97 of the time of single blocks and a second kernel (NOTES.md, "Decoding in clusters").
  config.warps = 8;
  const std::vector<TypedConfig> clusters = in_clusters(config, false, settings, device);
  if (clusters.empty() || !why_invalid(clusters.front(), settings, device).empty()) return plain;
  // Few K/V heads leave most multiprocessors without a cluster; splits reach all of them where keys are many (NOTES.md,
  // "Pages and lengths in decoding").
  const double of_clusters = Filled(clusters.front(), settings, device)(clusters.front().cluster);
  const double of_splits = Filled(config, settings, device)(split_count(config, settings, device));
  return of_clusters < 0.4 * of_splits && why_invalid(config, settings, device).empty() ? config : clusters.front();
}

void add_split(const Settings& settings, const DeviceInfo& device, bool full, std::vector<TypedConfig>& space) {
  const TypedConfig plain = default_split(settings, device);
  const auto add = [&](int warps, int tile_kv, int stages, int splits) {
    TypedConfig config = plain;
    config.warps = warps;
    config.tile_kv = tile_kv;
    config.stages = stages;
    config.splits = splits;
    space.push_back(config);
  };
  const int tile = plain.tile_kv, automatic = split_count(plain, settings, device);
  const int twice = std::min<int>(2 * automatic, max_splits);
  space.push_back(plain);
  if (const int fullest = fewest_splits(0.995, plain, settings, device); fullest != automatic)
    add(plain.warps, tile, plain.stages, fullest);
  add(8, tile, 3, 0);
  add(4, tile, 4, 0);
  add(4, 2 * tile, 3, 0);
  add(4, 2 * tile, 2, 0);
  add(8, 2 * tile, 2, 0);
  add(plain.warps, tile, plain.stages, twice);
  if (automatic > 1) add(plain.warps, tile, plain.stages, (automatic + 1) / 2);
  add(2, 2 * tile, 4, 0);
  add(8, tile, 2, 0);
  for (const int warps : {plain.warps, 8}) {
    TypedConfig config = plain;
    config.warps = warps;
    std::ranges::copy(in_clusters(config, full, settings, device), std::back_inserter(space));
  }
  // Where single blocks fill the device several times over, pairs with half of the keys each end closer together.
  if (automatic == 1) {
    add(plain.warps, tile, 2, 0);
    space.back().cluster = 2;
  }
  if (!full) return;
  for (const int tile_q : {16, 32, 48, 64})
    for (const int warps : {4, 8, 2, 1, 16})
      for (const int tile_kv : {16, 32, 64, 128})
        for (const int stages : {3, 2, 4, 6, 1})
          for (const int splits : {0, twice, 1}) {
            if (tile_q - 16 >= rows_of(settings) && tile_q > 16) continue;  // the last rows idle
            TypedConfig config = plain;
            config.tile_q = tile_q;
            config.warps = warps;
            config.tile_kv = tile_kv;
            config.stages = stages;
            config.splits = splits;
            space.push_back(config);
            if (splits == 0) std::ranges::copy(in_clusters(config, true, settings, device), std::back_inserter(space));
          }
}

}  // namespace tunesmith::attention
