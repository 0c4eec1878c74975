// How many blocks of a cluster share the query heads of a key head.

#include <algorithm>
#include <array>
#include <cmath>

#include "templates/attention_backward/search/candidates.h"

namespace tunesmith::attention_backward {
namespace {

/// Blocks of a cluster that share the query heads of a key head, the part of the device that such clusters fill, and a
/// block's time relative to a block without a cluster, for the same work.
struct SplitCost {
  int head_split;
  double filled, time;
};
/// Measured on an H100 (NOTES.md, "Blocks share the query heads of a key head"). Clusters of 4 and 8 leave multiprocessors
/// of some GPCs empty.
constexpr std::array<SplitCost, 4> split_costs{{{0, 1, 1}, {2, 1, 1.04}, {4, 0.91, 1.2}, {8, 0.85, 1.3}}};

}  // namespace

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

std::vector<TypedConfig> other_head_splits(const TypedConfig& config) {
  std::vector<TypedConfig> others(2, config);
  others[0].head_split = config.head_split == 0 ? 2 : 2 * config.head_split;
  others[1].head_split = config.head_split <= 2 ? 0 : config.head_split / 2;
  return others;
}

}  // namespace tunesmith::attention_backward
