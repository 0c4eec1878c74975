// Configurations of wgmma with a kernel of its own for dq, and where they are faster.

#include <array>

#include "templates/attention_backward/search/candidates.h"

namespace tunesmith::attention_backward {

bool two_kernels_are_faster(const Settings& settings, const DeviceInfo& device) {
  const attention::Settings& forward = settings.forward;
  const bool wide = widest_head(settings) > 128;
  if (wide && (forward.dropout == 0 || settings.deterministic)) return true;  // else its numbers are computed twice, too
  if (forward.group() > 1) return false;
  const auto blocks = [&](std::int64_t positions) { return (positions + 127) / 128 * forward.heads * forward.batch; };
  const std::int64_t of_keys = blocks(forward.seq_kv), both = of_keys + blocks(forward.seq_q);
  const bool causal = forward.bounded_right() && forward.mask_mod.empty();
  return both <= device.sm_count || (causal && of_keys <= device.sm_count);
}

std::vector<TypedConfig> two_kernel_candidates(const Settings& settings, const DeviceInfo& device) {
  const attention::Settings& forward = settings.forward;
  const std::int64_t widest = widest_head(settings);
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

}  // namespace tunesmith::attention_backward
