#pragma once
// A configuration of an attention kernel and the resources that it needs. Internal to templates/.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "templates/attention/settings.h"
#include "tunesmith/device_info.h"
#include "tunesmith/problem.h"

namespace tunesmith::attention {

enum class Variant : std::uint8_t {
  simt,   ///< without tensor cores: float32, and any architecture
  wgmma,  ///< warp-specialized, with warpgroup MMA and TMA (sm_90a)
  mma,    ///< warp-level MMA (sm_80 and later)
  split,  ///< split-KV for few queries, with warp-level MMA
};

/// A variant has only some of the fields; config.cpp describes them.
struct TypedConfig {
  Variant variant = Variant::simt;
  int threads = 256, warps = 4;
  int tile_q = 64, tile_kv = 64;
  int q_stages = 2, stages = 2, o_slabs = 1;
  bool ping_pong = false, q_in_registers = false;
  int blocks_per_sm = 1;
  int splits = 0, cluster = 1;

  /// Throws Error(invalid_argument) naming the field, its value and what is allowed.
  static TypedConfig parse(const Config& config);
  Config to_config() const;

  bool operator==(const TypedConfig&) const = default;
  /// Threads of a block.
  int block_threads() const noexcept;
  /// Dynamic shared memory of a block.
  std::int64_t smem_bytes(const Settings& settings) const noexcept;
  /// Estimates the registers that a thread needs.
  int registers_needed(const Settings& settings) const noexcept;
};

/// Throws Error(invalid_argument) that lists the variants.
Variant parse_variant(const Fields& fields);
/// Describes every field of every variant.
std::vector<FieldInfo> config_field_infos();

/// Returns the number of slabs of 64 columns.
std::int64_t slabs(std::int64_t columns) noexcept;
/// Returns whether tensor cores sum the weights in wgmma; see WgmmaTiles.
bool sums_weights(const Settings& settings) noexcept;
/// Returns the registers of a thread if config.blocks_per_sm blocks share a multiprocessor.
int register_limit(const TypedConfig& config, const DeviceInfo& device) noexcept;

/// Returns why a kernel on tensor cores cannot take these 8-bit keys and values; empty: it can, or they are not 8-bit.
std::string why_bytes_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device);
/// Returns the registers of a thread that converts 8-bit keys and values.
std::int64_t conversion_registers(const Settings& settings) noexcept;
/// Returns the bytes of a K/V tile in kernels on tensor cores, with the scales of its rows.
std::int64_t tile_bytes(const TypedConfig& config, const Settings& settings) noexcept;
/// Returns why a well-formed configuration cannot run this problem on this device; empty: it can.
std::string why_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device);

/// Returns the configuration used without tuning.
TypedConfig default_config(const Settings& settings, const DeviceInfo& device);
/// Returns the best guess of one variant; well-formed, but not necessarily valid.
TypedConfig default_config(Variant variant, const Settings& settings, const DeviceInfo& device);
/// See ParsedProblem.
Config complete_config(const Config& partial, const Settings& settings, const DeviceInfo& device);
std::vector<Config> search_space(const Settings& settings, const DeviceInfo& device, Effort effort);

}  // namespace tunesmith::attention

template <>
inline constexpr std::array<std::string_view, 4> tunesmith::enum_names<tunesmith::attention::Variant>{"simt", "wgmma", "mma",
                                                                                                      "split"};
