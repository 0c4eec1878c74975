#pragma once
// A configuration of attention's backward pass and the resources that it needs. Internal to templates/.

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "templates/attention_backward/settings.h"
#include "tunesmith/device_info.h"
#include "tunesmith/problem.h"

namespace tunesmith::attention_backward {

enum class Variant : std::uint8_t {
  simt,   ///< without tensor cores: float32, and any architecture
  mma,    ///< warp-level MMA (sm_80 and later)
  wgmma,  ///< warpgroup MMA and TMA (sm_90a)
};

/// The two kernels of simt, of mma and of wgmma with kernels=2. The only kernel of wgmma counts as `keys`.
enum class Pass : std::uint8_t {
  keys,     ///< keeps keys: dk and dv
  queries,  ///< keeps queries: dq
};

/// One kernel of mma; see MmaBackwardConfig.
struct MmaPass {
  int warps = 4, kept = 64, streamed = 32, stages = 2;
  bool split = false;
  bool operator==(const MmaPass&) const = default;
};

/// How the multiplying warpgroups of wgmma divide the work; see MultiplierRoles.
enum class Roles : std::uint8_t {
  keys,       ///< each has 64 of 128 keys
  gradients,  ///< one computes dv of 64 keys, the other one dk
};

/// A variant has only some of the fields; config.cpp describes them. Resources are computed in resources.cpp, and
/// validity.cpp says which configurations a device can run.
struct TypedConfig {
  Variant variant = Variant::simt;
  int threads = 256, tile_q = 32, tile_kv = 32;  ///< simt
  MmaPass keys, queries;                         ///< mma
  Roles roles = Roles::keys;                     ///< wgmma, which has tile_q too
  int stages = 2;
  bool ahead = true;
  int cluster = 0;
  bool adders = false;
  int head_split = 0;
  int kernels = 1;
  int dq_tile_q = 128, dq_tile_kv = 64, dq_stages = 2;
  bool persistent = false;

  /// Throws Error(invalid_argument) naming the field, its value and what is allowed.
  static TypedConfig parse(const Config& config);
  Config to_config() const;
  bool operator==(const TypedConfig&) const = default;

  const MmaPass& mma(Pass pass) const noexcept { return pass == Pass::keys ? keys : queries; }
  /// Threads of a block.
  int block_threads(Pass pass, const Settings& settings) const noexcept;
  /// Returns whether blocks add to sums of dq in the workspace, and then, whether they do so in a fixed order.
  bool has_sums() const noexcept { return variant == Variant::wgmma && cluster == 0 && kernels == 1; }
  /// Returns whether wgmma has a kernel of its own for dq.
  bool separate_dq() const noexcept { return variant == Variant::wgmma && kernels == 2; }
  bool is_ordered(const Settings& settings) const noexcept { return has_sums() && settings.deterministic; }
  /// Keys, or queries, of a block.
  int kept(Pass pass) const noexcept;
  /// Blocks of wgmma that have the same keys.
  int blocks_of_tile() const noexcept { return variant == Variant::wgmma ? std::max(head_split, 1) : 1; }
  /// Dynamic shared memory of a block.
  std::int64_t smem_bytes(Pass pass, const Settings& settings) const noexcept;
  /// Returns whether the sums of dq have counters, which order the additions or say which parts have been stored.
  bool has_counters(const Settings& settings) const noexcept { return is_ordered(settings) || separate_adders(settings); }
  /// Returns whether blocks of wgmma have a fourth warpgroup that loads tiles and adds to the sums of dq.
  bool separate_adders(const Settings& settings) const noexcept;
  /// Estimates the registers that a thread needs.
  int registers_needed(Pass pass, const attention::Settings& settings) const noexcept;
};

/// Describes every field of every variant.
std::vector<FieldInfo> config_field_infos();

/// Returns the number of slabs of 64 columns (128 bytes of f16 or bf16) in which wgmma's tiles hold `width` columns.
constexpr std::int64_t slabs(std::int64_t width) { return (width + 63) / 64; }
/// Returns the columns that the sums of dq have room for in the workspace of wgmma.
std::int64_t sums_columns(const TypedConfig& config, const Settings& settings);
/// Returns the key heads of a section (WgmmaKeys). Their queries, gradients of outputs and, with `sums`, sums of dq fit into
/// half of an L2 cache of 60 MB. A section has at least 1.5 times the blocks that run at the same time, `kv_tiles` for each
/// head. Under a causal mask the last blocks of a section are the shortest; in the last section they fill the gaps at the
/// end.
std::int32_t heads_per_section(std::int64_t kv_tiles, const Settings& settings, const DeviceInfo& device, bool sums = true);

/// Returns why a well-formed configuration cannot run this problem on this device; empty: it can.
std::string why_invalid(const TypedConfig& config, const Settings& settings, const DeviceInfo& device);

/// Returns the configuration used without tuning.
TypedConfig default_config(const Settings& settings, const DeviceInfo& device);
/// See ParsedProblem.
Config complete_config(const Config& partial, const Settings& settings, const DeviceInfo& device);
std::vector<Config> search_space(const Settings& settings, const DeviceInfo& device, Effort effort);

}  // namespace tunesmith::attention_backward

template <>
inline constexpr std::array<std::string_view, 2> tunesmith::enum_names<tunesmith::attention_backward::Roles>{"keys",
                                                                                                             "gradients"};
template <>
inline constexpr std::array<std::string_view, 3> tunesmith::enum_names<tunesmith::attention_backward::Variant>{"simt", "mma",
                                                                                                               "wgmma"};
