#pragma once
// Fields of configurations, and the cache hints of all kernels. Internal to templates/.

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tunesmith/description.h"
#include "tunesmith/device_info.h"
#include "tunesmith/error.h"
#include "tunesmith/problem.h"

namespace tunesmith {

/// Cache hints, the same as in device/types.cuh.
enum class LoadHint : std::uint8_t { plain, no_allocate, streaming, evict_first, evict_last };
enum class StoreHint : std::uint8_t { plain, streaming, evict_first };
template <>
inline constexpr std::array<std::string_view, 5> enum_names<LoadHint>{"plain", "no_allocate", "streaming", "evict_first",
                                                                      "evict_last"};
template <>
inline constexpr std::array<std::string_view, 3> enum_names<StoreHint>{"plain", "streaming", "evict_first"};

/// Returns whether the hint is an L2 eviction policy, which requires sm_80 or later.
constexpr bool is_eviction(LoadHint hint) noexcept { return hint >= LoadHint::evict_first; }
constexpr bool is_eviction(StoreHint hint) noexcept { return hint == StoreHint::evict_first; }

/// Returns the hint's name in generated sources: "tunesmith::LoadHint::evict_last".
std::string source_name(LoadHint hint);
std::string source_name(StoreHint hint);

/// Reads a configuration from its fields. Config is a struct with a member `variant` and a function describe(const Config&,
/// Description&) next to it. Throws Error(invalid_argument): "configuration: threads is 33; allowed: ...".
template <typename Config>
Config read_config(const Fields& fields) {
  Config config;
  const auto visit = [&](Description& d) { describe(config, d); };
  try {
    if (const Value* variant = fields.find("variant")) Description(visit).read_known({{"variant", *variant}});
    Description(visit).read("variant " + std::string(enum_name(config.variant)), fields);
    Description(visit).check(fields);
  } catch (const Error& error) {
    throw Error(error.code(), "configuration: ", error.what());
  }
  return config;
}

/// Returns whether a configuration names every field that all configurations of a variant have. Optional fields that have
/// their defaults are omitted.
template <typename Typed>
bool is_complete(const Config& config, decltype(Typed::variant) variant) {
  Typed plain;
  plain.variant = variant;
  return std::ranges::all_of(plain.to_config().fields,
                             [&](const auto& field) { return config.fields.contains(field.first); });
}

/// Returns a configuration with some of its values, or more fields, pinned.
Config with_values(Config config, const Config& pinned);
/// Throws Error(invalid_argument) with the configuration unless the reason why it cannot be used is empty.
void require_usable(const Config& config, const std::string& reason);
/// Returns "threads is 2048; the device allows 1024", or nothing.
std::string why_too_many(int threads, const DeviceInfo& device);

/// Returns the fields in canonical order, without options at their defaults.
template <typename Config>
Fields config_fields(const Config& config) {
  const Config defaults{};
  return Description([&](Description& d) { describe(config, d); }).normal_form(Description([&](Description& d) {
    describe(defaults, d);
  }));
}

/// Returns the descriptions of all fields of all variants.
template <typename Config>
std::vector<FieldInfo> config_infos() {
  const Config config{};
  return Description([&](Description& d) { describe(config, d); }).field_infos();
}

}  // namespace tunesmith
