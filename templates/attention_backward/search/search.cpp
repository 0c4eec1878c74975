// The search space of configurations of attention's backward pass.

#include <algorithm>

#include "templates/attention_backward/search/candidates.h"

namespace tunesmith::attention_backward {

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
  // simt is never competitive where there are tensor cores, mma seldom where wgmma runs.
  const bool hopper = candidates.front().variant == Variant::wgmma;
  if (hopper)
    for (const TypedConfig& other : other_head_splits(candidates.front())) candidates.push_back(other);
  if (hopper && effort == Effort::quick) {
    add(wgmma_candidates(settings, device));
    candidates.push_back(default_config(Variant::mma, settings, device));
  } else if (candidates.front().variant != Variant::simt) {
    if (hopper) add(wgmma_candidates(settings, device));
    add(mma_candidates(settings));
    candidates.push_back(default_config(Variant::simt, settings, device));
  } else {
    add(simt_candidates());
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
