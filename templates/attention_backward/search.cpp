// The search space of configurations of attention's backward pass, and the default without tuning.

#include <algorithm>
#include <array>
#include <cmath>

#include "templates/attention_backward/config.h"
#include "tunesmith/error.h"

namespace tunesmith::attention_backward {
namespace {

/// Returns simt tiles, the largest first.
std::vector<TypedConfig> simt_configs() {
  constexpr std::array<std::array<int, 3>, 9> tiles{{{64, 64, 256},
                                                     {32, 64, 256},
                                                     {64, 32, 256},
                                                     {32, 32, 256},
                                                     {32, 32, 128},
                                                     {64, 64, 128},
                                                     {16, 32, 128},
                                                     {16, 16, 256},
                                                     {16, 16, 64}}};
  std::vector<TypedConfig> configs;
  for (const auto& [tile_q, tile_kv, threads] : tiles) {
    TypedConfig config;
    config.tile_q = tile_q;
    config.tile_kv = tile_kv;
    config.threads = threads;
    configs.push_back(config);
  }
  return configs;
}

/// Returns kernels for dk and dv, the best guess first.
std::vector<MmaPass> key_passes(std::int64_t widest) {
  if (widest <= 64)
    return {
        {4, 128, 32, 2, false}, {4, 64, 64, 2, false}, {8, 128, 64, 2, false}, {4, 64, 32, 2, false}, {4, 64, 64, 1, false}};
  if (widest <= 128)
    return {{4, 64, 32, 2, false}, {8, 128, 32, 2, false}, {4, 64, 32, 1, false},
            {8, 64, 64, 2, true},  {4, 64, 16, 2, false},  {8, 64, 32, 1, true}};
  return {{8, 64, 32, 2, true}, {8, 64, 32, 1, true}, {8, 64, 16, 1, true},
          {4, 32, 32, 2, true}, {4, 32, 32, 1, true}, {4, 32, 16, 1, true}};
}

/// Returns kernels for dq, the best guess first.
std::vector<MmaPass> query_passes(std::int64_t widest) {
  if (widest <= 64)
    return {
        {4, 128, 32, 2, false}, {4, 64, 64, 2, false}, {8, 128, 64, 2, false}, {4, 64, 32, 2, false}, {4, 64, 64, 1, false}};
  if (widest <= 128)
    return {{4, 64, 64, 2, false},  {8, 128, 64, 2, false}, {4, 64, 32, 2, false},
            {8, 128, 32, 2, false}, {4, 64, 64, 1, false},  {4, 64, 32, 1, false}};
  return {{4, 64, 32, 2, false}, {4, 64, 32, 1, false}, {8, 128, 16, 1, false},
          {2, 32, 32, 2, false}, {2, 32, 32, 1, false}, {2, 32, 16, 1, false}};
}

TypedConfig mma_config(const MmaPass& keys, const MmaPass& queries) {
  TypedConfig config;
  config.variant = Variant::mma;
  config.keys = keys;
  config.queries = queries;
  return config;
}

/// Returns all combinations of both kernels; those of the best ones come first.
std::vector<TypedConfig> mma_configs(const Settings& settings) {
  const std::int64_t widest = std::max(settings.forward.head_dim, settings.forward.head_dim_v);
  const std::vector<MmaPass> keys = key_passes(widest), queries = query_passes(widest);
  std::vector<TypedConfig> configs;
  for (std::size_t sum = 0; sum + 1 < keys.size() + queries.size(); ++sum)
    for (std::size_t i = 0; i <= sum; ++i)
      if (i < keys.size() && sum - i < queries.size()) configs.push_back(mma_config(keys[i], queries[sum - i]));
  return configs;
}

/// Returns the kernels with wgmma in which the smallest cluster that can hold all keys of a key head does.
std::vector<TypedConfig> cluster_configs(const Settings& settings) {
  const bool narrow = std::max(settings.forward.head_dim, settings.forward.head_dim_v) <= 64;
  TypedConfig config;
  config.variant = Variant::wgmma;
  config.cluster = 2;
  while (config.cluster < 8 && config.cluster * config.kept(Pass::keys) < settings.forward.seq_kv) config.cluster *= 2;
  std::vector<TypedConfig> configs;
  for (const int tile_q : {narrow ? 128 : 64, 64})
    for (const bool ahead : {!narrow, narrow}) {
      config.tile_q = tile_q;
      config.ahead = ahead;
      if (std::ranges::find(configs, config) == configs.end()) configs.push_back(config);
    }
  return configs;
}

/// Returns whether wgmma is faster with a kernel of its own for dq: measured on an H100 (bench/LOG.md). Above head_dim 128
/// the additions to dq cost more than computing S and dP twice. Otherwise it is for few blocks: the blocks of both kernels
/// run next to each other, under a causal mask while the longest ones of the first kernel do.
bool two_kernels_are_faster(const Settings& settings, const DeviceInfo& device) {
  const attention::Settings& forward = settings.forward;
  const bool wide = std::max(forward.head_dim, forward.head_dim_v) > 128;
  if (wide && (forward.dropout == 0 || settings.deterministic)) return true;  // else its numbers are computed twice, too
  if (forward.group() > 1) return false;
  const auto blocks = [&](std::int64_t positions) { return (positions + 127) / 128 * forward.heads * forward.batch; };
  const std::int64_t of_keys = blocks(forward.seq_kv), both = of_keys + blocks(forward.seq_q);
  const bool causal = forward.bounded_right() && forward.mask_mod.empty();
  return both <= device.sm_count || (causal && of_keys <= device.sm_count);
}

/// Returns whether no option changes scores or drops weights.
bool keeps_scores(const attention::Settings& forward) {
  return forward.softcap == 0 && forward.score_mod.empty() && forward.dropout == 0;
}

/// Returns whether no mask_mod hides scores, either.
bool has_plain_scores(const attention::Settings& forward) { return keeps_scores(forward) && forward.mask_mod.empty(); }

/// Returns whether there are no ALiBi slopes, packed sequences and left ends of windows.
bool is_dense(const attention::Settings& forward) { return !forward.alibi && !forward.varlen && !forward.bounded_left(); }

bool is_plain(const attention::Settings& forward) { return has_plain_scores(forward) && is_dense(forward); }

/// Returns the kernels with wgmma of which one computes dk and dv and the other one dq, the best guess first. Without
/// invalid ones.
std::vector<TypedConfig> two_kernel_configs(const Settings& settings, const DeviceInfo& device) {
  const attention::Settings& forward = settings.forward;
  const std::int64_t widest = std::max(forward.head_dim, forward.head_dim_v);
  TypedConfig config;
  config.variant = Variant::wgmma;
  config.kernels = 2;
  config.roles = widest > 128 ? Roles::gradients : Roles::keys;
  // Options that change or hide scores need registers next to tiles of 128.
  config.tile_q = config.dq_tile_kv = widest <= 64 && has_plain_scores(forward) ? 128 : 64;
  // Blocks of 128 queries, unless these are long and clearly fewer than run at the same time, or of different lengths.
  const std::int64_t many = std::int64_t{128} * device.sm_count * (forward.bounded_right() ? 4 : 3) / 4;
  config.dq_tile_q = widest > 128 && settings.rows() < many ? 64 : 128;
  std::vector<TypedConfig> configs;
  for (const bool ahead : {true, false}) {
    if (!ahead && config.roles == Roles::gradients) continue;
    config.ahead = ahead;
    for (const int stages : config.roles == Roles::gradients ? std::array{3, 2} : std::array{2, 3}) {
      config.stages = stages;
      for (const int dq_stages : config.dq_tile_q == 64 ? std::array{2, 3} : std::array{3, 2}) {
        config.dq_stages = dq_stages;
        if (why_invalid(config, settings, device).empty()) configs.push_back(config);
      }
    }
  }
  return configs;
}

/// Returns the kernels with wgmma, the best guess first: measured on an H200 at head_dim 64 and 128.
std::vector<TypedConfig> wgmma_configs(const Settings& settings, const DeviceInfo& device) {
  const std::int64_t widest = std::max(settings.forward.head_dim, settings.forward.head_dim_v);
  const bool narrow = widest <= 64;
  std::vector<TypedConfig> configs;
  std::vector<TypedConfig> two = two_kernel_configs(settings, device);
  const std::int64_t seq_kv = settings.forward.seq_kv;
  const bool pairs = seq_kv > 128 && seq_kv <= 256;
  const bool clusters_first = pairs && narrow && settings.forward.mask_mod.empty();
  const bool two_first = !clusters_first && !two.empty() && two_kernels_are_faster(settings, device);
  // Ends the list: with the best two kernels before those of one, if they are faster, and the others after them.
  const auto with_two = [&] {
    if (two_first) {
      configs.insert(configs.begin(), two.front());
      two.erase(two.begin());
    }
    configs.insert(configs.end(), two.begin(), two.end());
    return configs;
  };
  if (widest > 128) {
    for (const int stages : {2, 3}) {
      TypedConfig config;
      config.variant = Variant::wgmma;
      config.roles = Roles::gradients;
      config.tile_q = 64;
      config.stages = stages;
      configs.push_back(config);
    }
    return with_two();
  }
  // Measured at head_dim 64 without mask_mod: clusters of 2 are faster by a fifth, under a causal mask by a tenth. Those of
  // 4 are as fast as sums in the workspace at best, those of 8 never.
  const std::vector<TypedConfig> clusters = cluster_configs(settings);
  if (clusters_first) configs = clusters;
  // A fourth warpgroup leaves no registers for `ahead`. It is faster nearly everywhere, above all for few tiles and with a
  // mask_mod, but not at head_dim 64 with a soft cap or under a causal mask alone.
  TypedConfig helped;
  helped.variant = Variant::wgmma;
  helped.tile_q = narrow ? 128 : 64;
  helped.stages = !narrow && settings.deterministic ? 3 : 2;
  helped.ahead = false;
  helped.adders = !settings.deterministic;
  constexpr std::int64_t few_keys = 1024;
  const attention::Settings& forward = settings.forward;
  const bool long_causal = forward.bounded_right() && forward.seq_kv > few_keys;
  const bool masked = !forward.mask_mod.empty();
  // Measured without options, for two K/V tiles on each multiprocessor or more: at head_dim 64 persistent blocks are 1.02 to
  // 1.19 times as fast up to `most_keys`, and 1.01 beyond if deterministic and causal; 1.11 with a document mask of 1024
  // positions, which leaves few tiles. At head_dim 96 and 128 they are slower.
  const bool unmodified = has_plain_scores(forward), plain = is_plain(forward) && forward.group() == 1;
  const bool causal = forward.bounded_right();
  TypedConfig persistent = helped;
  persistent.persistent = true;
  const std::int64_t many_blocks = std::int64_t{2} * device.sm_count;
  const std::int64_t kept = helped.kept(Pass::keys);
  const bool many = (forward.seq_kv + kept - 1) / kept * forward.kv_heads * forward.batch >= many_blocks;
  const bool bf16 = forward.dtype == DType::bf16;  // f16 was not measured, and spills a little more
  const std::int64_t most_keys = !bf16 ? few_keys : causal ? 4096 : 2048;
  const bool masked_alone =
      masked && keeps_scores(forward) && is_dense(forward) && forward.group() == 1 && !settings.deterministic;
  const bool stays =
      narrow && many &&
      ((plain && (forward.seq_kv <= most_keys || (bf16 && causal && settings.deterministic))) || (bf16 && masked_alone));
  // From 4096 keys on a third stage gains more than the fourth warpgroup at head_dim 96, 1.02 to 1.04 under a causal mask,
  // and at head_dim 128 without one.
  if (plain && !narrow && !settings.deterministic && forward.seq_kv >= 4096 && (widest <= 96 || !causal)) {
    TypedConfig staged = helped;
    staged.stages = 3;
    staged.ahead = true;
    staged.adders = false;
    configs.push_back(staged);
  }
  const bool helps = stays || settings.deterministic || !narrow || (forward.softcap == 0 && (masked || !long_causal));
  if (stays) configs.push_back(persistent);
  if (helps) configs.push_back(helped);
  for (const int tile_q : {narrow ? 128 : 64, narrow ? 64 : 128})
    for (const int stages : {2, 3})
      for (const bool ahead : {!narrow, narrow}) {
        TypedConfig config;
        config.variant = Variant::wgmma;
        config.tile_q = tile_q;
        config.stages = stages;
        config.ahead = ahead;
        configs.push_back(config);
      }
  if (!helps) configs.insert(configs.begin() + 1, helped);
  if (!helps && !forward.score_mod.empty()) {
    // Tiles of 128 queries spill where the function needs registers: 0.87 of their time for a soft cap, 1.07 for a bias.
    TypedConfig narrower;
    narrower.variant = Variant::wgmma;
    narrower.tile_q = 64;
    narrower.stages = 2;
    narrower.ahead = true;
    configs.insert(configs.begin(), narrower);
  }
  if (!stays && unmodified && (narrow || forward.seq_kv <= few_keys)) configs.insert(configs.begin() + 1, persistent);
  if (!clusters_first) configs.insert(configs.begin() + (pairs ? 2 : std::ssize(configs)), clusters.begin(), clusters.end());
  return with_two();
}

/// Blocks of a cluster that share the query heads of a key head, how much of the device such clusters fill, and the time
/// that a block takes over that of one without a cluster, for the same work.
struct SplitCost {
  int head_split;
  double filled, time;
};
/// Measured on an H100 (bench/LOG.md). Clusters of 4 and 8 leave multiprocessors of some GPCs empty.
constexpr std::array<SplitCost, 4> split_costs{{{0, 1, 1}, {2, 1, 1.04}, {4, 0.91, 1.2}, {8, 0.85, 1.3}}};

/// Returns the head split of a valid configuration with the shortest estimated time. Under a causal mask the longest block
/// has twice the work of the mean, and blocks begin in the order of their lengths; otherwise all take as long.
int best_head_split(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  const attention::Settings& forward = settings.forward;
  if (config.variant != Variant::wgmma || forward.group() == 1) return 0;
  const std::int64_t kept = config.kept(Pass::keys), group = forward.group();
  const std::int64_t unsplit = (forward.seq_kv + kept - 1) / kept * forward.kv_heads * forward.batch;
  TypedConfig split = config;
  int best = 0;
  double least = 0;
  for (const SplitCost& cost : split_costs) {
    split.head_split = cost.head_split;
    if (!why_invalid(split, settings, device).empty()) continue;
    const int parts = split.blocks_of_tile();
    const double blocks = static_cast<double>(unsplit * parts), places = cost.filled * device.sm_count;
    const double waves = forward.bounded_right() ? std::max(2.3, blocks / places) : std::ceil(blocks / places);
    const std::int64_t heads = (group + parts - 1) / parts;  // of the block that has most
    const double time = waves * static_cast<double>(heads) * cost.time;
    if (least == 0 || time < least) least = time, best = cost.head_split;
  }
  return best;
}

std::vector<TypedConfig> configs_of(Variant variant, const Settings& settings, const DeviceInfo& device) {
  switch (variant) {
    case Variant::simt: return simt_configs();
    case Variant::mma: return mma_configs(settings);
    case Variant::wgmma: return wgmma_configs(settings, device);
  }
  return {};
}

/// Returns a configuration with half and with twice the head split.
std::vector<TypedConfig> other_head_splits(const TypedConfig& config) {
  std::vector<TypedConfig> others(2, config);
  others[0].head_split = config.head_split == 0 ? 2 : 2 * config.head_split;
  others[1].head_split = config.head_split <= 2 ? 0 : config.head_split / 2;
  return others;
}

/// Returns the configuration with a third stage instead of the fourth warpgroup if blocks share heads. Measured on an H200
/// under a causal mask at head_dim 128: 0.973 to 0.985 of the time with two blocks, 1.004 with four (bench/LOG.md).
TypedConfig without_adders(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  const attention::Settings& forward = settings.forward;
  if (config.head_split != 2 || !config.adders || config.tile_q != 64 || !is_plain(forward) || !forward.bounded_right())
    return config;
  TypedConfig staged = config;
  staged.stages = 3;
  staged.ahead = true;
  staged.adders = false;
  return why_invalid(staged, settings, device).empty() ? staged : config;
}

/// Returns the first valid configuration of a variant, or the first one.
TypedConfig default_config(Variant variant, const Settings& settings, const DeviceInfo& device) {
  std::vector<TypedConfig> configs = configs_of(variant, settings, device);
  for (TypedConfig& config : configs)
    if (why_invalid(config, settings, device).empty()) {
      config.head_split = best_head_split(config, settings, device);
      return without_adders(config, settings, device);
    }
  return configs.front();
}

}  // namespace

TypedConfig default_config(const Settings& settings, const DeviceInfo& device) {
  for (const Variant variant : {Variant::wgmma, Variant::mma}) {
    // Emulated only where a configuration names it.
    if (variant == Variant::wgmma && device.kind == DeviceInfo::Kind::host) continue;
    if (const TypedConfig config = default_config(variant, settings, device); why_invalid(config, settings, device).empty())
      return config;
  }
  return default_config(Variant::simt, settings, device);
}

Config complete_config(const Config& partial, const Settings& settings, const DeviceInfo& device) {
  TypedConfig start = default_config(settings, device);
  if (const Value* const variant = partial.fields.find("variant")) {
    Config only;
    only.fields.set("variant", *variant);
    for (const Variant known : {Variant::simt, Variant::mma, Variant::wgmma})
      if (*variant == Value(std::string(enum_name(known)))) start = default_config(known, settings, device);
  }
  // The tiles of one kernel say little about those of two.
  if (const Value* const kernels = partial.fields.find("kernels"); kernels != nullptr && start.variant == Variant::wgmma)
    for (const TypedConfig& known : wgmma_configs(settings, device))
      if (*kernels == Value(std::int64_t{known.kernels}) && start.kernels != known.kernels &&
          why_invalid(known, settings, device).empty())
        start = known;
  Config config = start.to_config();
  // A configuration's text omits optional fields that have their defaults.
  TypedConfig plain;
  plain.variant = start.variant;
  bool is_complete = true;
  for (const auto& [field, value] : plain.to_config().fields) is_complete = is_complete && partial.fields.contains(field);
  if (is_complete) config = {};
  for (const auto& [field, value] : partial.fields) config.fields.set(field, value);
  TypedConfig typed = TypedConfig::parse(config);
  // The default's persistent blocks, fourth warpgroup and head split are no reason to reject what they do not go with.
  if (!partial.fields.contains("persistent") && !why_invalid(typed, settings, device).empty()) typed.persistent = false;
  if (!partial.fields.contains("adders") && !why_invalid(typed, settings, device).empty()) typed.adders = false;
  if (!partial.fields.contains("head_split") && !why_invalid(typed, settings, device).empty()) typed.head_split = 0;
  if (const std::string reason = why_invalid(typed, settings, device); !reason.empty())
    throw Error(ErrorCode::invalid_argument, "config '", typed.to_config().text(), "' cannot be used: ", reason);
  return typed.to_config();
}

std::vector<Config> search_space(const Settings& settings, const DeviceInfo& device, Effort effort) {
  std::vector<TypedConfig> candidates{default_config(settings, device)};
  constexpr std::size_t quick = 9;  // of a variant
  const auto add = [&](std::vector<TypedConfig> configs) {
    std::size_t count = 0;
    for (TypedConfig& config : configs) {
      if (!why_invalid(config, settings, device).empty()) continue;
      config.head_split = best_head_split(config, settings, device);
      if (effort == Effort::full || ++count <= quick) candidates.push_back(config);
    }
  };
  // Kernels without tensor cores are never competitive where there are some, and those of mma seldom where wgmma runs.
  const bool hopper = candidates.front().variant == Variant::wgmma;
  if (hopper)
    for (const TypedConfig& other : other_head_splits(candidates.front())) candidates.push_back(other);
  if (hopper && effort == Effort::quick) {
    add(wgmma_configs(settings, device));
    candidates.push_back(default_config(Variant::mma, settings, device));
  } else if (candidates.front().variant != Variant::simt) {
    if (hopper) add(wgmma_configs(settings, device));
    add(mma_configs(settings));
    candidates.push_back(default_config(Variant::simt, settings, device));
  } else {
    add(simt_configs());
  }
  std::vector<Config> space;
  for (const TypedConfig& candidate : candidates) {
    if (!why_invalid(candidate, settings, device).empty()) continue;
    if (Config config = candidate.to_config(); std::ranges::find(space, config) == space.end())
      space.push_back(std::move(config));
  }
  return space;
}

}  // namespace tunesmith::attention_backward
