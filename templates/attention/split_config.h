#pragma once
// Configurations of the kernel for few queries and many keys (attention_split.cuh). Internal to templates/.

#include "templates/attention/config.h"

namespace tunesmith::attention {

/// Of a block of the kernel that combines parts.
inline constexpr int split_combine_threads = 256;

/// Whether a problem has so few queries and so many keys that reading keys once is what takes time.
bool is_decoding(const Settings& settings) noexcept;

/// As SplitTiles lays it out; the generated source asserts the size.
std::int64_t split_smem_bytes(const TypedConfig& config, const Settings& settings) noexcept;
/// An estimate, as TypedConfig::registers_needed.
int split_registers_needed(const TypedConfig& config, const Settings& settings) noexcept;
std::string why_split_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device);
/// Parts that the keys are split into: the blocks of a cluster; or TypedConfig::splits, or as many as fill the device, then
/// never more than there are tiles of keys to see.
int split_count(const TypedConfig& config, const Settings& settings, const DeviceInfo& device);

TypedConfig default_split(const Settings& settings, const DeviceInfo& device);
void add_split(const Settings& settings, const DeviceInfo& device, bool full, std::vector<TypedConfig>& space);

}  // namespace tunesmith::attention
