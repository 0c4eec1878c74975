// Completes a configuration with some fields pinned by the user.

#include "templates/attention_backward/search/candidates.h"
#include "templates/config_values.h"
#include "tunesmith/error.h"

namespace tunesmith::attention_backward {

Config complete_config(const Config& partial, const Settings& settings, const DeviceInfo& device) {
  TypedConfig start = default_config(settings, device);
  if (const Value* const variant = partial.fields.find("variant")) {
    Config only;
    only.fields.set("variant", *variant);
    for (const Variant known : {Variant::simt, Variant::mma, Variant::wgmma})
      if (*variant == Value(std::string(enum_name(known)))) start = default_config(known, settings, device);
  }
  // Good tiles of one kernel say little about good tiles of two.
  if (const Value* const kernels = partial.fields.find("kernels"); kernels != nullptr && start.variant == Variant::wgmma)
    for (const TypedConfig& known : wgmma_candidates(settings, device))
      if (*kernels == Value(std::int64_t{known.kernels}) && start.kernels != known.kernels &&
          why_invalid(known, settings, device).empty())
        start = known;
  const bool complete = is_complete<TypedConfig>(partial, start.variant);
  TypedConfig typed = TypedConfig::parse(complete ? partial : with_values(start.to_config(), partial));
  // Drop the default's persistent blocks, fourth warpgroup and head split if they do not fit the pinned fields.
  if (!partial.fields.contains("persistent") && !why_invalid(typed, settings, device).empty()) typed.persistent = false;
  if (!partial.fields.contains("adders") && !why_invalid(typed, settings, device).empty()) typed.adders = false;
  if (!partial.fields.contains("head_split") && !why_invalid(typed, settings, device).empty()) typed.head_split = 0;
  Config config = typed.to_config();
  require_usable(config, why_invalid(typed, settings, device));
  return config;
}

}  // namespace tunesmith::attention_backward
