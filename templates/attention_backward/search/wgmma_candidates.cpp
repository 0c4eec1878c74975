// Configurations of wgmma: where each kind of kernel is faster, measured on an H200 at head_dim 64 and 128, and the
// resulting order.

#include <algorithm>

#include "templates/attention_backward/search/candidates.h"

namespace tunesmith::attention_backward {
namespace {

constexpr std::int64_t few_keys = 1024;

bool is_narrow(const Settings& settings) { return widest_head(settings) <= 64; }

/// Returns whether a cluster of 2 blocks holds all keys of a key head, and one block does not.
bool fit_two_blocks(const attention::Settings& forward) { return forward.seq_kv > 128 && forward.seq_kv <= 256; }

/// Returns the kernels above head_dim 128.
std::vector<TypedConfig> wide_configs() {
  TypedConfig config;
  config.variant = Variant::wgmma;
  config.roles = Roles::gradients;
  config.tile_q = 64;
  std::vector<TypedConfig> configs;
  for (const int stages : {2, 3}) {
    config.stages = stages;
    configs.push_back(config);
  }
  return configs;
}

/// Returns configurations with the smallest cluster that holds all keys of a K/V head.
std::vector<TypedConfig> cluster_configs(const Settings& settings) {
  const bool narrow = is_narrow(settings);
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

/// Measured at head_dim 64 without mask_mod: clusters of 2 are faster by a fifth, under a causal mask by a tenth. Clusters
/// of 4 are at best as fast as sums in the workspace, clusters of 8 never.
bool clusters_are_faster(const Settings& settings) {
  return fit_two_blocks(settings.forward) && is_narrow(settings) && settings.forward.mask_mod.empty();
}

/// Returns the kernel with a fourth warpgroup, which adds up dq. It leaves no registers for `ahead`.
TypedConfig adder_config(const Settings& settings) {
  const bool narrow = is_narrow(settings);
  TypedConfig config;
  config.variant = Variant::wgmma;
  config.tile_q = narrow ? 128 : 64;
  config.stages = !narrow && settings.deterministic ? 3 : 2;
  config.ahead = false;
  config.adders = !settings.deterministic;
  return config;
}

/// A fourth warpgroup is faster nearly everywhere, above all for few tiles and with a mask_mod, but not at head_dim 64 with
/// a soft cap or under a causal mask alone.
bool adders_are_faster(const Settings& settings) {
  const attention::Settings& forward = settings.forward;
  const bool long_causal = forward.bounded_right() && forward.seq_kv > few_keys;
  const bool masked = !forward.mask_mod.empty();
  return settings.deterministic || !is_narrow(settings) || (forward.softcap == 0 && (masked || !long_causal));
}

TypedConfig persistent_config(const Settings& settings) {
  TypedConfig config = adder_config(settings);
  config.persistent = true;
  return config;
}

/// Measured without options, for two K/V tiles on each multiprocessor or more: at head_dim 64 persistent blocks are 1.02 to
/// 1.19 times as fast up to `max_keys`, and 1.01 beyond if deterministic and causal; 1.11 with a document mask of 1024
/// positions, which leaves few tiles. At head_dim 96 and 128 they are slower.
bool persistent_blocks_are_faster(const Settings& settings, const DeviceInfo& device) {
  const attention::Settings& forward = settings.forward;
  const std::int64_t many_blocks = std::int64_t{2} * device.sm_count;
  const std::int64_t kept = adder_config(settings).kept(Pass::keys);
  const bool many = (forward.seq_kv + kept - 1) / kept * forward.kv_heads * forward.batch >= many_blocks;
  if (!is_narrow(settings) || !many || forward.group() > 1) return false;
  const bool causal = forward.bounded_right();
  const bool bf16 = forward.dtype == DType::bf16;  // f16 was not measured, and spills a little more
  const std::int64_t max_keys = !bf16 ? few_keys : causal ? 4096 : 2048;
  if (is_plain(forward)) return forward.seq_kv <= max_keys || (bf16 && causal && settings.deterministic);
  const bool masked_alone = !forward.mask_mod.empty() && keeps_scores(forward) && is_dense(forward);
  return bf16 && masked_alone && !settings.deterministic;
}

/// Returns whether persistent blocks may be faster where they are not the default.
bool may_be_persistent(const Settings& settings) {
  return has_plain_scores(settings.forward) && (is_narrow(settings) || settings.forward.seq_kv <= few_keys);
}

/// From 4096 keys on a third stage gains more than the fourth warpgroup at head_dim 96 and 128, 1.00 to 1.03; under a causal
/// mask it does from 8192 keys on, 1.00 to 1.04, and loses 1.02 at 4096.
bool third_stage_is_faster(const Settings& settings) {
  const attention::Settings& forward = settings.forward;
  return is_plain(forward) && forward.group() == 1 && !is_narrow(settings) && !settings.deterministic &&
         forward.seq_kv >= (forward.bounded_right() ? 8192 : 4096);
}

/// Returns the kernels with three warpgroups.
std::vector<TypedConfig> usual_configs(const Settings& settings) {
  const bool narrow = is_narrow(settings);
  TypedConfig config;
  config.variant = Variant::wgmma;
  std::vector<TypedConfig> configs;
  for (const int tile_q : {narrow ? 128 : 64, narrow ? 64 : 128})
    for (const int stages : {2, 3})
      for (const bool ahead : {!narrow, narrow}) {
        config.tile_q = tile_q;
        config.stages = stages;
        config.ahead = ahead;
        configs.push_back(config);
      }
  return configs;
}

/// Returns the kernels up to head_dim 128 that compute all gradients. The expected fastest comes first, then likely
/// alternatives.
std::vector<TypedConfig> one_kernel_configs(const Settings& settings, const DeviceInfo& device) {
  const bool clusters_first = clusters_are_faster(settings);
  const bool persistent_first = persistent_blocks_are_faster(settings, device);
  const bool adders_first = persistent_first || adders_are_faster(settings);
  const std::vector<TypedConfig> clusters = cluster_configs(settings), usual = usual_configs(settings);

  std::vector<TypedConfig> configs;
  if (clusters_first) configs = clusters;
  if (third_stage_is_faster(settings)) configs.push_back(with_third_stage(adder_config(settings)));
  if (persistent_first) configs.push_back(persistent_config(settings));
  if (adders_first) configs.push_back(adder_config(settings));
  configs.insert(configs.end(), usual.begin(), usual.end());
  if (!adders_first) configs.insert(configs.begin() + 1, adder_config(settings));
  if (!persistent_first && may_be_persistent(settings)) configs.insert(configs.begin() + 1, persistent_config(settings));
  if (!clusters_first) {
    const std::ptrdiff_t at = fit_two_blocks(settings.forward) ? 2 : std::ssize(configs);
    configs.insert(configs.begin() + at, clusters.begin(), clusters.end());
  }
  return configs;
}

}  // namespace

TypedConfig with_third_stage(TypedConfig config) {
  config.stages = 3;
  config.ahead = true;
  config.adders = false;
  return config;
}

std::vector<TypedConfig> wgmma_candidates(const Settings& settings, const DeviceInfo& device) {
  std::vector<TypedConfig> configs = widest_head(settings) > 128 ? wide_configs() : one_kernel_configs(settings, device);
  std::vector<TypedConfig> two = two_kernel_candidates(settings, device);
  const bool two_first = !two.empty() && !clusters_are_faster(settings) && two_kernels_are_faster(settings, device);
  if (two_first) {
    configs.insert(configs.begin(), two.front());
    two.erase(two.begin());
  }
  configs.insert(configs.end(), two.begin(), two.end());
  return configs;
}

}  // namespace tunesmith::attention_backward
