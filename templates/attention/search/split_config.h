#pragma once
// Configurations of the split-KV kernel for few queries and many keys (split.cuh). Internal to templates/.

#include "templates/attention/search/config.h"

namespace tunesmith::attention {

/// Threads per block of the kernel that combines partials.
inline constexpr int split_combine_threads = 256;

/// Returns whether the time to read the keys once dominates, because queries are few and keys are many.
bool is_decoding(const Settings& settings) noexcept;

/// As SplitTiles lays it out; the generated source asserts the size.
std::int64_t split_smem_bytes(const TypedConfig& config, const Settings& settings) noexcept;
/// Estimates the registers per thread, see TypedConfig::registers_needed.
int split_registers_needed(const TypedConfig& config, const Settings& settings) noexcept;
std::string why_split_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device);
/// Returns the number of splits of the keys: the blocks of a cluster; or TypedConfig::splits or enough to fill the device,
/// at most the number of visible K/V tiles.
int split_count(const TypedConfig& config, const Settings& settings, const DeviceInfo& device);

TypedConfig default_split(const Settings& settings, const DeviceInfo& device);
/// Returns the one that decoding uses without tuning: in clusters, if heads share keys and single blocks would not fill the
/// device.
TypedConfig default_decoding(const Settings& settings, const DeviceInfo& device);
void add_split(const Settings& settings, const DeviceInfo& device, bool full, std::vector<TypedConfig>& space);

}  // namespace tunesmith::attention
