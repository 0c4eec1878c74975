#pragma once
// A configuration of an attention kernel as plain numbers, and what it costs. Internal to templates/.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "templates/attention/attention_problem.h"
#include "templates/config_values.h"
#include "tunesmith/device_info.h"
#include "tunesmith/problem.h"

namespace tunesmith::attention {

enum class Variant : std::uint8_t {
  simt,  ///< without tensor cores: float32, and any architecture
};

/// A variant has only the fields that fields_of() lists.
struct TypedConfig {
  Variant variant = Variant::simt;
  int threads = 256;
  int tile_q = 64;   ///< queries of a block
  int tile_kv = 64;  ///< keys of a tile

  /// Throws Error(invalid_argument) naming the field, its value and what is allowed.
  static TypedConfig parse(const Config& config);
  Config to_config() const;

  /// Dynamic shared memory of a block.
  std::int64_t smem_bytes(const Settings& settings) const noexcept;
  /// An estimate of the registers a thread needs.
  int registers_needed(const Settings& settings) const noexcept;
};

std::string_view name(Variant variant) noexcept;
/// Throws Error(invalid_argument) that lists what exists.
Variant parse_variant(const Fields& fields);
Words fields_of(Variant variant);
/// Every field of every variant, described.
std::vector<FieldInfo> config_field_infos();

/// Empty, or why a well-formed configuration cannot run this problem on this device.
std::string why_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device);

/// The configuration used without measuring.
TypedConfig default_config(const Settings& settings, const DeviceInfo& device);
/// The same variant's best guess; well-formed, but not necessarily valid.
TypedConfig default_config(Variant variant, const Settings& settings, const DeviceInfo& device);
/// What Op::complete_config and Op::search_space answer.
Config complete_config(const Config& partial, const Settings& settings, const DeviceInfo& device);
std::vector<Config> search_space(const Settings& settings, const DeviceInfo& device, Effort effort);

}  // namespace tunesmith::attention
