#pragma once
// A configuration of an attention kernel as plain numbers, and what it costs. Internal to templates/.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "templates/attention/settings.h"
#include "templates/config_values.h"
#include "tunesmith/device_info.h"
#include "tunesmith/problem.h"

namespace tunesmith::attention {

enum class Variant : std::uint8_t {
  simt,   ///< without tensor cores: float32, and any architecture
  wgmma,  ///< Hopper's tensor cores and copy engine (sm_90a)
  mma,    ///< tensor cores one warp at a time (sm_80 and later)
  split,  ///< the same for few queries: keys split over blocks and warps
};

/// A variant has only the fields that fields_of() lists.
struct TypedConfig {
  Variant variant = Variant::simt;
  int threads = 256;  ///< simt
  int warps = 4;      ///< mma, split
  int tile_q = 64;    ///< queries of a block; wgmma: 64 for each warpgroup that computes; mma: 16 or 32 for each warp;
                      ///< split: 16 to 64 rows, each a query of one of the heads that share keys
  int tile_kv = 64;   ///< keys of a tile
  int stages = 2;     ///< wgmma, mma, split: tiles of keys that are on their way or in use; split: of each warp
  int splits = 0;     ///< split: parts that a sequence's keys are split into; 0: as many as fill the device, or `cluster`
  int cluster = 1;    ///< split: blocks of a cluster, a part each, that combine them without a second kernel; 1: none
  int q_stages = 2;   ///< wgmma: tiles of queries likewise
  int turns = 0;      ///< wgmma: 1: warpgroups issue their products in turns
  int q_in_registers = 0;  ///< mma: 1: queries stay there; 0: they are fetched from shared memory for every tile of keys
  int o_slabs = 1;         ///< wgmma: 64 columns of the output that a warpgroup stages at a time
  std::string order = "fixed";  ///< wgmma: which tile of queries a block takes next: fixed, counter
  int blocks_per_sm = 1;        ///< mma: as many as a multiprocessor must have registers for
  int rescale = 8;              ///< wgmma, mma, split: growth of the largest score, as an exponent of 2, that is let pass

  /// Throws Error(invalid_argument) naming the field, its value and what is allowed.
  static TypedConfig parse(const Config& config);
  Config to_config() const;

  bool operator==(const TypedConfig&) const = default;
  /// Of a block.
  int block_threads() const noexcept;
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

/// Slabs of 64 columns that hold as many.
std::int64_t slabs(std::int64_t columns) noexcept;
/// Registers a thread has where as many blocks are to share a multiprocessor.
int register_limit(const TypedConfig& config, const DeviceInfo& device) noexcept;

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
