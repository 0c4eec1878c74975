// Fills the kernels' parameters and divides the workspace.

#include "templates/attention_backward/kernel_layout.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "templates/array_places.h"
#include "templates/attention/source/block_mask.h"
#include "templates/attention/source/kernel_source.h"
#include "templates/attention_backward/aux_gradient.h"

namespace tunesmith::attention_backward {
namespace {

/// Returns the counters of wgmma: one of the blocks that have begun, and one for each 16 queries and 64 columns of the sums
/// of dq.
std::int64_t counter_words(const TypedConfig& config, const Settings& settings, std::int64_t rows) {
  return config.has_counters(settings) ? 1 + rows / 16 * slabs(settings.forward.head_dim) : 0;
}
/// Returns the rows of statistics that a head has. wgmma loads statistics of full Q tiles; padded_start() in backward.cuh
/// says how packed sequences are padded.
std::int64_t statistics_rows(const TypedConfig& config, const Settings& settings) {
  const attention::Settings& forward = settings.forward;
  if (config.variant == Variant::wgmma && forward.varlen) return (forward.total_q / 128 + forward.batch) * 128;
  if (config.variant == Variant::wgmma) return tiles(forward.seq_q, 128) * 128;
  return forward.varlen ? forward.total_q : forward.seq_q;
}
std::int64_t all_statistics_rows(const TypedConfig& config, const Settings& settings) {
  const attention::Settings& forward = settings.forward;
  return statistics_rows(config, settings) * forward.heads * (forward.varlen ? 1 : forward.batch);
}

/// Returns the tiles of a head that have parts of dslopes: of queries, or of 64 keys.
std::int64_t slope_tiles(const TypedConfig& config, const Settings& settings) {
  const attention::Settings& forward = settings.forward;
  if (settings.rows() == 0) return 0;  // no kernel writes parts
  if (config.variant != Variant::wgmma) return tiles(forward.seq_q, config.kept(Pass::queries));
  return tiles(forward.seq_kv, config.kept(Pass::keys)) * (config.kept(Pass::keys) / 64);
}
/// Returns the parts of such a tile: of its block, or of its four warps.
std::int64_t parts_of_tile(const TypedConfig& config) { return config.variant == Variant::wgmma ? 4 : 1; }

}  // namespace

std::int64_t prepare_rows(const Settings& settings) {
  const attention::Settings& forward = settings.forward;
  const std::int64_t vector = std::min(forward.vector(Side::o), forward.vector(Side::o, settings.dout));
  const std::int64_t accesses = forward.head_dim_v / vector;
  const std::int64_t few_lanes = accesses >= 32 ? 32 : accesses > 8 ? 16 : accesses > 4 ? 8 : 4;
  const std::int64_t lanes = accesses % 8 == 0 ? 8 : accesses % 4 == 0 ? 4 : few_lanes;
  const std::int64_t each = (accesses + lanes - 1) / lanes;
  return prepare_threads / lanes * (each == 1 ? 4 : each <= 3 ? 2 : 1);
}

std::int64_t prepare_blocks(const Settings& settings, const Params& params) {
  if (params.rows == 0) return 0;
  const std::int64_t heads = params.rows / params.statistics_rows;  // of all batch entries
  return tiles(heads * tiles(params.statistics_rows, prepare_neighbours) * prepare_neighbours, prepare_rows(settings));
}

Argument argument_of(const TypedConfig& config, const Settings& settings) {
  const bool wgmma = config.variant == Variant::wgmma;
  if (!settings.daux.empty())
    return wgmma ? Argument{"WgmmaBackwardAuxParams", "(params.wgmma)", "params.wgmma.backward",
                            sizeof(WgmmaBackwardAuxParams)}
                 : Argument{"AttentionBackwardAuxParams", "(params.backward)", "params.backward",
                            sizeof(AttentionBackwardAuxParams)};
  return wgmma ? Argument{"WgmmaBackwardParams", "(params)", "params.backward", sizeof(WgmmaBackwardParams)}
               : Argument{"AttentionBackwardParams", "(params)", "params", sizeof(Params)};
}

const char* keys_kernel(const TypedConfig& config) {
  return config.separate_dq() ? "attention_backward_keys" : "attention_backward";
}

bool has_heads_kernel(const Settings& settings) { return settings.dsinks || settings.dslopes; }

Workspace workspace_of(const TypedConfig& config, const Settings& settings) {
  constexpr std::int64_t alignment = 256;
  const attention::Settings& forward = settings.forward;
  const auto aligned = [](std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; };
  const std::int64_t mask =
      forward.mask_mod.empty() ? 0 : attention::block_mask_at + 4 * attention::BlockMaskLayout::of(forward).elements();
  const std::int64_t rows = all_statistics_rows(config, settings), row_bytes = aligned(4 * rows);
  Workspace at{};
  at.lse = aligned(mask);
  at.delta = at.lse + row_bytes;
  at.slopes = at.delta + row_bytes;
  const std::int64_t parts =
      settings.dslopes ? forward.heads * forward.batch * slope_tiles(config, settings) * parts_of_tile(config) : 0;
  at.sums = at.slopes + aligned(4 * parts);
  at.counters = at.sums + (config.has_sums() ? 4 * rows * sums_columns(config, settings) : 0);
  at.aux = aligned(at.counters + 4 * counter_words(config, settings, rows));
  at.end = at.aux + aux_workspace_bytes(settings);
  return at;
}

Params parameters(const TypedConfig& config, const Settings& settings, const DeviceInfo& device) {
  const attention::Settings& forward = settings.forward;
  Params params{};
  params.attention = attention::parameters_of(forward);
  if (settings.rows() > 0)
    params.attention.q_tiles = static_cast<std::int32_t>(tiles(forward.seq_q, config.kept(Pass::queries)));
  params.attention.splits = 1;
  params.dropout = attention::dropout_of(forward);
  params.dout_strides = attention::strides_of(settings.dout);
  params.dq_strides = attention::strides_of(settings.dq);
  params.dk_strides = attention::strides_of(settings.dk);
  params.dv_strides = attention::strides_of(settings.dv);
  const Workspace workspace = workspace_of(config, settings);
  params.statistics_rows = statistics_rows(config, settings);
  params.rows = all_statistics_rows(config, settings);
  params.lse_at = workspace.lse;
  params.delta_at = workspace.delta;
  params.slopes_at = workspace.slopes;
  params.sums_at = workspace.sums;
  params.counters_at = workspace.counters;
  params.counter_words = counter_words(config, settings, params.rows);
  params.prepare_stride = prepare_blocks(settings, params) * prepare_threads;
  params.slope_parts = static_cast<std::int32_t>(slope_tiles(config, settings) * parts_of_tile(config));
  params.parts_of_tile = static_cast<std::int32_t>(parts_of_tile(config));
  params.kv_tiles = static_cast<std::int32_t>(tiles(forward.seq_kv, config.kept(Pass::keys)));
  params.blocks = static_cast<std::int32_t>(params.kv_tiles * forward.kv_heads * forward.batch);
  if (config.cluster > 0) {  // WgmmaKeys then numbers the blocks of a key head one after another
    params.kv_tiles = config.cluster;
    params.attention.heads_per_section = 1;
  } else if (config.variant == Variant::wgmma) {
    std::int64_t blocks = params.kv_tiles * config.blocks_of_tile();  // of a key head
    if (config.separate_dq()) blocks = std::min(blocks, params.attention.q_tiles * forward.group());
    params.attention.heads_per_section = heads_per_section(blocks, settings, device, config.has_sums());
  }
  return params;
}

std::uint32_t pointer_offset(std::string_view array, const Settings& settings, bool wgmma) {
  for (std::size_t i = 0; i < settings.forward.aux.size(); ++i)
    if (const std::string* const gradient = settings.daux.array_of(settings.forward.aux[i].name);
        gradient != nullptr && array == *gradient)
      return static_cast<std::uint32_t>(
          (wgmma ? offsetof(WgmmaBackwardAuxParams, aux) : offsetof(AttentionBackwardAuxParams, aux)) +
          offsetof(AuxGradients, to) + i * sizeof(float*));
  static constexpr std::array<ArrayPlace, 8> own{
      {{"rng_state", offsetof(Params, dropout) + offsetof(AttentionDropout, rng_state)},
       {"dout", offsetof(Params, dout)},
       {"dlse", offsetof(Params, dlse)},
       {"dq", offsetof(Params, dq)},
       {"dk", offsetof(Params, dk)},
       {"dv", offsetof(Params, dv)},
       {"dsinks", offsetof(Params, dsinks)},
       {"dslopes", offsetof(Params, dslopes)}}};
  if (std::ranges::find(own, array, &ArrayPlace::array) != own.end()) return offset_of(array, own);
  return offsetof(Params, attention) + attention::pointer_offset(array, settings.forward);
}

}  // namespace tunesmith::attention_backward
