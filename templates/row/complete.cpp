// Completes a configuration with some fields pinned by the user.

#include "templates/row/defaults/defaults.h"
#include "templates/row/defaults/geometry.h"
#include "templates/row/prefetch.h"
#include "tunesmith/error.h"

namespace tunesmith::row {
namespace {

Variant variant_of(const Value& named) {
  TypedConfig config;
  Description([&](Description& d) { describe(config, d); }).read_known({{"variant", named}});
  return config.variant;
}

/// Returns false for warps of a persistent grid without min_blocks, which is optional for other warps.
bool has_bound(const TypedConfig& config, const Config& partial, const Shape& shape) {
  return config.variant != Variant::warp || !config.bounds_registers(shape) || partial.fields.contains("min_blocks");
}

}  // namespace

Config complete_config(const Config& partial, const Shape& shape, const DeviceInfo& device) {
  const Value* const named_variant = partial.fields.find("variant");
  // Recorded configurations are complete. The default, which takes longest, is not needed for them.
  if (named_variant != nullptr && is_complete<TypedConfig>(partial, variant_of(*named_variant)))
    if (const TypedConfig given = TypedConfig::parse(partial);
        given.to_config() == partial && has_bound(given, partial, shape) && why_invalid(given, shape, device).empty())
      return partial;
  const Value* const named_capacity = partial.fields.find("capacity");
  const bool has_capacity = named_capacity != nullptr && *named_capacity != Value(std::int64_t{0});
  TypedConfig typed = has_capacity ? capacity_config(shape, device) : default_config(shape, device);
  // If a variant is named, vector accesses are the default, as in a complete configuration.
  if (named_variant != nullptr)
    if (const Variant variant = variant_of(*named_variant);
        variant != typed.variant || (typed.access != Access::vectors && !partial.fields.contains("access")))
      typed = default_config(variant, shape, device);
  if (const Value* access = partial.fields.find("access")) {
    const bool staged = *access == Value(std::string(enum_name(Access::staged)));
    if (staged && typed.access != Access::staged) typed = staged_default(shape, device);
    if (!staged && typed.access == Access::staged) typed = default_config(Variant::warp, shape, device);
  }
  const Config config = with_values(typed.to_config(), partial);
  typed = TypedConfig::parse(config);  // rejects unknown fields and values
  if (typed.access == Access::staged && !partial.fields.contains("load")) typed.load = LoadHint::plain;
  // A pinned block size must not fail because of the register bound of another block size.
  if (!partial.fields.contains("min_blocks")) {
    bound_persistent_warps(typed, shape, device);
    if (typed.bounds_registers(shape)) lower_min_blocks(typed, shape, device);
  }
  // The distance depends on the bytes of a block.
  if (!has_capacity && !partial.fields.contains("prefetch_blocks"))
    typed.prefetch_blocks = default_prefetch(typed, shape, device);
  require_usable(config, why_invalid(typed, shape, device));
  return typed.to_config();
}

}  // namespace tunesmith::row
