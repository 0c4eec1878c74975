// The resources that a configuration of attention's backward pass takes: threads, shared memory, registers, workspace.

#include <algorithm>

#include "templates/attention_backward/search/config.h"

namespace tunesmith::attention_backward {
namespace {

/// As SimtBackwardTiles and MmaBackwardTiles lay it out; the generated source asserts the size.
std::int64_t simt_smem_bytes(std::int64_t kept, std::int64_t streamed, const attention::Settings& settings) {
  constexpr std::int64_t pad = 4;
  const std::int64_t d = settings.head_dim + pad, d_v = settings.head_dim_v + pad;
  return (kept * (d + d_v) + streamed * std::max(d, d_v) + kept * (streamed + pad) + 2 * std::max(kept, streamed)) * 4;
}
std::int64_t mma_smem_bytes(const MmaPass& pass, const attention::Settings& settings) {
  const std::int64_t row = (settings.head_dim + settings.head_dim_v) * 2;
  return pass.kept * row + pass.stages * pass.streamed * (row + 8);
}
/// As WgmmaBackwardTiles lays it out.
std::int64_t wgmma_smem_bytes(const TypedConfig& config, const Settings& problem) {
  const attention::Settings& settings = problem.forward;
  constexpr std::int64_t row = 128;
  const bool by_gradient = config.roles == Roles::gradients;
  const std::int64_t kept = config.kept(Pass::keys), weights = by_gradient ? config.tile_q / 16 * 128 * 16 : 0;
  const std::int64_t all_slabs = slabs(settings.head_dim) + slabs(settings.head_dim_v);
  const std::int64_t pieces = config.tile_q / 64 * slabs(settings.head_dim);
  const std::int64_t stages = by_gradient || config.separate_dq()              ? 0
                              : pieces < 2 && !config.separate_adders(problem) ? 1
                                                                               : 2;
  const std::int64_t sums = config.cluster > 0 ? 2 * config.tile_q * settings.head_dim * 4 : stages * 64 * 64 * 4;
  const std::int64_t factors = config.separate_dq() ? 0 : kept / 64 * config.tile_q * row;
  const std::int64_t kv_stages = config.persistent && all_slabs == 2 ? 2 : 1;
  const int barriers = config.cluster > 0 ? 15 : config.persistent ? 31 : 11;
  return all_slabs * row * (kv_stages * kept + config.stages * config.tile_q) + 2 * (factors + weights) + sums +
         config.stages * 2 * config.tile_q * 4 + 8 * (4 * config.stages + barriers);
}
/// As WgmmaQueriesTiles lays it out.
std::int64_t wgmma_queries_smem_bytes(const TypedConfig& config, const attention::Settings& settings) {
  constexpr std::int64_t row = 128;
  const std::int64_t qk_slabs = slabs(settings.head_dim), v_slabs = slabs(settings.head_dim_v);
  const std::int64_t k_stages = config.dq_stages, v_stages = config.dq_stages - 1;
  return row * (config.dq_tile_q * (qk_slabs + v_slabs) + config.dq_tile_kv * (k_stages * qk_slabs + v_stages * v_slabs)) +
         8 * (2 + 2 * k_stages + 2 * v_stages) + (settings.mask_mod.empty() ? 0 : 4 * k_stages);
}

}  // namespace

bool TypedConfig::separate_adders(const Settings& settings) const noexcept {
  return adders || (roles == Roles::keys && is_ordered(settings));
}

int TypedConfig::block_threads(Pass pass, const Settings& settings) const noexcept {
  switch (variant) {
    case Variant::simt: return threads;
    case Variant::mma: return mma(pass).warps * 32;
    case Variant::wgmma:
      if (pass == Pass::queries) return separate_dq() ? 128 * (dq_tile_q / 64 + 1) : 0;
      return separate_adders(settings) ? 512 : 384;
  }
  return 0;
}

int TypedConfig::kept(Pass pass) const noexcept {
  if (variant == Variant::mma) return mma(pass).kept;
  if (variant == Variant::wgmma && pass == Pass::keys) return roles == Roles::gradients ? 64 : 128;
  if (separate_dq()) return dq_tile_q;
  return pass == Pass::keys ? tile_kv : tile_q;
}

std::int64_t TypedConfig::smem_bytes(Pass pass, const Settings& settings) const noexcept {
  const attention::Settings& forward = settings.forward;
  if (variant == Variant::mma) return mma_smem_bytes(mma(pass), forward);
  if (variant == Variant::wgmma)
    return pass == Pass::keys ? wgmma_smem_bytes(*this, settings)
           : separate_dq()    ? wgmma_queries_smem_bytes(*this, forward)
                              : 0;
  return pass == Pass::keys ? simt_smem_bytes(tile_kv, tile_q, forward) : simt_smem_bytes(tile_q, tile_kv, forward);
}

int TypedConfig::registers_needed(Pass pass, const attention::Settings& settings) const noexcept {
  const std::int64_t d = settings.head_dim, d_v = settings.head_dim_v;
  if (variant == Variant::wgmma && pass == Pass::queries)  // of a consumer
    return separate_dq() ? static_cast<int>(24 + d / 2 + dq_tile_kv) : 0;
  if (variant == Variant::wgmma) {  // of a multiplier; with more than 208, ptxas serializes the products
    const std::int64_t gradients = roles == Roles::keys ? d + d_v : std::max(d, d_v);
    // Weights that wait next to the weights of the previous tile's dS.
    const int waiting = settings.softcap != 0 || !settings.score_mod.empty() || settings.dropout > 0 ? tile_q / 4 : 0;
    return static_cast<int>(24 + gradients / 2 + tile_q / 2 + tile_q / 4) + (settings.alibi ? 8 : 0) +
           (ahead && roles == Roles::keys ? 4 + waiting : 0);
  }
  std::int64_t registers = 40;  // besides the tiles
  if (variant == Variant::simt) {
    // Gradients, both products and operands.
    const std::int64_t down = threads / 16, rows = kept(pass) / down;
    const std::int64_t columns = (pass == Pass::keys ? tile_q : tile_kv) / 16;
    const auto gradient = [&](std::int64_t width) { return rows * ((width / 4 + 15) / 16) * 4; };
    registers += gradient(d) + (pass == Pass::keys ? gradient(d_v) : 0) + 2 * rows * columns + 4 * (rows + columns);
  } else {
    const MmaPass& config = mma(pass);
    const std::int64_t blocks = config.kept / (16 * (config.split ? config.warps / 2 : config.warps));
    const std::int64_t gradients = pass == Pass::queries ? d / 2 : config.split ? std::max(d, d_v) / 2 : (d + d_v) / 2;
    registers += blocks * (gradients + config.streamed);
  }
  return static_cast<int>(registers);
}

std::int64_t sums_columns(const TypedConfig& config, const Settings& settings) {
  const std::int64_t head_dim = settings.forward.head_dim;
  return config.separate_adders(settings) ? head_dim : slabs(head_dim) * 64;
}

std::int32_t heads_per_section(std::int64_t kv_tiles, const Settings& settings, const DeviceInfo& device, bool sums) {
  const attention::Settings& forward = settings.forward;
  const auto over = [](std::int64_t number, std::int64_t by) { return (number + by - 1) / by; };
  const std::int64_t row =
      (forward.head_dim + forward.head_dim_v) * size_of(forward.dtype) + (sums ? 4 * forward.head_dim : 0);
  const std::int64_t fitting = (std::int64_t{32} << 20) / std::max<std::int64_t>(row * forward.seq_q * forward.group(), 1);
  const std::int64_t least = over(std::int64_t{3} * device.sm_count, 2 * std::max<std::int64_t>(kv_tiles, 1));
  const std::int64_t all = std::max<std::int64_t>(forward.batch * forward.kv_heads, 1);
  const std::int64_t needed = over(all, std::max<std::int64_t>(fitting, 1)), most = all / std::max<std::int64_t>(least, 1);
  const std::int64_t sections = std::max<std::int64_t>(std::min(needed, most), 1);
  return static_cast<std::int32_t>(over(all, sections));
}

}  // namespace tunesmith::attention_backward
