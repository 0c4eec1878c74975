// The configuration used without tuning: the first valid candidate of the best variant that the device has.

#include "templates/attention_backward/search/candidates.h"

namespace tunesmith::attention_backward {
namespace {

std::vector<TypedConfig> candidates_of(Variant variant, const Settings& settings, const DeviceInfo& device) {
  switch (variant) {
    case Variant::simt: return simt_candidates();
    case Variant::mma: return mma_candidates(settings);
    case Variant::wgmma: return wgmma_candidates(settings, device);
  }
  return {};
}

}  // namespace

TypedConfig default_config(Variant variant, const Settings& settings, const DeviceInfo& device) {
  std::vector<TypedConfig> configs = candidates_of(variant, settings, device);
  for (TypedConfig& config : configs)
    if (why_invalid(config, settings, device).empty()) {
      config.head_split = best_head_split(config, settings, device);
      return config;
    }
  return configs.front();
}

TypedConfig default_config(const Settings& settings, const DeviceInfo& device) {
  for (const Variant variant : {Variant::wgmma, Variant::mma}) {
    // Emulated only where a configuration names it.
    if (variant == Variant::wgmma && device.kind == DeviceInfo::Kind::host) continue;
    if (const TypedConfig config = default_config(variant, settings, device); why_invalid(config, settings, device).empty())
      return config;
  }
  return default_config(Variant::simt, settings, device);
}

}  // namespace tunesmith::attention_backward
